#include <algorithm>

#include "kernels/reference/rules.h"

namespace kerf {

std::size_t SeqCdcNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  if (bytes.size() < profile.min_bytes) return bytes.size();
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  const int wanted_sign = profile.mode == SequenceMode::kIncreasing ? 1 : -1;
  std::uint32_t wanted_steps = 0;
  std::uint32_t opposite_steps = 0;
  std::size_t index = profile.min_bytes;
  while (index < size) {
    const int step = (int{bytes[index]} - int{bytes[index - 1]}) * wanted_sign;
    ++index;
    if (step > 0 && ++wanted_steps == profile.sequence_length) return index - 1;
    if (step < 0) {
      wanted_steps = 0;
      // All opposite steps since the last skip, not only neighbours.
      if (++opposite_steps == profile.skip_trigger) {
        opposite_steps = 0;
        index += profile.skip_bytes;
      }
    }
  }
  return size;
}

}  // namespace kerf
