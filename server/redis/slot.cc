#include "server/redis/slot.h"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace kerf {
namespace {

constexpr std::uint16_t kPolynomial = 0x1021;

constexpr std::array<std::uint16_t, 256> MakeTable() {
  std::array<std::uint16_t, 256> table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    unsigned crc = static_cast<unsigned>(byte) << 8;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000) != 0 ? (crc << 1) ^ kPolynomial : crc << 1;
    }
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}

// Of each slot the least number that lies in it; some 180,000 are tried.
std::vector<std::uint32_t> NumbersOfSlots() {
  std::vector<std::uint32_t> numbers(kRedisSlotCount);
  std::vector<bool> is_found(kRedisSlotCount);
  std::size_t found_count = 0;
  for (std::uint32_t number = 0; found_count < kRedisSlotCount; ++number) {
    const std::uint16_t slot = RedisSlotOf(std::to_string(number));
    if (is_found[slot]) continue;
    is_found[slot] = true;
    numbers[slot] = number;
    ++found_count;
  }
  return numbers;
}

}  // namespace

std::string_view RedisHashedPartOf(std::string_view key) {
  const std::size_t open = key.find('{');
  if (open == std::string_view::npos) return key;
  const std::size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

std::uint16_t RedisSlotOf(std::string_view key) {
  static constexpr std::array<std::uint16_t, 256> kTable = MakeTable();
  unsigned crc = 0;
  for (const char letter : RedisHashedPartOf(key)) {
    const auto byte = static_cast<std::uint8_t>(letter);
    crc = ((crc << 8) & 0xFFFF) ^ kTable[(crc >> 8 ^ byte) & 0xFF];
  }
  return static_cast<std::uint16_t>(crc % kRedisSlotCount);
}

std::uint32_t RedisNumberIn(std::uint16_t slot) {
  static const auto* const kNumbers = new std::vector<std::uint32_t>(NumbersOfSlots());
  return (*kNumbers)[slot % kRedisSlotCount];
}

}  // namespace kerf
