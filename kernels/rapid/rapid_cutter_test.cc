#include "kernels/rapid/rapid_cutter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/rapid/cut_proof.h"
#include "kernels/rapid/testing/memory_hints.h"
#include "kernels/rapid/testing/small_profiles.h"

namespace kerf {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Lengths = std::vector<std::size_t>;

constexpr DigestAlgorithm kDigest = DigestAlgorithm::kBlake3;

// Bytes of few or many values, so that runs and ties come up.
Bytes RandomBytes(Random& random, std::size_t size_bytes) {
  Bytes bytes(size_bytes);
  random.Fill(bytes);
  const std::uint64_t values = random.OneIn(3) ? random.Between(1, 8) : 256;
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(byte % values * (256 / values) + 256 / values - 1);
  }
  return bytes;
}

// Bytes of which no two chunks are the same.
Bytes UniqueBytes(Random& random, std::size_t size_bytes) {
  Bytes bytes(size_bytes);
  random.Fill(bytes);
  return bytes;
}

Lengths LengthsOf(const std::vector<RunChunk>& chunks) {
  Lengths lengths;
  for (const RunChunk& chunk : chunks) lengths.push_back(chunk.length_bytes);
  return lengths;
}

Lengths LengthsOf(const std::vector<RapidChunk>& chunks) {
  Lengths lengths;
  for (const RapidChunk& chunk : chunks) lengths.push_back(chunk.length_bytes);
  return lengths;
}

// None is exact mode.
constexpr std::array<std::optional<AcceptanceCriterion>, 5> kModes = {
    std::nullopt, AcceptanceCriterion::kFf, AcceptanceCriterion::kFfRwt, AcceptanceCriterion::kFfMt,
    AcceptanceCriterion::kFfRwtFpt};

// All of a file that arrives in pieces, in a buffer that is moved on as the caller's would be.
std::vector<RapidChunk> CutInPieces(RapidCutter& cutter, Random& random, const Bytes& bytes) {
  std::vector<RapidChunk> chunks;
  std::size_t begin = 0;
  std::size_t visible = 0;
  while (visible < bytes.size()) {
    visible = std::min(visible + random.Between(1, 3 * cutter.window_bytes()), bytes.size());
    // Moved, so that nobody may hold on to old bytes.
    const Bytes buffer(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                       bytes.begin() + static_cast<std::ptrdiff_t>(visible));
    const bool is_end = visible == bytes.size();
    begin += cutter.Cut(buffer, is_end, &chunks);
    EXPECT_TRUE(is_end ? begin == visible : visible - begin < cutter.window_bytes());
  }
  return chunks;
}

void CheckDigests(const Bytes& bytes, const std::vector<RapidChunk>& chunks) {
  std::span<const std::uint8_t> rest = bytes;
  for (const RapidChunk& chunk : chunks) {
    ASSERT_LE(chunk.length_bytes, rest.size());
    ASSERT_EQ(chunk.digest, Fingerprint(kDigest, rest.first(chunk.length_bytes)));
    rest = rest.subspan(chunk.length_bytes);
  }
  ASSERT_TRUE(rest.empty());
}

class RapidCutterTest : public testing::TestWithParam<std::string_view> {
 protected:
  RapidCutter MakeCutter(std::optional<AcceptanceCriterion> criterion = std::nullopt) {
    return RapidCutter(base_.get(), profile_, {kDigest, criterion, {}}, &hints_);
  }

  // As if it had been stored before: in exact runs of a random number of chunks.
  void Store(const Bytes& bytes) {
    const std::vector<RunChunk> chunks = CutPlainly(*base_, kDigest, bytes);
    const std::size_t run_chunks = random_.Between(1, 40);
    for (std::size_t begin = 0; begin < chunks.size(); begin += run_chunks) {
      const std::size_t end = std::min(begin + run_chunks, chunks.size());
      hints_.Record(std::make_shared<const CutRun>(
          CutRun::OfExactCuts(profile_, kDigest,
                              {chunks.begin() + static_cast<std::ptrdiff_t>(begin),
                               chunks.begin() + static_cast<std::ptrdiff_t>(end)},
                              end == chunks.size())));
    }
  }

  // A new file of pieces of old ones: moved, cut off, joined where one ended.
  Bytes MakeVersion(const std::vector<Bytes>& old) {
    Bytes bytes;
    for (std::uint64_t pieces = random_.Between(1, 3); pieces > 0; --pieces) {
      const Bytes& source = old[random_.Below(old.size())];
      const std::size_t begin = random_.OneIn(2) ? 0 : random_.Below(source.size());
      const std::size_t end =
          random_.OneIn(2) ? source.size() : random_.Between(begin, source.size());
      bytes.insert(bytes.end(), source.begin() + static_cast<std::ptrdiff_t>(begin),
                   source.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return Edited(random_, bytes, random_.Below(4), 1 + random_.Below(200));
  }

  // Lies about all chunks of what was stored, by one who cannot make exact runs but knows any
  // digest that he likes.
  void Spoil(const std::vector<Bytes>& old) {
    for (const Bytes& bytes : old) {
      std::vector<RunChunk> chunks = CutPlainly(*base_, kDigest, bytes);
      if (random_.OneIn(2)) Shift(bytes, chunks);
      if (random_.OneIn(3)) std::ranges::rotate(chunks, chunks.begin() + 1);
      const auto run = std::make_shared<const CutRun>(
          CutRun::OfHearsay(profile_, kDigest, chunks, random_.OneIn(2)));
      for (std::size_t index = 0; index < chunks.size(); ++index) {
        if (random_.OneIn(3)) continue;
        Hint& hint = hints_.At(chunks[index].digest);
        if (random_.OneIn(8)) hint.state = Hint::State::kLate;
        if (random_.OneIn(2)) hint.run = run;
        if (random_.OneIn(2)) hint.next_index = random_.Below(chunks.size() + 3);
        if (random_.OneIn(2)) SpoilSizes(hint.next_sizes, chunks, index);
      }
    }
  }

  // What is said of some chunk.
  Hint SomeHint(const std::vector<Bytes>& old) {
    const std::vector<RunChunk> chunks =
        CutPlainly(*base_, kDigest, old[random_.Below(old.size())]);
    return hints_.Find(chunks[random_.Below(chunks.size())].digest);
  }

  // A file of many chunks, in one run.
  std::shared_ptr<const CutRun> WholeRun(const Bytes& bytes) {
    return std::make_shared<const CutRun>(
        CutRun::OfExactCuts(profile_, kDigest, CutPlainly(*base_, kDigest, bytes), true));
  }

  // Chunks of other lengths with the digests of the bytes that stand there.
  void Shift(const Bytes& bytes, std::vector<RunChunk>& chunks) {
    std::span<const std::uint8_t> rest = bytes;
    chunks.clear();
    while (!rest.empty()) {
      std::size_t length = base_->NextCut(rest);
      if (random_.OneIn(2)) length = random_.Between(1, length);
      if (random_.OneIn(4)) length = std::min<std::size_t>(length + 1, rest.size());
      chunks.push_back({Fingerprint(kDigest, rest.first(length)),
                        static_cast<std::uint32_t>(length), rest[length - 1]});
      // All that a spoiler may know to be there.
      hints_.At(chunks.back().digest).state = Hint::State::kReady;
      rest = rest.subspan(length);
    }
  }

  void SpoilSizes(SizeList& sizes, const std::vector<RunChunk>& chunks, std::size_t index) {
    const std::uint32_t next = chunks[(index + 1) % chunks.size()].length_bytes;
    const auto marker = static_cast<std::uint8_t>(random_.Next());
    sizes.Hit({next + 1, marker}, SizeList::kMaxSizes);
    if (next > 1) sizes.Hit({next - 1, marker}, SizeList::kMaxSizes);
    const std::uint64_t any = random_.Between(1, 2 * std::uint64_t{profile_.max_bytes});
    sizes.Hit({static_cast<std::uint32_t>(any), marker}, SizeList::kMaxSizes);
  }

  void CheckCriterion(std::optional<AcceptanceCriterion> criterion, const Bytes& bytes,
                      const std::vector<RapidChunk>& chunks) {
    std::span<const std::uint8_t> rest = bytes;
    for (const RapidChunk& chunk : chunks) {
      ASSERT_LE(chunk.length_bytes, profile_.max_bytes);
      ASSERT_TRUE(chunk.length_bytes >= profile_.min_bytes || chunk.length_bytes == rest.size());
      if (chunk.was_scanned || !criterion) {
        ASSERT_EQ(base_->NextCut(rest), chunk.length_bytes);
      } else if (*criterion == AcceptanceCriterion::kFfRwt ||
                 *criterion == AcceptanceCriterion::kFfRwtFpt) {
        ASSERT_TRUE(RollingWindowTest(*base_, profile_, rest, chunk.length_bytes));
      }
      rest = rest.subspan(chunk.length_bytes);
    }
  }

  const Profile profile_ = *ParseProfile(GetParam());
  const std::unique_ptr<Chunker> base_ = MakeChunker(profile_);
  Random random_{TestSeed()};
  MemoryHints hints_;
};

TEST_P(RapidCutterTest, ExactModeCutsAsTheBaseWhateverTheHints) {
  for (int round = 0; round < 25; ++round) {
    hints_ = MemoryHints();
    std::vector<Bytes> old;
    for (int file = 0; file < 3; ++file) {
      old.push_back(RandomBytes(random_, random_.Between(1, 40 * std::size_t{profile_.max_bytes} /
                                                                (1 + profile_.max_bytes / 500))));
      Store(old.back());
    }
    if (round % 2 == 1) Spoil(old);
    RapidCutter cutter = MakeCutter();
    std::size_t total_bytes = 0;
    for (int file = 0; file < 6; ++file) {
      const Bytes bytes = MakeVersion(old);
      cutter.BeginFile(random_.OneIn(2) ? Hint() : SomeHint(old));
      const std::vector<RapidChunk> chunks = CutInPieces(cutter, random_, bytes);
      ASSERT_EQ(LengthsOf(chunks), LengthsOf(CutPlainly(*base_, kDigest, bytes)));
      ASSERT_NO_FATAL_FAILURE(CheckDigests(bytes, chunks));
      total_bytes += bytes.size();
    }
    const RapidCounters& counters = cutter.counters();
    EXPECT_EQ(counters.bytes_scanned + counters.bytes_skipped, total_bytes);
    EXPECT_GE(counters.bytes_fingerprinted, total_bytes);
  }
}

// What was stored before and is unchanged is not scanned, but for its first chunk, and not even
// that where it is told what comes first.
TEST_P(RapidCutterTest, ExactModeScansNothingThatIsTheSame) {
  const Bytes bytes = UniqueBytes(random_, 60 * std::size_t{profile_.max_bytes});
  const auto run = WholeRun(bytes);
  hints_.Record(run);
  RapidCutter cutter = MakeCutter();
  cutter.BeginFile();
  const std::vector<RapidChunk> chunks = CutInPieces(cutter, random_, bytes);
  EXPECT_TRUE(chunks[0].was_scanned);
  EXPECT_EQ(cutter.counters().bytes_scanned, chunks[0].length_bytes);
  EXPECT_EQ(cutter.counters().bytes_fingerprinted, bytes.size());
  EXPECT_EQ(cutter.counters().hints_rejected, 0u);
  EXPECT_FALSE(chunks[0].is_in_run);
  EXPECT_TRUE(std::all_of(chunks.begin() + 1, chunks.end(), std::mem_fn(&RapidChunk::is_in_run)));

  cutter.BeginFile({Hint::State::kReady, {}, run, 0});
  EXPECT_EQ(LengthsOf(CutInPieces(cutter, random_, bytes)), LengthsOf(chunks));
  EXPECT_EQ(cutter.counters().bytes_scanned, chunks[0].length_bytes);
}

// A change costs the chunk that it is in and what a rule that looks ahead sees of it, no more: the
// run is found again behind it.
TEST_P(RapidCutterTest, ExactModeScansWhatChanged) {
  Bytes bytes = UniqueBytes(random_, 60 * std::size_t{profile_.max_bytes});
  hints_.Record(WholeRun(bytes));
  const std::vector<RunChunk> old = CutPlainly(*base_, kDigest, bytes);
  bytes[bytes.size() / 2] ^= 1;
  const std::vector<RunChunk> plain = CutPlainly(*base_, kDigest, bytes);
  RapidCutter cutter = MakeCutter();
  cutter.BeginFile();
  const std::vector<RapidChunk> chunks = CutInPieces(cutter, random_, bytes);
  ASSERT_EQ(LengthsOf(chunks), LengthsOf(plain));
  // Where the change moved cuts, some chunks may be needed to find the old ones again.
  if (LengthsOf(plain) != LengthsOf(old)) return;
  const bool sees_far = BytesBehindCut(profile_) > 1 || profile_.algorithm == Algorithm::kRam;
  const std::uint64_t ahead_bytes = sees_far ? 2 * std::uint64_t{profile_.max_bytes} : 0;
  EXPECT_LE(cutter.counters().bytes_scanned,
            chunks[0].length_bytes + profile_.max_bytes + ahead_bytes);
  for (std::size_t index = 1; index < chunks.size(); ++index) {
    EXPECT_EQ(chunks[index].is_in_run, chunks[index].digest == old[index].digest);
  }
  const auto scanned = std::ranges::count_if(chunks, &RapidChunk::was_scanned);
  EXPECT_GE(scanned, 2);
  EXPECT_TRUE(sees_far || scanned == 2) << scanned;
}

// The window of a rule that looks as far as max is the same up to its last byte but one, where a
// run has a cut; that byte changes the cut.
TEST_P(RapidCutterTest, ExactModeIsNotContentWithAWindowThatLacksAByte) {
  // Of the others the last byte seldom has a say.
  const bool is_extremum =
      profile_.algorithm == Algorithm::kMinCdc || profile_.algorithm == Algorithm::kMaxCdc;
  const std::size_t window = profile_.max_bytes;
  if (!is_extremum || window > 200) return;
  int tried = 0;
  for (int round = 0; round < 20000 && tried < 3; ++round) {
    Bytes bytes = RandomBytes(random_, 2 * window + random_.Below(window));
    const std::vector<RunChunk> chunks = CutPlainly(*base_, kDigest, bytes);
    std::size_t end = 0;
    for (const RunChunk& chunk : chunks) {
      if (end < window - 1) end += chunk.length_bytes;
    }
    if (end != window - 1) continue;
    const auto run = WholeRun(bytes);
    for (int value = 0; value < 256; ++value) {
      bytes[window - 1] = static_cast<std::uint8_t>(value);
      if (base_->NextCut(bytes) == chunks[0].length_bytes) continue;
      RapidCutter cutter = MakeCutter();
      cutter.BeginFile({Hint::State::kReady, {}, run, 0});
      ASSERT_EQ(LengthsOf(CutInPieces(cutter, random_, bytes)),
                LengthsOf(CutPlainly(*base_, kDigest, bytes)));
      ++tried;
      break;
    }
  }
  EXPECT_GT(tried, 0);
}

// Nor does any criterion take the end of an old file for a cut.
TEST_P(RapidCutterTest, TheEndOfAnOldFileIsNoCut) {
  const Bytes old = UniqueBytes(random_, 20 * std::size_t{profile_.max_bytes} + 77);
  hints_.Record(WholeRun(old));
  Bytes longer = old;
  const Bytes more = UniqueBytes(random_, 3 * std::size_t{profile_.max_bytes});
  longer.insert(longer.end(), more.begin(), more.end());
  for (const std::optional<AcceptanceCriterion> criterion : kModes) {
    RapidCutter cutter = MakeCutter(criterion);
    cutter.BeginFile();
    std::size_t end = 0;
    for (const RapidChunk& chunk : CutInPieces(cutter, random_, longer)) {
      end += chunk.length_bytes;
      EXPECT_TRUE(end != old.size() || chunk.was_scanned ||
                  chunk.length_bytes == profile_.max_bytes);
    }
  }
}

TEST_P(RapidCutterTest, WithoutHintsEveryModeCutsAsTheBase) {
  const Bytes bytes = UniqueBytes(random_, 20 * std::size_t{profile_.max_bytes});
  for (const std::optional<AcceptanceCriterion> criterion : kModes) {
    RapidCutter cutter = MakeCutter(criterion);
    cutter.BeginFile();
    const std::vector<RapidChunk> chunks = CutInPieces(cutter, random_, bytes);
    EXPECT_EQ(LengthsOf(chunks), LengthsOf(CutPlainly(*base_, kDigest, bytes)));
    EXPECT_EQ(cutter.counters().bytes_skipped, 0u);
    EXPECT_GT(cutter.counters().hints_absent, 0u);
  }
}

TEST_P(RapidCutterTest, EveryCriterionGivesTheSameFileTheSameCuts) {
  const Bytes bytes = UniqueBytes(random_, 60 * std::size_t{profile_.max_bytes});
  hints_.Record(WholeRun(bytes));
  for (const std::optional<AcceptanceCriterion> criterion : kModes) {
    RapidCutter cutter = MakeCutter(criterion);
    cutter.BeginFile();
    const std::vector<RapidChunk> chunks = CutInPieces(cutter, random_, bytes);
    EXPECT_EQ(LengthsOf(chunks), LengthsOf(CutPlainly(*base_, kDigest, bytes)));
    // The window test knows no cut by tttd's small divisor.
    if (profile_.algorithm == Algorithm::kTttd) continue;
    EXPECT_EQ(cutter.counters().bytes_scanned, chunks[0].length_bytes);
  }
}

// Cuts may depend on hints, but chunks keep their bounds and pass what the criterion tests.
TEST_P(RapidCutterTest, CriteriaHoldWhatTheyPromiseWhateverTheHints) {
  for (int round = 0; round < 20; ++round) {
    hints_ = MemoryHints();
    const std::vector<Bytes> old = {RandomBytes(random_, 20 * std::size_t{profile_.max_bytes})};
    Store(old.back());
    Spoil(old);
    for (const std::optional<AcceptanceCriterion> criterion : kModes) {
      const Bytes bytes = MakeVersion(old);
      RapidCutter cutter = MakeCutter(criterion);
      cutter.BeginFile(random_.OneIn(2) ? Hint() : SomeHint(old));
      const std::vector<RapidChunk> chunks = CutInPieces(cutter, random_, bytes);
      ASSERT_NO_FATAL_FAILURE(CheckDigests(bytes, chunks));
      ASSERT_NO_FATAL_FAILURE(CheckCriterion(criterion, bytes, chunks));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(SmallProfiles, RapidCutterTest, testing::ValuesIn(kSmallProfiles),
                         [](const testing::TestParamInfo<std::string_view>& profile) {
                           std::string name(profile.param);
                           std::erase_if(name, [](char letter) { return !std::isalnum(letter); });
                           return name;
                         });

// One chunk that is known, one size behind it.
class CriterionTest : public testing::Test {
 protected:
  // Whether the chunk behind the first one has the predicted size.
  bool IsTaken(std::optional<AcceptanceCriterion> criterion, NextSize predicted) {
    Hint& hint = hints_.At(Fingerprint(kDigest, std::span(bytes_).first(first_)));
    hint.state = Hint::State::kReady;
    hint.next_sizes = {};
    hint.next_sizes.Hit(predicted);
    RapidCutter cutter(base_.get(), profile_, {kDigest, criterion, {}}, &hints_);
    cutter.BeginFile();
    std::vector<RapidChunk> chunks;
    cutter.Cut(bytes_, true, &chunks);
    EXPECT_EQ(chunks[0].length_bytes, first_);
    EXPECT_EQ(cutter.counters().hints_accepted + cutter.counters().hints_rejected, 1u);
    EXPECT_NE(chunks[1].was_scanned, chunks[1].length_bytes == predicted.length_bytes &&
                                         cutter.counters().hints_accepted == 1);
    return !chunks[1].was_scanned;
  }

  const Profile profile_ = *ParseProfile("gear:min=64,avg=256,max=1000");
  const std::unique_ptr<Chunker> base_ = MakeChunker(profile_);
  const Bytes bytes_ = [] {
    Bytes bytes(10000);
    Random(TestSeed()).Fill(bytes);
    return bytes;
  }();
  const std::size_t first_ = base_->NextCut(bytes_);
  const std::size_t second_ = base_->NextCut(std::span(bytes_).subspan(first_));
  const std::uint32_t right_ = static_cast<std::uint32_t>(second_);
  // A place where the rule does not cut.
  const std::uint32_t wrong_ = right_ == 500 ? 501 : 500;
  MemoryHints hints_;
};

TEST_F(CriterionTest, FfTakesAnySizeThatAChunkMayHave) {
  EXPECT_TRUE(IsTaken(AcceptanceCriterion::kFf, {wrong_, 0}));
  EXPECT_TRUE(IsTaken(AcceptanceCriterion::kFf, {right_, 0}));
  EXPECT_FALSE(IsTaken(AcceptanceCriterion::kFf, {63, 0}));
  EXPECT_FALSE(IsTaken(AcceptanceCriterion::kFf, {1001, 0}));
}

TEST_F(CriterionTest, MtComparesTheMarker) {
  const std::uint8_t marker = bytes_[first_ + wrong_ - 1];
  EXPECT_TRUE(IsTaken(AcceptanceCriterion::kFfMt, {wrong_, marker}));
  EXPECT_FALSE(
      IsTaken(AcceptanceCriterion::kFfMt, {wrong_, static_cast<std::uint8_t>(marker ^ 1)}));
}

TEST_F(CriterionTest, RwtTestsTheWindow) {
  EXPECT_TRUE(IsTaken(AcceptanceCriterion::kFfRwt, {right_, 0}));
  EXPECT_EQ(IsTaken(AcceptanceCriterion::kFfRwt, {wrong_, 0}),
            RollingWindowTest(*base_, profile_, std::span(bytes_).subspan(first_), wrong_));
}

TEST_F(CriterionTest, HitsAreCountedByTheirPlaceInTheList) {
  Hint& hint = hints_.At(Fingerprint(kDigest, std::span(bytes_).first(first_)));
  hint.state = Hint::State::kReady;
  hint.next_sizes.Hit({right_, 0});
  // In front of it, and refused because no chunk may be so short.
  hint.next_sizes.Hit({1, 0});
  RapidCutter cutter(base_.get(), profile_, {kDigest, AcceptanceCriterion::kFf, {}}, &hints_);
  cutter.BeginFile();
  std::vector<RapidChunk> chunks;
  cutter.Cut(bytes_, true, &chunks);
  EXPECT_EQ(cutter.counters().hits_by_position,
            (std::array<std::uint64_t, SizeList::kMaxSizes>{0, 1, 0, 0}));
}

TEST_F(CriterionTest, FptAsksForTheFingerprint) {
  EXPECT_FALSE(IsTaken(AcceptanceCriterion::kFfRwtFpt, {right_, 0}));
  hints_.At(Fingerprint(kDigest, std::span(bytes_).subspan(first_, second_))).state =
      Hint::State::kReady;
  EXPECT_TRUE(IsTaken(AcceptanceCriterion::kFfRwtFpt, {right_, 0}));
}

// Exact mode believes a fingerprint only from a run of exact cuts.
TEST_F(CriterionTest, ExactModeAsksWhoSaysSo) {
  const auto second = std::span(bytes_).subspan(first_, second_);
  const std::vector<RunChunk> chunks = {{Fingerprint(kDigest, second), right_, 0}};
  Hint& hint = hints_.At(chunks[0].digest);
  hint.state = Hint::State::kReady;
  EXPECT_FALSE(IsTaken(std::nullopt, {right_, 0}));
  hint.next_index = 1;
  hint.run = std::make_shared<const CutRun>(CutRun::OfHearsay(profile_, kDigest, chunks, false));
  EXPECT_FALSE(IsTaken(std::nullopt, {right_, 0}));
  hint.run = std::make_shared<const CutRun>(CutRun::OfExactCuts(profile_, kDigest, chunks, true));
  EXPECT_FALSE(IsTaken(std::nullopt, {right_, 0})) << "a file's last chunk";
  hint.run = std::make_shared<const CutRun>(
      CutRun::OfExactCuts(*ParseProfile("gear:min=65,avg=256,max=1000"), kDigest, chunks, false));
  EXPECT_FALSE(IsTaken(std::nullopt, {right_, 0})) << "another profile";
  std::vector<RunChunk> others = chunks;
  others[0].digest.bytes[0] ^= 1;
  hint.run = std::make_shared<const CutRun>(CutRun::OfExactCuts(profile_, kDigest, others, false));
  EXPECT_FALSE(IsTaken(std::nullopt, {right_, 0})) << "another chunk of the same length";
  hint.run = std::make_shared<const CutRun>(CutRun::OfExactCuts(profile_, kDigest, chunks, false));
  EXPECT_TRUE(IsTaken(std::nullopt, {right_, 0}));
}

// Anybody can make two chunks of one XXH3 value.
TEST_F(CriterionTest, ExactModeDoesNotBelieveXxh3) {
  std::vector<RunChunk> chunks = CutPlainly(*base_, DigestAlgorithm::kXxh3_128, bytes_);
  const auto run = std::make_shared<const CutRun>(
      CutRun::OfExactCuts(profile_, DigestAlgorithm::kXxh3_128, chunks, true));
  hints_.Record(run);
  RapidCutter cutter(base_.get(), profile_, {DigestAlgorithm::kXxh3_128, std::nullopt, {}},
                     &hints_);
  cutter.BeginFile();
  std::vector<RapidChunk> cut;
  EXPECT_EQ(cutter.Cut(bytes_, true, &cut), bytes_.size());
  EXPECT_EQ(LengthsOf(cut), LengthsOf(chunks));
  EXPECT_EQ(cutter.counters().bytes_skipped, 0u);
}

// A hint that is late is none; the next chunk's may be there.
TEST_F(CriterionTest, ALateHintIsNotWaitedFor) {
  const std::vector<RunChunk> chunks = CutPlainly(*base_, kDigest, bytes_);
  hints_.Record(
      std::make_shared<const CutRun>(CutRun::OfExactCuts(profile_, kDigest, chunks, true)));
  for (std::size_t index = 0; index < 3; ++index) {
    hints_.At(chunks[index].digest).state = Hint::State::kLate;
  }
  RapidCutter cutter(base_.get(), profile_, {kDigest, std::nullopt, {}}, &hints_);
  cutter.BeginFile();
  std::vector<RapidChunk> cut;
  cutter.Cut(bytes_, true, &cut);
  EXPECT_EQ(cutter.counters().hints_late, 3u);
  EXPECT_EQ(std::ranges::count_if(cut, &RapidChunk::was_scanned), 4);
}

// A file in which bytes have been put into a chunk whose end they only move.
class ShiftTest : public testing::Test {
 protected:
  ShiftTest() {
    hints_.Record(std::make_shared<const CutRun>(
        CutRun::OfExactCuts(profile_, kDigest, CutPlainly(*base_, kDigest, old_), true)));
  }

  // The old file with `count` bytes put into some chunk in the middle, all of whose other cuts are
  // the old ones.
  Bytes WithInsert(std::size_t count) {
    const std::vector<RunChunk> chunks = CutPlainly(*base_, kDigest, old_);
    std::size_t begin = 0;
    for (std::size_t index = 0; index + 3 < chunks.size(); ++index) {
      // Others each time: they may hold a cut of their own.
      const Bytes fresh = UniqueBytes(random_, count);
      Bytes bytes = old_;
      const std::size_t place = begin + profile_.min_bytes + 100;
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(place), fresh.begin(), fresh.end());
      Lengths expected = LengthsOf(chunks);
      expected[index] += count;
      begin += chunks[index].length_bytes;
      if (index < 3 || chunks[index].length_bytes < 2 * profile_.min_bytes) continue;
      if (LengthsOf(CutPlainly(*base_, kDigest, bytes)) == expected) return bytes;
    }
    ADD_FAILURE() << "no chunk is long enough";
    return old_;
  }

  RapidCounters CutAs(std::optional<AcceptanceCriterion> criterion, const Bytes& bytes) {
    RapidCutter cutter(base_.get(), profile_, {kDigest, criterion, {}}, &hints_);
    cutter.BeginFile();
    lengths_ = LengthsOf(CutInPieces(cutter, random_, bytes));
    return cutter.counters();
  }

  const Profile profile_ = *ParseProfile("rabin:min=1024,avg=4096,max=16384");
  const std::unique_ptr<Chunker> base_ = MakeChunker(profile_);
  Random random_{TestSeed()};
  const Bytes old_ = UniqueBytes(random_, 400'000);
  const std::size_t first_ = base_->NextCut(old_);
  MemoryHints hints_;
  Lengths lengths_;
};

TEST_F(ShiftTest, AnEndThatMovedAFewBytesIsFoundWithoutAScan) {
  const Bytes bytes = WithInsert(10);
  const Lengths plain = LengthsOf(CutPlainly(*base_, kDigest, bytes));
  for (const AcceptanceCriterion criterion :
       {AcceptanceCriterion::kFf, AcceptanceCriterion::kFfRwt, AcceptanceCriterion::kFfMt}) {
    const RapidCounters counters = CutAs(criterion, bytes);
    // Rarely another place near the end passes the test.
    if (lengths_ != plain) continue;
    EXPECT_EQ(counters.bytes_scanned, first_);
    EXPECT_EQ(counters.shifted_ends, 1u);
  }
}

TEST_F(ShiftTest, WhoMustKnowTheFingerprintScans) {
  const Bytes bytes = WithInsert(10);
  const std::array<std::optional<AcceptanceCriterion>, 2> modes = {std::nullopt,
                                                                   AcceptanceCriterion::kFfRwtFpt};
  for (const auto& mode : modes) {
    const RapidCounters counters = CutAs(mode, bytes);
    EXPECT_EQ(lengths_, LengthsOf(CutPlainly(*base_, kDigest, bytes)));
    EXPECT_GT(counters.bytes_scanned, first_);
    EXPECT_EQ(counters.shifted_ends, 0u);
  }
}

TEST_F(ShiftTest, AnEndThatMovedFarIsScannedFor) {
  const Bytes bytes = WithInsert(RapidCutter::kMaxShiftBytes + 10);
  const RapidCounters counters = CutAs(AcceptanceCriterion::kFfRwt, bytes);
  if (lengths_ == LengthsOf(CutPlainly(*base_, kDigest, bytes))) {
    EXPECT_GT(counters.bytes_scanned, first_);
    EXPECT_EQ(counters.shifted_ends, 0u);
  }
}

// Data whose second chunk is cut by tttd's small divisor, where the large one holds at max_bytes.
Bytes CutInFrontOfMax(Random& random, const Chunker& base, const Chunker& longer) {
  const std::size_t max_bytes = base.max_chunk_bytes();
  // One chunk in ten thousand or so.
  for (int tries = 0; tries < 100; ++tries) {
    const Bytes data = UniqueBytes(random, 4'000'000);
    std::span<const std::uint8_t> last = data;
    while (last.size() >= 10 * max_bytes) {
      const std::span<const std::uint8_t> rest = last.subspan(base.NextCut(last));
      const std::size_t cut = base.NextCut(rest);
      if (cut < max_bytes && cut + RapidCutter::kMaxShiftBytes > max_bytes &&
          longer.NextCut(rest) == max_bytes) {
        return {last.begin(), last.begin() + static_cast<std::ptrdiff_t>(10 * max_bytes)};
      }
      last = rest;
    }
  }
  ADD_FAILURE() << "no such chunk";
  return {};
}

TEST(ShiftedEndTest, IsNeverAtMaxBytes) {
  const Profile profile = *ParseProfile("tttd:min=64,avg=256,max=1000");
  const std::unique_ptr<Chunker> base = MakeChunker(profile);
  const std::unique_ptr<Chunker> longer =
      MakeChunker(*ParseProfile("tttd:min=64,avg=256,max=2000"));
  Random random(TestSeed());
  const Bytes bytes = CutInFrontOfMax(random, *base, *longer);
  const std::vector<RunChunk> plain = CutPlainly(*base, kDigest, bytes);
  MemoryHints hints;
  hints.Record(std::make_shared<const CutRun>(CutRun::OfExactCuts(profile, kDigest, plain, true)));
  for (const std::optional<AcceptanceCriterion> criterion : kModes) {
    RapidCutter cutter(base.get(), profile, {kDigest, criterion, {}}, &hints);
    cutter.BeginFile();
    // In one piece: behind the predicted end there must be bytes to look at.
    std::vector<RapidChunk> chunks;
    EXPECT_EQ(cutter.Cut(bytes, /*is_end=*/true, &chunks), bytes.size());
    EXPECT_EQ(LengthsOf(chunks), LengthsOf(plain));
  }
}

}  // namespace
}  // namespace kerf
