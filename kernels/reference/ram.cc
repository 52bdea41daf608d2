#include <algorithm>

#include "kernels/reference/rules.h"

namespace kerf {

std::size_t RamNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  if (size <= profile.window_bytes) return size;
  const std::uint8_t maximum = std::ranges::max(bytes.first(profile.window_bytes));
  for (std::size_t index = profile.window_bytes; index < size; ++index) {
    if (bytes[index] >= maximum) return index;
  }
  return size;
}

}  // namespace kerf
