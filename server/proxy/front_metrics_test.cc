// What a front counts, as its page of metrics shows it.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/strings.h"
#include "server/front/testing/test_upload.h"
#include "server/front/testing/test_worker.h"
#include "server/metrics/page.h"
#include "server/proxy/front_server.h"

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

}  // namespace
}  // namespace kerf
