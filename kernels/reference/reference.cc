#include "kernels/reference/reference.h"

#include "base/check.h"
#include "kernels/reference/crc.h"
#include "kernels/reference/fastcdc.h"
#include "kernels/reference/fastcdc2020.h"
#include "kernels/reference/gear.h"
#include "kernels/reference/rabin.h"
#include "kernels/reference/rules.h"

namespace kerf {

std::size_t ReferenceNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  switch (profile.algorithm) {
    case Algorithm::kFixed:
      return FixedNextCut(profile, bytes);
    case Algorithm::kRabin:
      return RabinNextCut(profile, bytes);
    case Algorithm::kCrc:
      return CrcNextCut(profile, bytes);
    case Algorithm::kTttd:
      return TttdNextCut(profile, bytes);
    case Algorithm::kFastCdc:
      return FastCdcNextCut(profile, bytes);
    case Algorithm::kFastCdc2020:
      return FastCdc2020NextCut(profile, bytes);
    case Algorithm::kAeMax:
    case Algorithm::kAeMin:
      return AeNextCut(profile, bytes);
    case Algorithm::kMaxp:
      return MaxpNextCut(profile, bytes);
    case Algorithm::kMaxpLocal:
      return MaxpLocalNextCut(profile, bytes);
    case Algorithm::kRam:
      return RamNextCut(profile, bytes);
    case Algorithm::kSeqCdc:
      return SeqCdcNextCut(profile, bytes);
    case Algorithm::kMinCdc:
      return MinCdcNextCut(profile, bytes);
    case Algorithm::kGear:
      return GearNextCut(profile, bytes);
    case Algorithm::kMaxCdc:
      return MaxCdcNextCut(profile, bytes);
  }
  KERF_CHECK(false && "an algorithm without a reference");
  return 0;
}

}  // namespace kerf
