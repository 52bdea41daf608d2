// The marks of mincdc and maxcdc, in the emulator, against what they are said to be.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/cuda/kernel/cut_rule_of.h"
#include "kernels/cuda/kernel/emulated_selection.h"
#include "kernels/cuda/kernel/extreme_marks_testing.h"
#include "kernels/cuda/kernel/selection_testing.h"
#include "kernels/reference/gear.h"

namespace kerf::cuda {
namespace {

// Both algorithms are asked.
void ExpectMarksOfDefinition(const ExtremeSetting& setting, Batch& batch, Random& random) {
  Close(batch);
  ASSERT_EQ(MarkedPositions(
                EmulateExtremeMarks(MakeMinCdcHashes(), setting, batch, AnyOrder(random)), batch),
            PositionsToMark(MinCdcNumbers(batch.bytes), setting, batch));
  ASSERT_EQ(MarkedPositions(EmulateExtremeMarks(MakeMaxCdcHashes(kGearTable.data()), setting, batch,
                                                AnyOrder(random)),
                            batch),
            PositionsToMark(MaxCdcNumbers(batch.bytes), setting, batch));
}

ExtremeSetting SettingOf(std::uint32_t min_bytes, std::uint32_t width) {
  return {ExtremeReachOf(width), min_bytes, min_bytes + width};
}

// Several tiles of one piece.
TEST(ExtremeMarksTest, OneLongPiece) {
  Random random(TestSeed());
  for (const std::uint32_t width : {8192u, 1068u, 508u, 541u, 100u}) {
    SCOPED_TRACE(Cat("width ", width));
    Batch batch;
    Append(batch, MakeInput("random", random.Next(), 200000 + random.Below(3000)), true, random);
    ASSERT_NO_FATAL_FAILURE(ExpectMarksOfDefinition(SettingOf(4096, width), batch, random));
  }
}

// Which the next one does not see, however near it begins: from 241 bytes on no lead is as wide.
TEST(ExtremeMarksTest, PiecesSideBySide) {
  Random random(TestSeed());
  for (const std::uint32_t min_bytes :
       {64u, 79u, 224u, 225u, 239u, 240u, 241u, 242u, 1024u, 1025u}) {
    SCOPED_TRACE(Cat("min ", min_bytes));
    Batch batch;
    while (batch.bytes.size() < 70000) {
      const std::vector<std::uint8_t> bytes =
          MakeInput("random", random.Next(), random.Below(random.OneIn(4) ? 20000 : 1500));
      batch.pieces.push_back({static_cast<std::uint32_t>(batch.bytes.size()),
                              static_cast<std::uint32_t>(bytes.size()), 1});
      batch.bytes.insert(batch.bytes.end(), bytes.begin(), bytes.end());
      batch.bytes.resize((batch.bytes.size() + 15) / 16 * 16);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectMarksOfDefinition(
        SettingOf(min_bytes, static_cast<std::uint32_t>(random.Between(30, 3000))), batch, random));
  }
}

TEST(ExtremeMarksTest, AnyPieces) {
  Random random(TestSeed());
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(Cat("round ", round));
    Batch batch;
    const std::size_t size = random.Below(100000);
    while (batch.bytes.size() < size) {
      Append(batch, AnyBytes(random.Below(random.OneIn(3) ? 70000 : 3000), random), true, random);
    }
    const auto min_bytes =
        static_cast<std::uint32_t>(random.Between(64, random.OneIn(2) ? 300 : 5000));
    const auto width = static_cast<std::uint32_t>(random.Below(random.OneIn(2) ? 600 : 5000));
    ASSERT_NO_FATAL_FAILURE(ExpectMarksOfDefinition(SettingOf(min_bytes, width), batch, random));
  }
}

// Every group is smaller than all in front of it, so that no list of such groups has room left.
TEST(ExtremeMarksTest, EveryGroupIsSmaller) {
  Random random(TestSeed());
  std::vector<std::uint8_t> bytes = MakeInput("random", random.Next(), 100000);
  for (std::uint32_t group = 0; group < bytes.size() / 16; ++group) {
    PutMinCdcNumber(bytes, 16 * group + 3 + static_cast<std::uint32_t>(random.Below(13)),
                    10000 - group);
  }
  Batch batch{bytes, {{0, static_cast<std::uint32_t>(bytes.size()), 1}}};
  const ExtremeSetting setting = SettingOf(64, 3000);
  ASSERT_NO_FATAL_FAILURE(ExpectMarksOfDefinition(setting, batch, random));
  EXPECT_GT(PositionsToMark(MinCdcNumbers(batch.bytes), setting, batch).size(), 6000u);
}

// The greatest number needs no mark, and is less than nothing.
TEST(ExtremeMarksTest, TheGreatestNumber) {
  Random random(TestSeed());
  std::vector<std::uint8_t> bytes(3000);
  for (std::uint32_t place = 3; place < bytes.size(); place += 4) {
    PutMinCdcNumber(bytes, place, random.OneIn(20) ? 0xFFFFFFFE : 0xFFFFFFFF);
  }
  Batch batch{bytes, {{0, 1500, 1}, {1504, 1496, 1}}};
  ASSERT_NO_FATAL_FAILURE(ExpectMarksOfDefinition(SettingOf(64, 600), batch, random));
}

TEST(ExtremeMarksTest, NoPieces) {
  Random random(TestSeed());
  Batch batch{std::vector<std::uint8_t>(40000), {}};
  ASSERT_NO_FATAL_FAILURE(ExpectMarksOfDefinition(SettingOf(64, 600), batch, random));
}

// As few as CandidateBytesLog2 takes them for, with a reach that many groups make up.
TEST(ExtremeMarksTest, AreRareInRandomData) {
  Random random(TestSeed());
  const Profile profile = *ParseProfile("mincdc-8k");
  Batch batch;
  Append(batch, MakeInput("random", random.Next(), 1 << 20), true, random);
  Close(batch);
  const BatchMarks marks =
      EmulateExtremeMarks(MakeMinCdcHashes(), ExtremeSettingOf(profile), batch, {});
  std::size_t count = 0;
  for (std::size_t word = 0; word < batch.bytes.size() / 32; ++word) {
    count += PopCount(marks[word]);
  }
  EXPECT_GT(count, (1u << 20) / 900);
  EXPECT_LT(count, (1u << 20) / 500);
}

}  // namespace
}  // namespace kerf::cuda
