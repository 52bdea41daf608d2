// What hints cost in memory for each chunk: in the cache, which must not hold more than it says,
// and in Redis. docs/adr/0009 has the figures:
//   bazel test //server/hints:hint_memory_test --test_output=all
#include <gtest/gtest.h>
#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <future>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/units.h"
#include "server/hints/hint_cache.h"
#include "server/hints/redis_segment_store.h"
#include "server/hints/segment_recorder.h"
#include "server/hints/testing/conformance.h"
#include "server/hints/testing/hints_test_util.h"
#include "server/redis/testing/test_redis.h"
#include "server/redis/testing/used_memory.h"

namespace kerf {
namespace {

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

constexpr std::size_t kChunks = 200'000;

// Keeps what a recorder makes.
class Collector final : public SegmentStore {
 public:
  void FindByAnchor(const HintScope&, const Digest&, FindDone done) override { done(std::nullopt); }
  void Fetch(const HintScope&, const SegmentId&, FetchDone done) override { done(std::nullopt); }
  void Put(const HintScope&, std::vector<StoredSegment> put, PutDone done) override {
    for (StoredSegment& segment : put) segments.push_back(std::move(segment));
    done(absl::OkStatus());
  }
  std::string_view backend_name() const override { return "collector"; }

  std::vector<StoredSegment> segments;
};

void RecordFile(const std::shared_ptr<HintCache>& cache,
                const std::shared_ptr<const HintScope>& scope,
                const std::vector<RunChunk>& chunks) {
  SegmentRecorder recorder(cache, scope, 64 << 20);
  recorder.BeginFile(1, 0);
  std::uint64_t end_offset = 0;
  for (const RunChunk& chunk : chunks) {
    recorder.Add(chunk);
    end_offset += chunk.length_bytes;
    recorder.Committed(1, end_offset);
  }
  recorder.EndFile();
  recorder.Done(1);
}

// The heap's bytes in use; 0 with a sanitizer's allocator.
std::size_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(HintMemory, TheCacheHoldsNoMoreThanItSays) {
  Random random(TestSeed());
  const auto scope = TestScope();
  const auto chunks = RandomChunks(random, kChunks);
  HintCacheOptions options;
  options.capacity_bytes = 1 << 30;
  const std::size_t before = HeapBytes();
  const auto cache = HintCache::Create(options, nullptr);
  RecordFile(cache, scope, chunks);
  const std::size_t held = HeapBytes() - before;
  const HintCounters counters = cache->counters();
  EXPECT_LE(held, counters.held_bytes + 128 * kKiB);
  const auto per_chunk = [](std::size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(kChunks);
  };
  std::printf("cache: %zu chunks in %llu segments: %.1f bytes a chunk, counted as %.1f\n", kChunks,
              static_cast<unsigned long long>(counters.held_segments), per_chunk(held),
              per_chunk(counters.held_bytes));

  // Nor after ten times as much has gone through it.
  options.capacity_bytes = 4 * kMiB;
  const std::size_t before_small = HeapBytes();
  const auto small = HintCache::Create(options, nullptr);
  for (int round = 0; round < 3; ++round) {
    RecordFile(small, scope, RandomChunks(random, kChunks));
  }
  EXPECT_GT(small->counters().evictions, 100u);
  EXPECT_LE(HeapBytes() - before_small, options.capacity_bytes + 256 * kKiB);
}

std::uint64_t UsedMemory(RedisClient& client, const RedisAddress& node) {
  std::promise<std::string> answer;
  client.Send({"", node, {"INFO", "memory"}}, [&answer](const absl::StatusOr<RedisReply>& reply) {
    answer.set_value(reply.ok() ? reply->text : "");
  });
  return UsedMemoryIn(answer.get_future().get());
}

TEST(HintMemory, Redis) {
  Random random(TestSeed());
  const auto scope = TestScope();
  Collector collector;
  RecordFile(HintCache::Create({}, &collector), scope, RandomChunks(random, kChunks));
  std::size_t anchors = 0;
  std::size_t value_bytes = 0;
  for (const StoredSegment& segment : collector.segments) {
    anchors += segment.anchors.size();
    value_bytes += segment.bytes.size();
  }

  TestRedis redis(TestRedis::Kind::kSingle);
  const auto client = RedisClient::Create(redis.options());
  ASSERT_TRUE(client.ok()) << client.status();
  RedisSegmentOptions options;
  options.redis = redis.options();
  options.timeout = std::chrono::seconds(60);
  const auto store = CreateRedisSegmentStore(std::move(options));
  ASSERT_TRUE(store.ok()) << store.status();
  const RedisAddress& node = redis.addresses().front();
  // Both connections are made, and their buffers.
  ASSERT_TRUE(PutAndWait(**store, *scope, {collector.segments.front()}).ok());
  const std::uint64_t before = UsedMemory(**client, node);
  std::uint64_t segments_only = 0;
  for (const bool with_anchors : {false, true}) {
    for (const StoredSegment& segment : collector.segments) {
      StoredSegment put = segment;
      if (!with_anchors) put.anchors.clear();
      ASSERT_TRUE(PutAndWait(**store, *scope, {put}).ok());
    }
    if (!with_anchors) segments_only = UsedMemory(**client, node) - before;
  }
  const std::uint64_t all = UsedMemory(**client, node) - before;
  const auto per_chunk = [](std::uint64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(kChunks);
  };
  std::printf(
      "Redis: %zu chunks in %zu segments with %zu anchors: %.1f bytes a chunk, of which %.1f "
      "segments (%.1f their values) and %.1f anchors\n",
      kChunks, collector.segments.size(), anchors, per_chunk(all), per_chunk(segments_only),
      per_chunk(value_bytes), per_chunk(all - segments_only));
  EXPECT_LT(per_chunk(all), 70);
}

}  // namespace
}  // namespace kerf
