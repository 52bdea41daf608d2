#include "kernels/reference/fastcdc2020.h"

#include <algorithm>
#include <bit>

namespace kerf {

std::size_t FastCdc2020NextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  if (bytes.size() <= profile.min_bytes) return bytes.size();
  const std::span<const std::uint64_t, 256> gear = FastCdc2020Gear();
  const std::uint32_t bits = static_cast<std::uint32_t>(std::countr_zero(profile.avg_bytes));
  const std::uint64_t strict_mask = FastCdc2020Mask(bits + profile.level);
  const std::uint64_t loose_mask = FastCdc2020Mask(bits - profile.level);
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  // The field steps by two bytes: the last one of an odd size is not looked at.
  const std::size_t end = size - size % 2;
  std::uint64_t hash = 0;
  for (std::size_t index = profile.min_bytes; index < end; ++index) {
    hash = (hash << 1) + gear[bytes[index]];
    const std::uint64_t mask = index < profile.avg_bytes ? strict_mask : loose_mask;
    if ((hash & mask) == 0) return index;
  }
  return size;
}

}  // namespace kerf
