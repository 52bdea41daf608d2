#include <algorithm>

#include "kernels/reference/rules.h"

namespace kerf {
namespace {

// Whether the byte there is greater than each of the `window` bytes on both sides.
bool IsLocalMaximum(std::span<const std::uint8_t> bytes, std::size_t index, std::size_t window) {
  for (std::size_t distance = 1; distance <= window; ++distance) {
    if (bytes[index - distance] >= bytes[index]) return false;
    if (bytes[index + distance] >= bytes[index]) return false;
  }
  return true;
}

}  // namespace

std::size_t MaxpLocalNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  const std::size_t window = profile.window_bytes;
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  for (std::size_t index = window; index + window < size; ++index) {
    if (IsLocalMaximum(bytes, index, window)) return index;
  }
  return size;
}

}  // namespace kerf
