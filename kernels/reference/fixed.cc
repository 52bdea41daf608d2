#include <algorithm>

#include "kernels/reference/rules.h"

namespace kerf {

std::size_t FixedNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  return std::min<std::size_t>(bytes.size(), profile.max_bytes);
}

}  // namespace kerf
