#include "server/redis/known_paths.h"

#include <algorithm>
#include <bit>

namespace kerf {
namespace {

// The bits of `path`, as a number.
std::size_t NumberOf(std::string_view path) {
  std::size_t number = 0;
  for (const char bit : path) number = number << 1 | (bit == '1' ? 1u : 0u);
  return number;
}

}  // namespace

std::optional<std::string> KnownPaths::PathOf(const Digest& digest) const {
  const std::uint32_t base = BaseOf(digest, base_bits_);
  const std::lock_guard lock(mutex_);
  const auto found = lengths_.find(base);
  if (found == lengths_.end()) return std::nullopt;
  const Lengths& lengths = found->second;
  const int known_bits = std::countr_zero(lengths.size());
  const std::size_t at = NumberOf(kerf::PathOf(digest, base_bits_, known_bits));
  return kerf::PathOf(digest, base_bits_, lengths[at]);
}

void KnownPaths::Learn(std::uint32_t base, std::string_view path) {
  const std::lock_guard lock(mutex_);
  Lengths& lengths = lengths_.try_emplace(base, 1).first->second;
  const int wanted_bits = std::min(static_cast<int>(path.size()), kMaxBits);
  while (std::countr_zero(lengths.size()) < wanted_bits) {
    Lengths twice(2 * lengths.size());
    for (std::size_t at = 0; at < twice.size(); ++at) twice[at] = lengths[at / 2];
    lengths = std::move(twice);
  }
  const int behind_bits = std::countr_zero(lengths.size()) - wanted_bits;
  const std::size_t first = NumberOf(path.substr(0, static_cast<std::size_t>(wanted_bits)))
                            << behind_bits;
  std::fill_n(lengths.begin() + static_cast<std::ptrdiff_t>(first), std::size_t{1} << behind_bits,
              static_cast<std::uint8_t>(path.size()));
}

}  // namespace kerf
