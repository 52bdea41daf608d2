// K1 of gear and fastcdc against the scalar marker.
#include "kernels/cuda/kernel/gear_marks.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/cuda/kernel/mark_rules.h"
#include "kernels/cuda/kernel/strip_marks_testing.h"
#include "kernels/profile.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {
namespace {

template <bool kTwoMasks>
void ExpectAllScalarMarks(const GearRule& rule, std::uint64_t seed) {
  const auto args = GearHashArgs<kTwoMasks>(rule);
  const auto marker = MakeScalarMarker(rule);
  ExpectScalarMarks<GearHash<kTwoMasks>>(args, *marker, seed);
  ExpectScalarMarksOfEveryShape<GearHash<kTwoMasks>>(args, *marker, seed);
}

class GearMarksTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GearMarksTest, AreTheScalarMarkers) {
  const GearRule rule = *GearRuleOf(*ParseProfile(GetParam()));
  if (rule.loose_mask == rule.strict_mask) ExpectAllScalarMarks<false>(rule, TestSeed());
  ExpectAllScalarMarks<true>(rule, TestSeed());
}

INSTANTIATE_TEST_SUITE_P(Profiles, GearMarksTest,
                         ::testing::Values("gear-8k", "gear:min=64,avg=256,max=256", "fastcdc-8k",
                                           "fastcdc:min=64,avg=256,max=256,level=0",
                                           "fastcdc:min=64,avg=256,max=300,level=3"));

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
    ExpectScalarMarks<GearHash<true>>(GearHashArgs<true>(rule), *marker, random.Next());
  }
}

}  // namespace
}  // namespace kerf::cuda
