#include "base/utf8.h"

#include <cstdint>

namespace kerf {

std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(0);
  std::size_t length = 1;
  std::uint32_t code = first;
  if (first >= 0xF0 && first < 0xF8) {
    length = 4;
    code = first & 0x07u;
  } else if (first >= 0xE0) {
    length = 3;
    code = first & 0x0Fu;
  } else if (first >= 0xC0) {
    length = 2;
    code = first & 0x1Fu;
  } else if (first >= 0x80) {
    return 0;
  }
  if (first >= 0xF8 || text.size() < length) return 0;
  for (std::size_t index = 1; index < length; ++index) {
    if ((byte(index) & 0xC0) != 0x80) return 0;
    code = (code << 6) | (byte(index) & 0x3Fu);
  }
  static constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0;
  return length;
}

bool IsControl(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first < 0x20 || first == 0x7F;
  if (sequence == "\xE2\x80\xA8" || sequence == "\xE2\x80\xA9") return true;
  return sequence.size() == 2 && first == 0xC2 && static_cast<unsigned char>(sequence[1]) < 0xA0;
}

}  // namespace kerf
