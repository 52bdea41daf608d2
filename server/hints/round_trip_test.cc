// One worker stores a file, another one that knows only the store cuts its next version.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
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

// Answers with what it likes of what it has seen.
class HostileStore final : public SegmentStore {
 public:
  explicit HostileStore(std::uint64_t seed) : random_(seed) {}

  void FindByAnchor(const HintScope& scope, const Digest& anchor, FindDone done) override {
    if (random_.OneIn(4) && !put_.empty()) return done(Any().id);
    honest_->FindByAnchor(scope, anchor, std::move(done));
  }
  void Fetch(const HintScope& scope, const SegmentId& id, FetchDone done) override {
    std::string bytes;
    honest_->Fetch(scope, id, [&bytes](const absl::StatusOr<std::optional<std::string>>& fetched) {
      if (fetched.ok() && fetched->has_value()) bytes = **fetched;
    });
    switch (random_.Below(6)) {
      case 0:
        return done(absl::UnavailableError("hostile"));
      case 1:
        if (!put_.empty()) bytes = Any().bytes;
        break;
      case 2:
        bytes.resize(random_.Below(bytes.size() + 1));
        break;
      case 3:
        for (int count = 0; count < 3 && !bytes.empty(); ++count) {
          char& byte = bytes[random_.Below(bytes.size())];
          byte = static_cast<char>(byte ^ static_cast<char>(1u << random_.Below(8)));
        }
        break;
      default:
        break;
    }
    done(std::optional<std::string>(std::move(bytes)));
  }
  void Put(const HintScope& scope, std::vector<StoredSegment> segments, PutDone done) override {
    put_.insert(put_.end(), segments.begin(), segments.end());
    honest_->Put(scope, std::move(segments), std::move(done));
  }
  std::string_view backend_name() const override { return "hostile"; }

 private:
  const StoredSegment& Any() { return put_[random_.Below(put_.size())]; }

  Random random_;
  const std::unique_ptr<SegmentStore> honest_ = CreateMemorySegmentStore(64 * kMiB);
  std::vector<StoredSegment> put_;
};

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
    const auto recorder = HintCache::Create(OptionsWith(1), &late);
    Record(recorder, scope, old);
    const auto cache = HintCache::Create(OptionsWith(1), &late);
    absl::flat_hash_set<std::uint64_t> index;
    for (const RunChunk& chunk : old) index.insert(DigestHash()(chunk.digest));
    const std::vector<RunChunk> expected = CutPlainly(*base, kDigest, second);
    std::size_t old_bytes = 0;
    for (const RunChunk& chunk : expected) {
      if (index.contains(DigestHash()(chunk.digest))) old_bytes += chunk.length_bytes;
    }
    const Cut cut = CutWithHints(*base, cache, scope, late, 1 + random.Below(3), index, second);
    EXPECT_EQ(cut.chunks == expected, true);
    // The store is slow, and where the chunks are small a segment is soon over.
    EXPECT_GE(cut.counters.bytes_skipped + std::max(kFileBytes / 4, old_bytes / 2), old_bytes);
    EXPECT_EQ(cache->counters().fetches_refused, 0u);
    const Cut again = CutWithHints(*base, cache, scope, late, 1, index, second);
    EXPECT_EQ(again.chunks == expected, true);
    // No segment is fetched twice.
    EXPECT_LE(cache->counters().fetches, recorder->counters().segments_written);

    // Who has another key sees nothing, and neither does another repository.
    const auto other_key = HintCache::Create(OptionsWith(2), &late);
    const Cut without = CutWithHints(*base, other_key, scope, late, 3, index, second);
    EXPECT_EQ(without.chunks == expected, true);
    EXPECT_EQ(without.counters.bytes_skipped, 0u);
    EXPECT_EQ(other_key->counters().held_segments, 0u);
    // Where nearly all chunks have max_bytes an edit may leave no old one, and nothing to ask for.
    if (old_bytes > 0) {
      EXPECT_GT(other_key->counters().fetches_refused, 0u);
    }
    const auto elsewhere =
        std::make_shared<const HintScope>(RepositoryId{"letters", kDigest}, scope->profile());
    EXPECT_EQ(CutWithHints(*base, cache, elsewhere, late, 3, index, second).counters.bytes_skipped,
              0u);
  }
}

TEST(RoundTrip, AHostileStoreChangesNoCut) {
  Random random(TestSeed());
  for (const std::string_view text : kSmallProfiles) {
    SCOPED_TRACE(text);
    const auto scope =
        std::make_shared<const HintScope>(RepositoryId{"photos", kDigest}, ProfileOf(text));
    const auto elsewhere =
        std::make_shared<const HintScope>(RepositoryId{"letters", kDigest}, ProfileOf(text));
    const std::unique_ptr<Chunker> base = MakeChunker(scope->profile());
    HostileStore store(random.Next());
    LateSegmentStore late(&store);
    absl::flat_hash_set<std::uint64_t> index;
    Bytes version(kFileBytes / 2);
    random.Fill(version);
    for (int count = 0; count < 2; ++count) {
      const auto old = CutPlainly(*base, kDigest, version);
      for (const RunChunk& chunk : old) index.insert(DigestHash()(chunk.digest));
      Record(HintCache::Create(OptionsWith(1), &late), scope, old);
      // Who has no key, or another repository, says something else of the same chunks.
      std::vector<RunChunk> lies = old;
      for (RunChunk& chunk : lies) {
        chunk.length_bytes = static_cast<std::uint32_t>(1 + random.Below(chunk.length_bytes));
      }
      Record(HintCache::Create(OptionsWith(2), &late), scope, lies);
      Record(HintCache::Create(OptionsWith(1), &late), elsewhere, lies);
      version = Edited(random, version, 8, 300);
    }
    const auto cache = HintCache::Create(OptionsWith(1), &late);
    const Cut cut = CutWithHints(*base, cache, scope, late, 3, index, version);
    EXPECT_EQ(cut.chunks == CutPlainly(*base, kDigest, version), true);
  }
}

TEST(RoundTrip, ManyStreamsShareACache) {
  constexpr std::size_t kStreams = 3;
  const std::uint64_t seed = TestSeed();
  const auto scope = std::make_shared<const HintScope>(RepositoryId{"photos", kDigest},
                                                       ProfileOf("mincdc:min=64,max=200"));
  const std::unique_ptr<Chunker> base = MakeChunker(scope->profile());
  Random random(seed);
  Bytes first(kFileBytes / 2);
  random.Fill(first);
  const auto store = CreateMemorySegmentStore(64 * kMiB);
  HintCacheOptions options = OptionsWith(1);
  // Less than one file.
  options.capacity_bytes = 150'000;
  const auto cache = HintCache::Create(options, store.get());
  const auto old = CutPlainly(*base, kDigest, first);
  absl::flat_hash_set<std::uint64_t> index;
  for (const RunChunk& chunk : old) index.insert(DigestHash()(chunk.digest));
  Record(cache, scope, old);
  std::atomic<std::uint64_t> skipped_bytes = 0;
  std::atomic<std::uint64_t> offered_bytes = 0;
  std::vector<std::thread> threads;
  threads.reserve(kStreams);
  for (std::size_t number = 0; number < kStreams; ++number) {
    threads.emplace_back([&, number] {
      Random own(seed + number + 1);
      // What it would deliver was answered at once.
      LateSegmentStore nothing(store.get());
      for (int count = 0; count < 3; ++count) {
        const Bytes version = Edited(own, first, 8, 300);
        const Cut cut = CutWithHints(*base, cache, scope, nothing, 0, index, version);
        EXPECT_EQ(cut.chunks == CutPlainly(*base, kDigest, version), true);
        skipped_bytes += cut.counters.bytes_skipped;
        offered_bytes += version.size();
        Record(cache, scope, cut.chunks);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Of all: one stream may lose to the others what the cache has room for.
  EXPECT_GT(skipped_bytes, offered_bytes / 4);
  EXPECT_GT(cache->counters().evictions, 0u);
  EXPECT_LE(cache->counters().held_bytes, options.capacity_bytes);
}

}  // namespace
}  // namespace kerf
