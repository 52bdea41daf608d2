#include <algorithm>

#include "kernels/reference/rules.h"

namespace kerf {

std::size_t AeNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  const bool wants_maximum = profile.algorithm == Algorithm::kAeMax;
  std::uint8_t extreme = bytes[0];
  std::size_t position = 0;
  for (std::size_t index = 1; index < size; ++index) {
    // Strict: an equal byte neither takes the place of the extreme nor stops its window.
    if (wants_maximum ? bytes[index] > extreme : bytes[index] < extreme) {
      extreme = bytes[index];
      position = index;
    } else if (index == position + profile.window_bytes) {
      return index;
    }
  }
  return size;
}

}  // namespace kerf
