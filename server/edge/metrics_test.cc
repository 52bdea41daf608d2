// What a server counts while it serves, as its page of metrics shows it.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/units.h"
#include "base/version.h"
#include "kerf/v1/status.grpc.pb.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/memory_index.h"
#include "server/metrics/page.h"

namespace kerf {
namespace {

std::string PageOf(const Server& server) {
  metrics::Page page;
  server.AddMetrics(page);
  return page.text();
}

// The value of one line of the page, -1 if it is not there.
double ValueOf(const std::string& page, const std::string& series) {
  const std::size_t at = page.find(Cat("\n", series, " "));
  return at == std::string::npos ? -1 : std::stod(page.substr(at + series.size() + 2));
}

class MetricsTest : public testing::Test {
 protected:
  MetricsTest() {
    ServerOptions options;
    options.listen = {FreshSocketAddress()};
    options.max_streams = 2;
    server_ = *Server::Start(options, index_.get());
    channel_ = ConnectTo(server_->addresses().front());
  }
  ~MetricsTest() override { server_->Stop(); }

  double Value(const std::string& series) { return ValueOf(PageOf(*server_), series); }
  // The client knows that its stream has ended before the server has cleared it away.
  double ValueOnceCleared(const std::string& series) {
    for (int round = 0; round < 1000 && Value(series) != 0; ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return Value(series);
  }

  const std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(MetricsTest, CountsWhatStreamsDo) {
  std::string content(kMiB, '\0');
  Random(TestSeed()).Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
  std::size_t chunk_count = 0;
  for (int round = 0; round < 2; ++round) {
    TestUpload upload(channel_);
    ASSERT_TRUE(upload.SendOpen(OpenFor("r")));
    ASSERT_TRUE(upload.SendFile(content, 100'000));
    ASSERT_TRUE(upload.WaitForChunks(1, content.size()));
    EXPECT_EQ(Value("kerf_streams"), 1);
    ASSERT_TRUE(upload.CommitAnswered());
    ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_committed).has_value());
    chunk_count = PlainRecipe(content, OpenFor("r")).size();
    upload.WritesDone();
    EXPECT_TRUE(upload.WaitForEnd().ok());
  }
  EXPECT_EQ(Value("kerf_chunks_total{verdict=\"new\"}"), chunk_count);
  EXPECT_EQ(Value("kerf_chunks_total{verdict=\"duplicate\"}"), chunk_count);
  EXPECT_EQ(Value("kerf_chunks_total{verdict=\"unverified\"}"), 0);
  EXPECT_EQ(Value("kerf_chunk_bytes_total{verdict=\"new\"}"), content.size());
  EXPECT_EQ(Value("kerf_chunk_bytes_total{verdict=\"duplicate\"}"), content.size());
  EXPECT_EQ(Value("kerf_chunk_size_bytes_count"), 2 * chunk_count);
  EXPECT_EQ(Value("kerf_chunk_size_bytes_sum"), 2 * content.size());
  // fastcdc2020-8k: chunks are of 2 to 64 KiB, but for the last one.
  EXPECT_LE(Value("kerf_chunk_size_bytes_bucket{le=\"1024\"}"), 2);
  EXPECT_EQ(Value("kerf_chunk_size_bytes_bucket{le=\"65536\"}"), 2 * chunk_count);
  EXPECT_GT(Value("kerf_ingest_bytes_total"), 2 * content.size());
  EXPECT_LT(Value("kerf_ingest_bytes_total"), 2.1 * content.size());
  EXPECT_EQ(Value("kerf_cut_bytes_total{how=\"scanned\"}"), 2 * content.size());
  EXPECT_EQ(Value("kerf_streams_started_total"), 2);
  EXPECT_EQ(Value("kerf_streams_ended_total{reason=\"OK\"}"), 2);
  EXPECT_EQ(ValueOnceCleared("kerf_streams"), 0);
  EXPECT_EQ(ValueOnceCleared("kerf_pending_bytes"), 0);
  EXPECT_EQ(ValueOnceCleared("kerf_memory_bytes{budget=\"work\"}"), 0);
  EXPECT_EQ(Value("kerf_memory_limit_bytes{budget=\"work\"}"), kGiB / 2);
  // The second time nothing is new.
  EXPECT_EQ(Value("kerf_index_operations_total{operation=\"commit\",result=\"ok\"}"), 1);
  EXPECT_EQ(Value("kerf_index_operations_total{operation=\"commit\",result=\"failed\"}"), 0);
  EXPECT_GT(Value("kerf_index_operations_total{operation=\"lookup\",result=\"ok\"}"), 1);
  for (const char* stage : {"queue", "cut", "hash", "lookup", "commit"}) {
    EXPECT_GT(Value(Cat("kerf_stage_seconds_sum{stage=\"", stage, "\"}")), 0) << stage;
    EXPECT_LT(Value(Cat("kerf_stage_seconds_sum{stage=\"", stage, "\"}")), 600) << stage;
  }
  for (const char* stage : {"gpu", "h2d", "mark", "select", "gpu_hash", "d2h"}) {
    EXPECT_EQ(Value(Cat("kerf_stage_seconds_count{stage=\"", stage, "\"}")), 0) << stage;
  }
}

TEST_F(MetricsTest, TheStatusServiceTellsTheSame) {
  const auto ask = [&] {
    grpc::ClientContext context;
    v1::GetStatusResponse response;
    EXPECT_TRUE(v1::StatusService::NewStub(channel_)->GetStatus(&context, {}, &response).ok());
    return response.counts();
  };
  EXPECT_EQ(ask().ingest_byte_count(), 0u);
  std::string content(kMiB, '\0');
  Random(TestSeed()).Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(OpenFor("r")));
  ASSERT_TRUE(upload.SendFile(content, 100'000));
  ASSERT_TRUE(upload.WaitForChunks(1, content.size()));
  ASSERT_TRUE(upload.CommitAnswered());
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_committed).has_value());
  ASSERT_TRUE(upload.SendFile(content, 100'000));
  ASSERT_TRUE(upload.WaitForChunks(2, content.size()));
  const std::size_t chunk_count = PlainRecipe(content, OpenFor("r")).size();
  const v1::WorkerCounts counts = ask();
  EXPECT_EQ(counts.worker(), "kerfd");
  EXPECT_EQ(counts.version(), kVersion);
  EXPECT_NE(counts.process(), 0u);
  EXPECT_EQ(counts.process(), ask().process());
  EXPECT_LT(counts.uptime_ms(), 600'000u);
  EXPECT_FALSE(counts.draining());
  EXPECT_EQ(counts.stream_count(), 1u);
  EXPECT_EQ(counts.max_stream_count(), 2u);
  EXPECT_EQ(counts.stalled_stream_count(), 0u);
  EXPECT_EQ(counts.ingest_byte_count(), Value("kerf_ingest_bytes_total"));
  EXPECT_EQ(counts.new_chunk_count(), chunk_count);
  EXPECT_EQ(counts.duplicate_chunk_count(), chunk_count);
  EXPECT_EQ(counts.unverified_chunk_count(), 0u);
  EXPECT_EQ(counts.new_byte_count(), content.size());
  EXPECT_EQ(counts.duplicate_byte_count(), content.size());
  EXPECT_EQ(counts.unverified_byte_count(), 0u);
  EXPECT_EQ(counts.max_memory_byte_count(), kGiB / 2 + kGiB / 4);
  EXPECT_LE(counts.pending_byte_count(), counts.memory_byte_count());
  EXPECT_LE(counts.memory_byte_count(), counts.max_memory_byte_count());
  server_->BeginDrain(std::chrono::milliseconds(1000));
  EXPECT_TRUE(ask().draining());
}

TEST_F(MetricsTest, CountsWhyStreamsAreRefusedAndHowTheyEnd) {
  {
    TestUpload first(channel_);
    TestUpload second(channel_);
    ASSERT_TRUE(first.SendOpen(OpenFor("r")));
    ASSERT_TRUE(second.SendOpen(OpenFor("r")));
    ASSERT_TRUE(first.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
    ASSERT_TRUE(second.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
    TestUpload third(channel_);
    EXPECT_EQ(ReasonOf(third.WaitForEnd()), "TOO_MANY_STREAMS");
    ASSERT_TRUE(first.SendOpen(OpenFor("r")));
    EXPECT_EQ(ReasonOf(first.WaitForEnd()), "FRAME_ORDER");
    server_->BeginDrain(std::chrono::milliseconds(1000));
    ASSERT_TRUE(second.WaitForAnswer(&v1::UploadAnswer::has_go_away).has_value());
    second.WritesDone();
    EXPECT_EQ(ReasonOf(second.WaitForEnd()), "DRAINING");
  }
  TestUpload late(channel_);
  EXPECT_EQ(ReasonOf(late.WaitForEnd()), "DRAINING");
  EXPECT_EQ(Value("kerf_streams_refused_total{reason=\"TOO_MANY_STREAMS\"}"), 1);
  EXPECT_EQ(Value("kerf_streams_refused_total{reason=\"DRAINING\"}"), 1);
  EXPECT_EQ(Value("kerf_streams_refused_total{reason=\"INTERNAL\"}"), 0);
  EXPECT_EQ(Value("kerf_streams_ended_total{reason=\"FRAME_ORDER\"}"), 1);
  EXPECT_EQ(Value("kerf_streams_ended_total{reason=\"DRAINING\"}"), 1);
  EXPECT_EQ(Value("kerf_streams_ended_total{reason=\"OK\"}"), 0);
  EXPECT_EQ(Value("kerf_streams_started_total"), 2);
  EXPECT_EQ(Value("kerf_goaways_total"), 1);
}

TEST_F(MetricsTest, ShowsEveryMetricOfAWorkerWithoutDiskRedisHintsGpusAndAccess) {
  const std::string page = PageOf(*server_);
  for (const metrics::Metric* metric : metrics::AllMetrics()) {
    const std::string_view name = metric->name;
    const bool is_of_a_part = name.starts_with("kerf_gpu") || name.starts_with("kerf_redis_") ||
                              name.starts_with("kerf_hint_") ||
                              name.starts_with("kerf_index_disk_") ||
                              name.starts_with("kerf_quota_");
    const bool is_expected = metric->where == metrics::Where::kWorkers && !is_of_a_part;
    EXPECT_EQ(page.find(Cat("# TYPE ", name, " ")) != std::string::npos, is_expected) << name;
  }
}

}  // namespace
}  // namespace kerf
