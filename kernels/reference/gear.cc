#include "kernels/reference/gear.h"

#include <algorithm>

namespace kerf {

std::size_t GearNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  if (bytes.size() <= profile.min_bytes) return bytes.size();
  const std::uint32_t bound = GearBound(profile.avg_bytes);
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  std::uint16_t hash = 0;
  for (std::size_t index = profile.min_bytes; index < size; ++index) {
    hash = static_cast<std::uint16_t>((hash << 1) + kGearTable[bytes[index]]);
    if (hash < bound) return index;
  }
  return size;
}

std::size_t MaxCdcNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  if (bytes.size() <= profile.min_bytes) return bytes.size();
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  std::size_t cut = 0;
  std::uint32_t hash = 0;
  std::uint32_t largest = 0;
  for (std::size_t index = profile.min_bytes - kMaxCdcWindowBytes + 1; index <= size; ++index) {
    hash = (hash << 1) + kGearTable[bytes[index - 1]];
    if (index < profile.min_bytes) continue;
    if (cut == 0 || hash > largest) {
      cut = index;
      largest = hash;
    }
  }
  return cut;
}

}  // namespace kerf
