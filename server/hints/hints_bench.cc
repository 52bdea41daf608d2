// What hints cost in time: what every thread does under the cache's lock, and what opening a
// segment costs. 1,024 chunks a segment.
#include <benchmark/benchmark.h>

#include "base/random.h"
#include "server/hints/hint_cache.h"
#include "server/hints/testing/hints_test_util.h"

namespace kerf {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kSegments = 64;

std::vector<HintCache::NewSegment> Segments(const HintScope& scope) {
  Random random(kSeed);
  std::vector<HintCache::NewSegment> segments;
  segments.reserve(kSegments);
  for (std::size_t count = 0; count < kSegments; ++count) {
    segments.push_back(NewSegmentOf(scope, RunKey(), RandomChunks(random, kMaxSegmentChunks)));
  }
  return segments;
}

void BM_Find(benchmark::State& state) {
  const auto scope = TestScope();
  const auto segments = Segments(*scope);
  const auto cache = HintCache::Create({}, nullptr);
  cache->Keep(scope, segments);
  std::size_t at = 0;
  while (state.KeepRunning()) {
    at = (at + 7919) % (kSegments * kMaxSegmentChunks);
    const RunChunk& chunk = segments[at / kMaxSegmentChunks].run->chunks()[at % kMaxSegmentChunks];
    benchmark::DoNotOptimize(cache->Find(*scope, chunk.digest));
  }
}
BENCHMARK(BM_Find);

// Of a full cache: one segment goes for each that comes.
void BM_Keep(benchmark::State& state) {
  const auto scope = TestScope();
  const auto segments = Segments(*scope);
  HintCacheOptions options;
  options.capacity_bytes = std::size_t{kSegments / 2} * kMaxSegmentChunks * 84;
  const auto cache = HintCache::Create(options, nullptr);
  cache->Keep(scope, segments);
  std::size_t at = 0;
  while (state.KeepRunning()) {
    at = (at + 1) % kSegments;
    cache->Keep(scope, {segments[at]});
  }
}
BENCHMARK(BM_Keep);

void BM_Seal(benchmark::State& state) {
  const auto scope = TestScope();
  const auto segments = Segments(*scope);
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(SealRun(RunKey(), scope->repository(), *segments[0].run));
  }
}
BENCHMARK(BM_Seal);

void BM_Open(benchmark::State& state) {
  const auto scope = TestScope();
  const auto segments = Segments(*scope);
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(OpenRun(RunKey(), scope->repository(), scope->profile(),
                                     scope->digest_algorithm(), segments[0].sealed_run));
  }
}
BENCHMARK(BM_Open);

}  // namespace
}  // namespace kerf

BENCHMARK_MAIN();
