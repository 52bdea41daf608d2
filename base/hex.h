// Bytes as text: two of the digits 0123456789abcdef for each, the higher one first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kerf {

inline constexpr std::string_view kHexDigits = "0123456789abcdef";

inline std::string HexOf(std::span<const std::uint8_t> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

// Whether there is nothing else in it, as in an empty one.
inline bool IsHex(std::string_view text) {
  return text.find_first_not_of(kHexDigits) == std::string_view::npos;
}

}  // namespace kerf
