// What a front counts, as its page of metrics shows it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "base/strings.h"
#include "server/edge/testing/test_upload.h"
#include "server/edge/testing/test_worker.h"
#include "server/front/front_server.h"
#include "server/front/testing/front_test.h"
#include "server/metrics/page.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;

double ValueOf(const FrontServer& front, const std::string& series) {
  metrics::Page page;
  front.AddMetrics(page);
  const std::size_t at = page.text().find(Cat("\n", series, " "));
  return at == std::string::npos ? -1 : std::stod(page.text().substr(at + series.size() + 2));
}

TEST(FrontMetricsTest, CountWhatIsPassedOnAndWhatIsNot) {
  auto worker = std::make_unique<TestWorker>(FreshSocketAddress(), "one");
  FrontOptions options;
  options.listen = {FreshSocketAddress()};
  for (const std::string& address : {worker->address(), FreshSocketAddress()}) {
    options.workers.workers.push_back(*routing::ParseWorkerAddress(address));
  }
  options.workers.check_times = {.interval = milliseconds(20), .max_interval = milliseconds(50)};
  auto front = FrontServer::Start(options);
  ASSERT_TRUE(front.ok()) << front.status();
  const auto value = [&](const std::string& series) { return ValueOf(**front, series); };
  const auto channel = ConnectTo((*front)->addresses()[0]);
  EXPECT_EQ(value("kerf_front_workers{state=\"live\"}"), 1);
  EXPECT_EQ(value("kerf_front_workers{state=\"lost\"}"), 1);
  const std::string content(1'000'000, 'x');
  {
    TestUpload upload(channel, /*read=*/true, "a-key");
    ASSERT_TRUE(upload.SendOpen(OpenFor("home")));
    ASSERT_TRUE(upload.SendFile(content, 100'000));
    ASSERT_TRUE(upload.WaitForChunks(1, content.size()));
    EXPECT_EQ(value("kerf_front_calls"), 1);
    upload.WritesDone();
    EXPECT_TRUE(upload.WaitForEnd().ok());
  }
  EXPECT_GT(value("kerf_front_forwarded_bytes_total{direction=\"to_worker\"}"), content.size());
  EXPECT_LT(value("kerf_front_forwarded_bytes_total{direction=\"to_worker\"}"),
            1.1 * static_cast<double>(content.size()));
  EXPECT_GT(value("kerf_front_forwarded_bytes_total{direction=\"to_client\"}"), 100);
  EXPECT_EQ(value("kerf_front_calls_started_total"), 1);
  EXPECT_EQ(value("kerf_front_calls_ended_total{reason=\"PASSED_ON\"}"), 1);
  TestUpload wrong(channel, /*read=*/true, std::string(200, 'k'));
  EXPECT_EQ(ReasonOf(wrong.WaitForEnd()), "BAD_FIELD");
  EXPECT_EQ(value("kerf_front_calls_refused_total{reason=\"BAD_FIELD\"}"), 1);
  worker.reset();
  for (int round = 0; round < 1000 && (*front)->live_worker_count() > 0; ++round) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  TestUpload lost(channel, /*read=*/true, "a-key");
  EXPECT_EQ(ReasonOf(lost.WaitForEnd()), "NO_WORKER");
  EXPECT_EQ(value("kerf_front_calls_refused_total{reason=\"NO_WORKER\"}"), 1);
  EXPECT_EQ(value("kerf_front_workers{state=\"lost\"}"), 2);
  metrics::Page page;
  (*front)->AddMetrics(page);
  for (const metrics::Metric* metric : metrics::AllMetrics()) {
    EXPECT_EQ(page.text().find(Cat("# TYPE ", metric->name, " ")) != std::string::npos,
              metric->where == metrics::Where::kFronts)
        << metric->name;
  }
  (*front)->Stop();
}

class FrontStallTest : public FrontTest {
 protected:
  // A front that is looked after by the test, in the test's time.
  std::shared_ptr<grpc::Channel> StartWatched(const std::string& worker) {
    FrontOptions options = Options({worker});
    options.watchdog_interval = milliseconds(0);
    options.stall_warn = milliseconds(1000);
    // Asked by threads of the front.
    options.clock = [now_ms = now_ms_] { return TimePoint(milliseconds(now_ms->load())); };
    return StartAndConnect(options);
  }
  double Stalled(const std::string& place) {
    return ValueOf(front(), Cat("kerf_front_stalled_calls{place=\"", place, "\"}"));
  }
  double Stalls(const std::string& place) {
    return ValueOf(front(), Cat("kerf_front_stalls_total{place=\"", place, "\"}"));
  }
  // Whether the only call comes to wait there, and nowhere else.
  bool StallsAt(const std::string& place) {
    return Eventually([&] {
      front().CheckTimeouts();
      *now_ms_ += 1000;
      front().CheckTimeouts();
      return Stalled(place) == 1;
    });
  }

  const std::shared_ptr<std::atomic<std::int64_t>> now_ms_ =
      std::make_shared<std::atomic<std::int64_t>>(1'000'000);
};

TEST_F(FrontStallTest, ACallIsToldOfWithTheSideThatItWaitsFor) {
  std::promise<void> reads;
  std::promise<void> reads_on;
  ScriptedWorker worker(
      [read = reads.get_future().share(), read_on = reads_on.get_future().share()](
          grpc::ServerContext& /*context*/, ScriptedWorker::Stream& stream) {
        v1::UploadRequest request;
        read.wait();
        stream.Read(&request);
        read_on.wait();
        while (stream.Read(&request)) {
        }
        // More than lies between a front and a client.
        v1::UploadResponse response;
        response.add_answers()->mutable_opened()->set_worker(std::string(1'000'000, 'x'));
        for (int count = 0; count < 16; ++count) stream.Write(response);
        return grpc::Status::OK;
      });
  const auto channel = StartWatched(worker.address());
  testing::internal::CaptureStderr();
  TestUpload upload(channel, /*read=*/false);
  const bool waits_for_client = StallsAt("client_data");
  upload.SendOpen(OpenFor("home"));
  const bool waits_for_answer = StallsAt("worker_answer");
  reads.set_value();
  std::thread sender([&] {
    const std::string content(1'000'000, 'x');
    for (int count = 0; count < 4; ++count) {
      upload.SendFrame([&](v1::UploadFrame& frame) { frame.set_data(content); });
    }
    upload.WritesDone();
  });
  const bool waits_for_worker = StallsAt("worker_reading");
  reads_on.set_value();
  sender.join();
  const bool waits_for_reader = StallsAt("client_reading");
  upload.StartReading();
  const bool is_ok = upload.WaitForEnd().ok();
  const bool goes_on = Eventually([&] {
    front().CheckTimeouts();
    return Stalled("client_reading") == 0;
  });
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(waits_for_client && waits_for_answer && waits_for_worker && waits_for_reader)
      << waits_for_client << waits_for_answer << waits_for_worker << waits_for_reader;
  EXPECT_TRUE(is_ok && goes_on);
  for (
      const char* text :
      {"info stream waits place=client_data waited_ms=1000 method=/kerf.v1.ChunkingService/Upload ",
       "info stream waits place=worker_answer waited_ms=", "info stream goes on place=client_data ",
       "warning stream waits place=worker_reading waited_ms=",
       "info stream waits place=client_reading waited_ms=", " request_id=", " peer="}) {
    EXPECT_NE(log.find(text), std::string::npos) << text << "\n" << log;
  }
  EXPECT_NE(log.find(Cat(" worker=", worker.address(), "\n")), std::string::npos) << log;
}

TEST_F(FrontStallTest, WhoeverOnlyKeepsItsPlaceHasComeNoFurther) {
  // Counted by threads of the worker.
  const auto read_count = std::make_shared<std::atomic<int>>(0);
  ScriptedWorker worker(
      [read_count](grpc::ServerContext& /*context*/, ScriptedWorker::Stream& stream) {
        v1::UploadRequest request;
        while (stream.Read(&request)) ++*read_count;
        return grpc::Status::OK;
      });
  TestUpload upload(StartWatched(worker.address()));
  int sent_count = 0;
  const auto pass_on = [&](const v1::UploadRequest& request) {
    upload.Send(request);
    ++sent_count;
    return Eventually([&] { return *read_count == sent_count; });
  };
  // Whether the call is told of although an empty message passes in each 900 of the 1000 ms. A look
  // may see one that is still on its way.
  const auto stalls_at = [&](const std::string& place) {
    for (int round = 0; round < 40 && pass_on({}); ++round) {
      front().CheckTimeouts();
      if (Stalled(place) == 1) return true;
      *now_ms_ += 900;
    }
    return false;
  };
  EXPECT_TRUE(stalls_at("client_data"));
  // Or a worker would be blamed for its client.
  EXPECT_EQ(Stalls("worker_answer"), 0);
  v1::UploadRequest open;
  *open.add_frames()->mutable_open() = OpenFor("home");
  ASSERT_TRUE(pass_on(open));
  EXPECT_TRUE(stalls_at("worker_answer"));
  EXPECT_EQ(Stalls("client_data"), 1);
}

TEST_F(FrontStallTest, AnUploadThatIsIdleDoesNotStall) {
  TestWorker worker(FreshSocketAddress(), "one");
  TestUpload upload(StartWatched(worker.address()));
  ASSERT_TRUE(upload.SendOpen(OpenFor("home")));
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  ASSERT_TRUE(Eventually([&] {
    front().CheckTimeouts();
    return Stalled("worker_answer") == 0;
  }));
  const double before = Stalls("worker_answer");
  front().CheckTimeouts();
  *now_ms_ += 20'000;
  front().CheckTimeouts();
  EXPECT_EQ(Stalls("worker_answer"), before);
  EXPECT_EQ(Stalls("client_data"), 0);
}

}  // namespace
}  // namespace kerf
