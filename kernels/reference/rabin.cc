#include "kernels/reference/rabin.h"

#include <algorithm>

namespace kerf {

std::uint64_t RabinResidue(std::uint64_t value, int bits) {
  for (int step = 0; step < bits; ++step) {
    value <<= 1;
    if ((value >> kRabinDegree & 1) != 0) value ^= kRabinPolynomial;
  }
  return value;
}

namespace {

// What a byte is worth when it leaves the window.
std::array<std::uint64_t, 256> MakeOutTable() {
  std::array<std::uint64_t, 256> table;
  for (std::uint64_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = RabinResidue(byte, 8 * (kRabinWindowBytes - 1));
  }
  return table;
}

// What takes the eight bits above the degree away and adds their residue.
std::array<std::uint64_t, 256> MakeReduceTable() {
  std::array<std::uint64_t, 256> table;
  for (std::uint64_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = RabinResidue(byte, kRabinDegree) | byte << kRabinDegree;
  }
  return table;
}

}  // namespace

RabinRoll::RabinRoll() { Slide(1); }

void RabinRoll::Slide(std::uint8_t byte) {
  static const std::array<std::uint64_t, 256> out = MakeOutTable();
  static const std::array<std::uint64_t, 256> reduce = MakeReduceTable();
  digest_ ^= out[window_[oldest_]];
  window_[oldest_] = byte;
  oldest_ = (oldest_ + 1) % window_.size();
  const std::uint64_t top = digest_ >> (kRabinDegree - 8);
  digest_ = (digest_ << 8 | byte) ^ reduce[top];
}

std::size_t RabinNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  RabinRoll roll;
  for (std::size_t index = 0; index < size; ++index) {
    roll.Slide(bytes[index]);
    if (index + 1 >= profile.min_bytes && (roll.digest() & (profile.avg_bytes - 1)) == 0) {
      return index + 1;
    }
  }
  return size;
}

std::size_t TttdNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  const std::uint64_t mask = profile.avg_bytes - 1;
  const std::uint64_t backup_mask = profile.avg_bytes / 2 - 1;
  RabinRoll roll;
  std::size_t backup = 0;
  for (std::size_t index = profile.min_bytes; index < size; ++index) {
    roll.Slide(bytes[index]);
    if ((roll.digest() & mask) == 0) return index;
    if ((roll.digest() & backup_mask) == 0) backup = index;
  }
  return backup != 0 ? backup : size;
}

}  // namespace kerf
