#include "kernels/reference/fastcdc.h"

#include <algorithm>
#include <bit>

#include "base/random.h"

namespace kerf {

std::array<std::uint32_t, 256> MakeFastCdcGear(std::uint64_t seed) {
  Random random(seed);
  std::array<std::uint32_t, 256> gear;
  for (std::uint32_t& value : gear) value = static_cast<std::uint32_t>(random.Next() >> 32);
  return gear;
}

std::span<const std::uint32_t, 256> FastCdcGear() {
  static const std::array<std::uint32_t, 256> gear = MakeFastCdcGear(kFastCdcGearSeed);
  return gear;
}

std::size_t FastCdcNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  if (bytes.size() <= profile.min_bytes) return bytes.size();
  const std::span<const std::uint32_t, 256> gear = FastCdcGear();
  const std::uint32_t bits = static_cast<std::uint32_t>(std::countr_zero(profile.avg_bytes));
  const std::uint32_t strict_mask = FastCdcMask(bits + profile.level);
  const std::uint32_t loose_mask = FastCdcMask(bits - profile.level);
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  std::uint32_t hash = 0;
  for (std::size_t index = profile.min_bytes; index < size; ++index) {
    hash = (hash << 1) + gear[bytes[index]];
    const std::uint32_t mask = index < profile.avg_bytes ? strict_mask : loose_mask;
    if ((hash & mask) == 0) return index;
  }
  return size;
}

}  // namespace kerf
