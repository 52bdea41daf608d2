#include "kernels/reference/crc.h"

#include <algorithm>

namespace kerf {
namespace {

// One more zero byte.
std::uint32_t Advance(std::uint32_t remainder) {
  for (int bit = 0; bit < 8; ++bit) {
    remainder = remainder >> 1 ^ ((remainder & 1) != 0 ? kCrcPolynomial : 0);
  }
  return remainder;
}

std::array<std::uint32_t, 256> MakeTable(std::uint32_t zero_bytes) {
  std::array<std::uint32_t, 256> table;
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = Advance(byte);
    for (std::uint32_t step = 0; step < zero_bytes; ++step) table[byte] = Advance(table[byte]);
  }
  return table;
}

}  // namespace

std::span<const std::uint32_t, 256> CrcTable() {
  static const std::array<std::uint32_t, 256> table = MakeTable(0);
  return table;
}

std::span<const std::uint32_t, 256> CrcOutTable() {
  static const std::array<std::uint32_t, 256> table = MakeTable(kCrcWindowBytes);
  return table;
}

std::size_t CrcNextCut(const Profile& profile, std::span<const std::uint8_t> bytes) {
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  if (size <= profile.min_bytes) return size;
  const std::span<const std::uint32_t, 256> in = CrcTable();
  const std::span<const std::uint32_t, 256> out = CrcOutTable();
  const std::uint32_t mask = (std::uint32_t{1} << profile.mask_bits) - 1;
  std::uint32_t crc = 0;
  const auto slide = [&](std::uint8_t byte) { crc = in[(crc ^ byte) & 0xFF] ^ crc >> 8; };
  for (std::size_t index = profile.min_bytes - kCrcWindowBytes; index < profile.min_bytes;
       ++index) {
    slide(bytes[index]);
  }
  for (std::size_t index = profile.min_bytes; index < size; ++index) {
    slide(bytes[index]);
    crc ^= out[bytes[index - kCrcWindowBytes]];
    if ((crc & mask) == 0) return index;
  }
  return size;
}

}  // namespace kerf
