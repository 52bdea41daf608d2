// How hints are written as bytes: numbers of 7 bits a byte, least significant first, in their
// shortest form only, so that one value has one form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kerf::rapid_packing {

// Of a 32-bit number.
inline constexpr std::size_t kMaxVarintBytes = 5;

inline void AppendVarint(std::uint32_t value, std::vector<std::uint8_t>& out) {
  while (value >= 0x80) {
    out.push_back(static_cast<std::uint8_t>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<std::uint8_t>(value));
}

// Takes bytes off the front of what it was given; nothing if they are not there.
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }

  std::optional<std::uint8_t> Byte() {
    if (rest_.empty()) return std::nullopt;
    const std::uint8_t byte = rest_.front();
    rest_ = rest_.subspan(1);
    return byte;
  }

  std::optional<std::uint32_t> Varint() {
    std::uint32_t value = 0;
    for (std::size_t index = 0; index < kMaxVarintBytes; ++index) {
      const std::optional<std::uint8_t> byte = Byte();
      if (!byte) return std::nullopt;
      // The fifth byte has room for four bits; a last byte of zero could be left out.
      if (index == kMaxVarintBytes - 1 && *byte > 0x0F) return std::nullopt;
      if (index > 0 && *byte == 0) return std::nullopt;
      value |= static_cast<std::uint32_t>(*byte & 0x7F) << (7 * index);
      if ((*byte & 0x80) == 0) return value;
    }
    return std::nullopt;
  }

  std::optional<std::span<const std::uint8_t>> Bytes(std::size_t count) {
    if (rest_.size() < count) return std::nullopt;
    const std::span<const std::uint8_t> bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace kerf::rapid_packing
