// K1 of crc and rabin against the scalar markers.
#include "kernels/cuda/kernel/linear_marks.h"

#include <gtest/gtest.h>

#include "base/test_seed.h"
#include "kernels/cuda/kernel/mark_rules.h"
#include "kernels/cuda/kernel/strip_marks_testing.h"
#include "kernels/profile.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {
namespace {

TEST(LinearMarksTest, OfCrcAreTheScalarMarkers) {
  for (const char* const name : {"crc-8k", "crc:min=256,bits=6,max=256"}) {
    const Profile profile = *ParseProfile(name);
    const auto marker = MakeScalarMarker(profile);
    ExpectScalarMarks<CrcHash>(CrcHashArgs(profile), *marker, TestSeed());
    ExpectScalarMarksOfEveryShape<CrcHash>(CrcHashArgs(profile), *marker, TestSeed());
  }
}

TEST(LinearMarksTest, OfRabinAreTheScalarMarkers) {
  for (const char* const name :
       {"rabin-8k", "rabin:min=64,avg=256,max=256", "rabin:min=64,avg=1048576,max=4194304"}) {
    const Profile profile = *ParseProfile(name);
    const auto marker = MakeScalarMarker(profile);
    ExpectScalarMarks<RabinHash>(RabinHashArgs(profile), *marker, TestSeed());
    ExpectScalarMarksOfEveryShape<RabinHash>(RabinHashArgs(profile), *marker, TestSeed());
  }
}

}  // namespace
}  // namespace kerf::cuda
