#include "kernels/reference/reference.h"

#include "base/check.h"
#include "kernels/reference/fastcdc.h"
#include "kernels/reference/fastcdc2020.h"

namespace kerf {

std::size_t ReferenceNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  switch (profile.algorithm) {
    case Algorithm::kFastCdc:
      return FastCdcNextCut(profile, bytes);
    case Algorithm::kFastCdc2020:
      return FastCdc2020NextCut(profile, bytes);
  }
  KERF_CHECK(false && "an algorithm with a reference");
  return 0;
}

}  // namespace kerf
