// mincdc and maxcdc from their marks to their cuts, in the emulator, against the references.
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/cuda/kernel/cut_rule_of.h"
#include "kernels/cuda/kernel/emulated_selection.h"
#include "kernels/cuda/kernel/selection_testing.h"
#include "kernels/reference/gear.h"
#include "kernels/reference/rules.h"

namespace kerf::cuda {
namespace {

template <class Hash>
Selected SelectBy(const Profile& profile, const Hash& hash, const Batch& batch,
                  const EmulatorOptions& options) {
  const ExtremeSetting setting = ExtremeSettingOf(profile);
  const BatchMarks marks = EmulateExtremeMarks(hash, setting, batch, options);
  return EmulateSelection(setting.RuleOf(hash), *CandidateBytesLog2(profile), batch, marks,
                          options);
}

// Marks and cuts.
Selected Select(const Profile& profile, const Batch& batch, const EmulatorOptions& options) {
  if (profile.algorithm == Algorithm::kMinCdc) {
    return SelectBy(profile, MakeMinCdcHashes(), batch, options);
  }
  return SelectBy(profile, MakeMaxCdcHashes(kGearTable.data()), batch, options);
}

class Extreme : public ::testing::TestWithParam<const char*> {
 protected:
  // At most so many pieces may be left to the CPU.
  void ExpectReference(Batch& batch, std::size_t most_for_cpu, Random& random) const {
    Close(batch);
    const Selected selected = Select(profile_, batch, AnyOrder(random));
    Batch others{batch.bytes, {}};
    for (std::size_t index = 0; index < batch.pieces.size(); ++index) {
      if (selected.cuts[index].needs_cpu == 0) others.pieces.push_back(batch.pieces[index]);
    }
    EXPECT_LE(batch.pieces.size() - others.pieces.size(), most_for_cpu);
    ExpectCutsOfReference(profile_, others, Select(profile_, others, AnyOrder(random)));
  }

  // Not so few bytes that the ends of windows do not matter.
  std::size_t AnySize(Random& random) const {
    if (random.OneIn(3)) return random.Below(200);
    if (random.OneIn(3)) return random.Between(profile_.min_bytes - 1, profile_.max_bytes + 1);
    return random.Below(3 * profile_.max_bytes);
  }

  const Profile profile_ = *ParseProfile(GetParam());
};

TEST_P(Extreme, NastyInputsInOneBatch) {
  Random random(TestSeed());
  Batch batch;
  for (const InputName& name : NastyInputs()) {
    Append(batch, MakeInput(name.kind, name.seed, random.Between(20000, 60000)), random.OneIn(2),
           random);
  }
  ExpectReference(batch, profile_.max_bytes - profile_.min_bytes < 250 ? 3 : 0, random);
}

TEST_P(Extreme, ManySmallPieces) {
  Random random(TestSeed());
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE(Cat("round ", round));
    Batch batch;
    while (batch.pieces.size() < 60 && batch.bytes.size() < 150000) {
      Append(batch, AnyBytes(AnySize(random), random), random.OneIn(2), random);
    }
    Close(batch);
    ASSERT_NO_FATAL_FAILURE(
        ExpectCutsOfReference(profile_, batch, Select(profile_, batch, AnyOrder(random))));
  }
}

// Few values, so that the smallest number comes several times in a window.
TEST_P(Extreme, Ties) {
  Random random(TestSeed());
  Batch batch;
  for (int index = 0; index < 12; ++index) {
    std::vector<std::uint8_t> bytes = MakeInput("random", random.Next(), 20000);
    const std::size_t period = random.Between(1, 3000);
    for (std::size_t position = 0; position < bytes.size(); ++position) {
      bytes[position] =
          position < period || random.OneIn(1000) ? bytes[position] & 1 : bytes[position - period];
    }
    Append(batch, bytes, random.OneIn(2), random);
  }
  ExpectReference(batch, profile_.max_bytes - profile_.min_bytes < 250 ? 6 : 0, random);
}

INSTANTIATE_TEST_SUITE_P(Profiles, Extreme,
                         ::testing::Values("mincdc-8k", "mincdc:min=64,max=64",
                                           "mincdc:min=64,max=65", "mincdc:min=64,max=92",
                                           "mincdc:min=64,max=125", "mincdc:min=100,max=400",
                                           "mincdc:min=64,max=2141", "mincdc:min=777,max=5000",
                                           "maxcdc-8k", "maxcdc:min=64,max=93",
                                           "maxcdc:min=65,max=330"));

// Each width makes other positions those that decide: the last one that needs no mark, the one in
// the middle.
TEST(ExtremeWidths, AnyWidth) {
  Random random(TestSeed());
  for (int round = 0; round < 100; ++round) {
    const std::uint64_t min_bytes = random.Between(64, 100);
    const std::uint64_t width = random.Between(20, random.OneIn(2) ? 120 : 700);
    const Profile profile = *ParseProfile(
        Cat(round % 4 == 0 ? "maxcdc" : "mincdc", ":min=", min_bytes, ",max=", min_bytes + width));
    Batch batch;
    Append(batch, MakeInput("random", random.Next(), 60000), true, random);
    Close(batch);
    ASSERT_NO_FATAL_FAILURE(
        ExpectCutsOfReference(profile, batch, Select(profile, batch, AnyOrder(random))))
        << FormatProfile(profile);
  }
}

// The smallest of the second window lies about its middle, and what is smaller just outside of it,
// on both sides: a mark that looked too far would see that.
TEST(ExtremeWidths, SmallestInTheMiddle) {
  Random random(TestSeed());
  // For numbers that are asked for: the odd multiplier has an inverse.
  std::uint32_t inverse = 1;
  for (int step = 0; step < 5; ++step) inverse *= 2 - kMinCdcMultiplier * inverse;
  for (int round = 0; round < 150; ++round) {
    const std::uint32_t min_bytes = static_cast<std::uint32_t>(random.Between(64, 80));
    const std::uint32_t width = static_cast<std::uint32_t>(random.Between(520, 2100));
    const Profile profile =
        *ParseProfile(Cat("mincdc:min=", min_bytes, ",max=", min_bytes + width));
    std::vector<std::uint8_t> bytes = MakeInput("random", random.Next(), 3 * width);
    const auto put = [&](std::size_t position, std::uint32_t number) {
      const std::uint32_t word = (number - kMinCdcAddend) * inverse;
      for (std::size_t index = 0; index < 4; ++index) {
        bytes[position - 3 + index] = static_cast<std::uint8_t>(word >> (8 * index));
      }
    };
    // The first chunk ends behind it.
    const std::size_t cut = min_bytes + 10;
    const std::size_t first = cut + min_bytes;
    const std::size_t smallest = first + width / 2 - 16 + random.Below(33);
    put(cut, 0);
    put(first - 1, 0);
    put(smallest, 1);
    put(first + width + 4, 0);
    Batch batch;
    Append(batch, bytes, true, random);
    Close(batch);
    const Selected selected = Select(profile, batch, AnyOrder(random));
    ASSERT_NO_FATAL_FAILURE(ExpectCutsOfReference(profile, batch, selected))
        << FormatProfile(profile);
    ASSERT_EQ(selected.chunks[1].size_bytes, smallest - cut);
  }
}

// What lies around a piece has no influence on its marks, so that it is not dense in one batch
// and not in another.
TEST(ExtremeMarksTest, DependOnThePieceAlone) {
  Random random(TestSeed());
  const ExtremeSetting setting = ExtremeSettingOf(*ParseProfile("mincdc:min=64,max=700"));
  const auto marks_of = [&](const std::vector<std::uint8_t>& bytes) {
    Batch batch;
    Append(batch, AnyBytes(random.Below(3000), random), true, random);
    Append(batch, bytes, true, random);
    Append(batch, AnyBytes(random.Below(3000), random), true, random);
    Close(batch);
    const BatchMarks marks =
        EmulateExtremeMarks(MakeMinCdcHashes(), setting, batch, AnyOrder(random));
    std::vector<std::uint32_t> positions;
    for (std::uint32_t position = 0; position < bytes.size(); ++position) {
      const std::uint32_t place = batch.pieces[1].offset + position;
      if ((marks[place / 32] >> place % 32 & 1) != 0) positions.push_back(position);
    }
    return positions;
  };
  for (int round = 0; round < 20; ++round) {
    const std::vector<std::uint8_t> bytes = AnyBytes(random.Below(4000), random);
    ASSERT_EQ(marks_of(bytes), marks_of(bytes)) << "round " << round;
  }
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
