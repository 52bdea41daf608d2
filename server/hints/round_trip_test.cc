// One worker stores a file, another one that knows only the store cuts its next version.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "base/random.h"
#include "base/test_seed.h"
#include "base/units.h"
#include "kernels/chunker.h"
#include "kernels/rapid/rapid_cutter.h"
#include "kernels/rapid/testing/memory_hints.h"
#include "kernels/rapid/testing/small_profiles.h"
#include "server/hints/hint_cache.h"
#include "server/hints/hint_view.h"
#include "server/hints/memory_segment_store.h"
#include "server/hints/segment_recorder.h"
#include "server/hints/testing/late_segment_store.h"

namespace kerf {
namespace {

using Bytes = std::vector<std::uint8_t>;
using ScopePtr = std::shared_ptr<const HintScope>;

constexpr DigestAlgorithm kDigest = DigestAlgorithm::kBlake3;
constexpr std::size_t kFileBytes = 600'000;
constexpr std::size_t kWindowBytes = 16 << 10;
constexpr std::size_t kMaxHeldBytes = 8 << 20;

Profile ProfileOf(std::string_view text) {
  const auto profile = ParseProfile(text);
  KERF_CHECK(profile.ok());
  return *profile;
}

HintCacheOptions OptionsWith(std::uint8_t key_byte) {
  HintCacheOptions options;
  options.key.bytes.fill(key_byte);
  return options;
}

// What the recorder is told of a file that was cut and committed.
void Record(const std::shared_ptr<HintCache>& cache, const ScopePtr& scope,
            const std::vector<RunChunk>& chunks) {
  SegmentRecorder recorder(cache, scope, kMaxHeldBytes);
  recorder.BeginFile(1, 0);
  for (const RunChunk& chunk : chunks) recorder.Add(chunk);
  recorder.EndFile();
  recorder.Done(1);
}

struct Cut {
  std::vector<RunChunk> chunks;
  RapidCounters counters;
};

// Cuts as a worker does: what it has cut it looks up, and what is a duplicate it wants to know more
// of. Of what it fetches some comes after each step.
Cut CutWithHints(const Chunker& base, const std::shared_ptr<HintCache>& cache,
                 const ScopePtr& scope, LateSegmentStore& late, std::size_t delivered,
                 const absl::flat_hash_set<std::uint64_t>& index, const Bytes& bytes) {
  HintView view(cache, scope);
  RapidCutter cutter(&base, scope->profile(), {kDigest, std::nullopt, {}}, &view);
  cutter.BeginFile();
  Cut cut;
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::size_t window = std::min(kWindowBytes, bytes.size() - done);
    std::vector<RapidChunk> chunks;
    const std::size_t got =
        cutter.Cut(std::span(bytes).subspan(done, window), done + window == bytes.size(), &chunks);
    const bool begins_file = cut.chunks.empty();
    std::vector<Digest> duplicates;
    for (const RapidChunk& chunk : chunks) {
      done += chunk.length_bytes;
      cut.chunks.push_back(
          {chunk.digest, static_cast<std::uint32_t>(chunk.length_bytes), bytes[done - 1]});
      if (index.contains(DigestHash()(chunk.digest))) duplicates.push_back(chunk.digest);
    }
    view.Duplicates(duplicates, begins_file);
    KERF_CHECK(got > 0);
    late.Deliver(delivered);
  }
  cut.counters = cutter.counters();
  return cut;
}

TEST(RoundTrip, CutsAreThePlainOnesAndMostIsNotScanned) {
  Random random(TestSeed());
  for (const std::string_view text : kSmallProfiles) {
    SCOPED_TRACE(text);
    const auto scope =
        std::make_shared<const HintScope>(RepositoryId{"photos", kDigest}, ProfileOf(text));
    const std::unique_ptr<Chunker> base = MakeChunker(scope->profile());
    Bytes first(kFileBytes);
    random.Fill(first);
    const Bytes second = Edited(random, first, 8, 300);
    const auto store = CreateMemorySegmentStore(64 * kMiB);
    LateSegmentStore late(store.get());

    const std::vector<RunChunk> old = CutPlainly(*base, kDigest, first);
    Record(HintCache::Create(OptionsWith(1), &late), scope, old);
    const auto cache = HintCache::Create(OptionsWith(1), &late);
    absl::flat_hash_set<std::uint64_t> index;
    for (const RunChunk& chunk : old) index.insert(DigestHash()(chunk.digest));
    const std::vector<RunChunk> expected = CutPlainly(*base, kDigest, second);
    std::uint64_t old_bytes = 0;
    for (const RunChunk& chunk : expected) {
      if (index.contains(DigestHash()(chunk.digest))) old_bytes += chunk.length_bytes;
    }
    const Cut cut = CutWithHints(*base, cache, scope, late, 1 + random.Below(3), index, second);
    EXPECT_EQ(cut.chunks == expected, true);
    EXPECT_GE(cut.counters.bytes_skipped + kFileBytes / 4, old_bytes);
    EXPECT_EQ(cache->counters().fetches_refused, 0u);
    // Once the index is warm nothing is asked for twice.
    const std::uint64_t fetches = cache->counters().fetches;
    const Cut again = CutWithHints(*base, cache, scope, late, 1, index, second);
    EXPECT_EQ(again.chunks == expected, true);
    EXPECT_LE(cache->counters().fetches, fetches + 2);

    // Who has another key sees nothing, and neither does another repository.
    const auto other_key = HintCache::Create(OptionsWith(2), &late);
    const Cut without = CutWithHints(*base, other_key, scope, late, 3, index, second);
    EXPECT_EQ(without.chunks == expected, true);
    EXPECT_EQ(without.counters.bytes_skipped, 0u);
    EXPECT_EQ(other_key->counters().held_segments, 0u);
    EXPECT_GT(other_key->counters().fetches_refused, 0u);
    const auto elsewhere =
        std::make_shared<const HintScope>(RepositoryId{"letters", kDigest}, scope->profile());
    EXPECT_EQ(CutWithHints(*base, cache, elsewhere, late, 3, index, second).counters.bytes_skipped,
              0u);
  }
}

}  // namespace
}  // namespace kerf
