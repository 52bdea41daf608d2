#include "client/lab/bench/rapid/rapid_bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/random.h"
#include "base/sanitizers.h"
#include "base/test_seed.h"
#include "client/lab/bench/rapid/failing_hints.h"
#include "client/lab/bench/rapid/local_index.h"
#include "client/lab/bench/rapid/mode_run.h"
#include "client/lab/bench/rapid/series.h"
#include "kernels/rapid/testing/small_profiles.h"

namespace kerf::bench {
namespace {

constexpr DigestAlgorithm kDigest = DigestAlgorithm::kBlake3;

// Under a sanitizer one profile in three, others each time: rapid_cutter_test has them all there.
constexpr std::size_t kProfileStep = kIsSanitized ? 3 : 1;

std::vector<std::vector<std::uint8_t>> SomeVersions(double spread, std::uint64_t seed) {
  SeriesRule rule;
  rule.size_bytes = 100'000;
  rule.version_count = 3;
  rule.edits = {.edit_count = 5, .min_edit_bytes = 10, .max_edit_bytes = 10, .spread = spread};
  rule.seed = seed;
  return MakeVersions(rule);
}

Series SeriesOf(const std::vector<std::vector<std::uint8_t>>& versions) {
  Series series;
  for (const std::vector<std::uint8_t>& version : versions) {
    series.versions.push_back({Bytes(version)});
  }
  return series;
}

TEST(SeriesTest, VersionsDifferWhereEditsMayBe) {
  const std::uint64_t seed = TestSeed();
  const auto versions = SomeVersions(0.1, seed);
  ASSERT_EQ(versions.size(), 3u);
  EXPECT_EQ(versions[0].size(), 100'000u);
  EXPECT_NE(versions[1], versions[0]);
  // Behind the first tenth and the longest edits the last bytes are the same.
  EXPECT_TRUE(
      std::equal(versions[0].rbegin(), versions[0].rbegin() + 89'900, versions[1].rbegin()));
  EXPECT_EQ(versions, SomeVersions(0.1, seed));
  const Series series = SeriesOf(versions);
  EXPECT_EQ(series.TotalBytes() - series.LaterBytes(), 100'000u);
}

const ModeFigures& FiguresOf(const std::vector<ModeFigures>& all, std::string_view name,
                             HintKind hints, bool all_fail) {
  return *std::ranges::find_if(all, [&](const ModeFigures& figures) {
    return figures.mode.name == name && figures.mode.hints == hints &&
           figures.mode.is_worst_case == all_fail;
  });
}

// With each algorithm: what was checked before it was measured holds, and hints help.
TEST(RapidBenchTest, ExactModeSavesWhatRegularCuttingSaves) {
  const auto versions = SomeVersions(1, TestSeed());
  const Series series = SeriesOf(versions);
  const std::atomic<bool> cancelled = false;
  for (std::size_t number = TestSeed() % kProfileStep; number < kSmallProfiles.size();
       number += kProfileStep) {
    const std::string_view name = kSmallProfiles[number];
    const Profile profile = *ParseProfile(name);
    const auto all = RunRapidBench({.rounds = 1, .has_extras = true}, series, profile, cancelled);
    ASSERT_TRUE(all.ok()) << name << ": " << all.status();
    const ModeFigures& regular = (*all)[0];
    EXPECT_EQ(regular.mode.name, "regular");
    EXPECT_EQ(regular.facts.total_bytes, series.TotalBytes());
    EXPECT_EQ(regular.facts.later_scanned_bytes, series.LaterBytes());
    for (const HintKind hints : {HintKind::kRuns, HintKind::kSizes}) {
      const ModeFigures& exact = FiguresOf(*all, "exact", hints, false);
      EXPECT_EQ(exact.facts.unique_bytes, regular.facts.unique_bytes) << name;
      const ModeFigures& worst = FiguresOf(*all, "exact", hints, true);
      EXPECT_EQ(worst.facts.later_scanned_bytes, series.LaterBytes()) << name;
    }
    const ModeFigures& runs = FiguresOf(*all, "exact", HintKind::kRuns, false);
    EXPECT_LT(runs.facts.later_scanned_bytes, series.LaterBytes()) << name;
    for (const ModeFigures& figures : *all) {
      EXPECT_GT(figures.cut.times_regular, 0);
      EXPECT_GT(figures.all.bytes_per_second, 0);
      EXPECT_GE(figures.deduplication_ratio(), 1);
    }
  }
}

// The checks must be able to fail: a mode that is said to be exact, beside cuts that are not its.
TEST(ModeRunTest, OtherCutsAreNoticed) {
  const auto versions = SomeVersions(1, TestSeed());
  const Series series = SeriesOf(versions);
  const Profile profile = *ParseProfile("gear:min=64,avg=256,max=1000");
  const std::unique_ptr<Chunker> base = MakeChunker(profile);
  ModeRun regular(&series, base.get(), profile, kDigest, {.name = "regular"});
  ASSERT_TRUE(regular.Check(nullptr).ok());
  CutList others = regular.cuts();
  ModeRun exact(&series, base.get(), profile, kDigest, {.name = "exact", .hints = HintKind::kRuns});
  EXPECT_TRUE(exact.Check(&others).ok());
  std::swap(others[0], others[1]);
  ++others[2];
  EXPECT_TRUE(absl::IsDataLoss(exact.Check(&others)));
}

// Chunks cut from other bytes than the profile says have other lengths.
TEST(ModeRunTest, ChunksOfAnotherProfileAreNoticed) {
  const auto versions = SomeVersions(1, TestSeed());
  const Series series = SeriesOf(versions);
  const std::unique_ptr<Chunker> base = MakeChunker(*ParseProfile("gear:min=64,avg=256,max=1000"));
  ModeRun regular(&series, base.get(), *ParseProfile("gear:min=256,avg=512,max=1000"), kDigest,
                  {.name = "regular"});
  EXPECT_TRUE(absl::IsDataLoss(regular.Check(nullptr)));
}

// A list keeps as many sizes as it may, the last one first.
TEST(LocalIndexTest, ListsAreAsLongAsTheyMayBe) {
  const std::vector<std::uint8_t> bytes(1000, 7);
  for (const std::size_t length : {1, 2, 4}) {
    LocalIndex index({.profile = *ParseProfile("gear:min=64,avg=256,max=1000"),
                      .hints = HintKind::kSizes,
                      .list_length = length});
    for (std::size_t next = 100; next < 108; ++next) {
      const std::vector<RapidChunk> chunks = {{100, Digest{{1}}, true, false},
                                              {next, Digest{{2}}, true, false},
                                              {50, Digest{{3}}, true, false}};
      index.BeginFile();
      index.Record(bytes, chunks, true);
    }
    const Hint hint = index.Find(Digest{{1}});
    EXPECT_EQ(hint.state, Hint::State::kReady);
    ASSERT_EQ(hint.next_sizes.sizes().size(), length);
    EXPECT_EQ(hint.next_sizes.sizes()[0], (NextSize{107, 7}));
    EXPECT_TRUE(index.Find(Digest{{2}}).next_sizes.empty()) << "the end of a file is no cut";
    EXPECT_EQ(index.Find(Digest{{9}}).state, Hint::State::kAbsent);
  }
}

// From the first chunk on, over the ends of runs, to the last one.
TEST(LocalIndexTest, RunsLeadOn) {
  constexpr std::size_t kChunks = 2 * LocalIndex::kRunChunks + 7;
  std::vector<RapidChunk> chunks;
  for (std::size_t index = 0; index < kChunks; ++index) {
    Digest digest;
    digest.bytes[0] = static_cast<std::uint8_t>(index);
    digest.bytes[1] = static_cast<std::uint8_t>(index >> 8);
    digest.bytes[2] = 1;
    chunks.push_back({1, digest, true, false});
  }
  LocalIndex index({.profile = *ParseProfile("gear:min=64,avg=256,max=1000"),
                    .hints = HintKind::kRuns,
                    .is_exact = true});
  index.BeginFile();
  const std::vector<std::uint8_t> bytes(kChunks);
  const std::size_t half = kChunks / 2;
  index.Record(Bytes(bytes).first(half), std::span(chunks).first(half), false);
  index.Record(Bytes(bytes).subspan(half), std::span(chunks).subspan(half), true);
  std::size_t at = 0;
  while (at + 1 < kChunks) {
    const Hint hint = index.Find(chunks[at].digest);
    ASSERT_NE(hint.run, nullptr);
    ASSERT_LT(hint.next_index, hint.run->chunks().size()) << at;
    for (std::size_t next = hint.next_index; next < hint.run->chunks().size(); ++next) {
      ASSERT_EQ(hint.run->chunks()[next].digest, chunks[++at].digest);
    }
    EXPECT_EQ(hint.run->ended_by_eof(), at + 1 == kChunks);
  }
}

}  // namespace
}  // namespace kerf::bench
