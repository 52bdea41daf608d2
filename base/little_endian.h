// Numbers in files: little-endian, whatever the machine.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kerf {

// Writes sizeof(T) bytes.
template <std::unsigned_integral T>
void StoreLittleEndian(std::uint8_t* out, T value) {
  for (std::size_t index = 0; index < sizeof value; ++index) {
    out[index] = static_cast<std::uint8_t>(value >> (8 * index));
  }
}

// Reads sizeof(T) bytes; the caller has checked that they are there.
template <std::unsigned_integral T>
T LoadLittleEndian(const std::uint8_t* bytes) {
  T value = 0;
  for (std::size_t index = 0; index < sizeof value; ++index) {
    value = static_cast<T>(value | static_cast<T>(T{bytes[index]} << (8 * index)));
  }
  return value;
}

template <std::unsigned_integral T>
void AppendLittleEndian(std::vector<std::uint8_t>& out, T value) {
  out.resize(out.size() + sizeof value);
  StoreLittleEndian(out.data() + out.size() - sizeof value, value);
}

}  // namespace kerf
