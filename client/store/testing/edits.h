// Fuzz input as changes of something valid, so that it gets past the first checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kerf::agent {

// Each three bytes of `edits` set one byte of `sample`: position (big-endian, modulo the size) and
// value. Bytes that are left over cut the sample short.
inline std::vector<std::uint8_t> ApplyEdits(std::vector<std::uint8_t> sample,
                                            std::span<const std::uint8_t> edits) {
  constexpr std::size_t kEditBytes = 3;
  while (edits.size() >= kEditBytes && !sample.empty()) {
    const std::size_t position = std::size_t{edits[0]} << 8 | edits[1];
    sample[position % sample.size()] = edits[2];
    edits = edits.subspan(kEditBytes);
  }
  if (!edits.empty() && !sample.empty()) sample.resize(edits[0] % sample.size());
  return sample;
}

}  // namespace kerf::agent
