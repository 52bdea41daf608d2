#include <algorithm>

#include "kernels/reference/rules.h"

namespace kerf {

std::size_t MaxpNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  const std::size_t window = profile.window_bytes;
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  if (size < 2 * window + 1) return size;
  std::size_t position = window;
  std::uint8_t maximum = bytes[window];
  for (std::size_t index = window; index + 1 < size; ++index) {
    if (bytes[index] >= maximum) {
      position = index;
      maximum = bytes[index];
    } else if (index == position + window) {
      if (std::ranges::max(bytes.subspan(position - window, window)) <= maximum) return position;
      position = index + 1;
      maximum = bytes[index + 1];
    }
  }
  return size;
}

}  // namespace kerf
