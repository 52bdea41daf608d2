#include <algorithm>

#include "kernels/reference/rules.h"

namespace kerf {

std::size_t MinCdcNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  if (bytes.size() <= profile.min_bytes) return bytes.size();
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  std::size_t cut = 0;
  std::uint32_t smallest = 0;
  for (std::size_t index = profile.min_bytes; index <= size; ++index) {
    const std::uint32_t word = bytes[index - 4] | std::uint32_t{bytes[index - 3]} << 8 |
                               std::uint32_t{bytes[index - 2]} << 16 |
                               std::uint32_t{bytes[index - 1]} << 24;
    const std::uint32_t hash = MinCdcHash(word);
    if (cut == 0 || hash < smallest) {
      cut = index;
      smallest = hash;
    }
  }
  return cut;
}

}  // namespace kerf
