// K1 of gear, fastcdc and fastcdc2020 against the scalar markers.
#include "kernels/cuda/kernel/gear_marks.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/cuda/kernel/mark_rules.h"
#include "kernels/cuda/kernel/strip_marks_testing.h"
#include "kernels/cuda/kernel/wide_gear.h"
#include "kernels/cuda/kernel/wide_gear_marker.h"
#include "kernels/profile.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {
namespace {

class GearMarksTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GearMarksTest, AreTheScalarMarkers) {
  const GearRule rule = *GearRuleOf(*ParseProfile(GetParam()));
  const auto marker = MakeScalarMarker(rule);
  ExpectScalarMarks<GearHash<std::uint32_t>>(GearHashArgs(rule), *marker, TestSeed());
  ExpectScalarMarksOfEveryShape<GearHash<std::uint32_t>>(GearHashArgs(rule), *marker, TestSeed());
}

INSTANTIATE_TEST_SUITE_P(Profiles, GearMarksTest,
                         ::testing::Values("gear-8k", "gear:min=64,avg=256,max=256", "fastcdc-8k",
                                           "fastcdc:min=64,avg=256,max=256,level=0",
                                           "fastcdc:min=64,avg=256,max=300,level=3"));

class WideGearMarksTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WideGearMarksTest, AreTheScalarMarkers) {
  const WideGearRule rule = *WideGearRuleOf(*ParseProfile(GetParam()));
  const WideGearMarker marker(rule);
  ExpectScalarMarks<GearHash<std::uint64_t>>(GearHashArgs(rule), marker, TestSeed());
  ExpectScalarMarksOfEveryShape<GearHash<std::uint64_t>>(GearHashArgs(rule), marker, TestSeed());
}

INSTANTIATE_TEST_SUITE_P(Profiles, WideGearMarksTest,
                         ::testing::Values("fastcdc2020:min=64,avg=1024,max=2048,level=0",
                                           "fastcdc2020-64k"));

TEST(StripBytesTest, GrowWithTheBatchUpToTheRulesMost) {
  using Hash = GearHash<std::uint64_t>;
  constexpr std::uint32_t kOnceBytes = Hash::kFillingThreads * kStripAlignmentBytes;
  EXPECT_EQ(WideGearMarks::StripBytesOf(0), 128u);
  EXPECT_EQ(WideGearMarks::StripBytesOf(kOnceBytes), 128u);
  EXPECT_EQ(WideGearMarks::StripBytesOf(kOnceBytes + kBatchAlignmentBytes), 256u);
  EXPECT_EQ(WideGearMarks::StripBytesOf(3 * kOnceBytes), 384u);
  EXPECT_EQ(WideGearMarks::StripBytesOf(kMaxBatchBytes), Hash::kMostStripBytes);
}

// Windows from 1 byte to 32, marks from every position to hardly any.
TEST(GearMarksToys, AreTheScalarMarkers) {
  Random random(TestSeed());
  for (const int window : {1, 2, 15, 16, 17, 18, 31, 32}) {
    GearRule rule{};
    for (std::uint32_t& value : rule.table) value = static_cast<std::uint32_t>(random.Next());
    const auto highest = std::uint32_t{1} << (window - 1);
    rule.strict_mask =
        highest | (static_cast<std::uint32_t>(random.Next() & random.Next()) & (highest - 1));
    rule.loose_mask = rule.strict_mask & static_cast<std::uint32_t>(random.Next());
    rule.window_bytes = static_cast<std::size_t>(std::bit_width(rule.strict_mask));
    SCOPED_TRACE(window);
    const auto marker = MakeScalarMarker(rule);
    ExpectScalarMarks<GearHash<std::uint32_t>>(GearHashArgs(rule), *marker, random.Next());
  }
}

// The same with 64 bits, and masks of which neither has the other's bits.
TEST(WideGearMarksToys, AreTheScalarMarkers) {
  Random random(TestSeed());
  for (const int window : {1, 16, 31, 32, 33, 48, 49, 63, 64}) {
    WideGearRule rule{};
    for (std::uint64_t& value : rule.table) value = random.Next();
    const auto highest = std::uint64_t{1} << (window - 1);
    rule.strict_mask = highest | (random.Next() & random.Next() & (highest - 1));
    rule.loose_mask = random.Next() & (highest | (highest - 1));
    rule.window_bytes = static_cast<std::size_t>(window);
    SCOPED_TRACE(window);
    ExpectScalarMarks<GearHash<std::uint64_t>>(GearHashArgs(rule), WideGearMarker(rule),
                                               random.Next());
  }
}

}  // namespace
}  // namespace kerf::cuda
