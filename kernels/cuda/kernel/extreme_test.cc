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
#include "kernels/cuda/kernel/extreme_marks_testing.h"
#include "kernels/cuda/kernel/selection_testing.h"
#include "kernels/reference/gear.h"

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
                                           // More candidates in a window than numbers are kept of.
                                           "mincdc:min=64,max=40000", "maxcdc-8k",
                                           "maxcdc:min=64,max=93", "maxcdc:min=65,max=330"));

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
  for (int round = 0; round < 150; ++round) {
    const std::uint32_t min_bytes = static_cast<std::uint32_t>(random.Between(64, 80));
    const std::uint32_t width = static_cast<std::uint32_t>(random.Between(520, 2100));
    const Profile profile =
        *ParseProfile(Cat("mincdc:min=", min_bytes, ",max=", min_bytes + width));
    std::vector<std::uint8_t> bytes = MakeInput("random", random.Next(), 3 * width);
    // The first chunk ends behind it.
    const std::size_t cut = min_bytes + 10;
    const std::size_t first = cut + min_bytes;
    const std::size_t smallest = first + width / 2 - 16 + random.Below(33);
    PutMinCdcNumber(bytes, cut, 0);
    PutMinCdcNumber(bytes, first - 1, 0);
    PutMinCdcNumber(bytes, smallest, 1);
    PutMinCdcNumber(bytes, first + width + 4, 0);
    Batch batch;
    Append(batch, bytes, true, random);
    Close(batch);
    const Selected selected = Select(profile, batch, AnyOrder(random));
    ASSERT_NO_FATAL_FAILURE(ExpectCutsOfReference(profile, batch, selected))
        << FormatProfile(profile);
    ASSERT_EQ(selected.chunks[1].size_bytes, smallest - cut);
  }
}

}  // namespace
}  // namespace kerf::cuda
