// The end of a message for SHA-256 (FIPS 180-4, 5.1.1).
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// With the one bit and the length behind the message.
KERF_DEVICE_CODE constexpr std::uint32_t Sha256BlockCount(std::uint32_t size_bytes) {
  return size_bytes / 64 + (size_bytes % 64 + 9 > 64 ? 2 : 1);
}

// Sets what the message does not reach of one of the blocks behind its whole ones, of which there
// are one or two: the one bit, zeros, and in the last its length in bits.
KERF_DEVICE_CODE void Sha256Pad(std::uint32_t (&words)[16], std::uint32_t size_bytes,
                                std::uint32_t block) {
  // Below 0 where the message has ended in the block before.
  const int own_bytes = static_cast<int>(size_bytes % 64) - (block == size_bytes / 64 ? 0 : 64);
  KERF_UNROLL
  for (int word = 0; word < 16; ++word) {
    const int kept = own_bytes - 4 * word;
    const unsigned bits = 8 * (static_cast<unsigned>(kept) & 3);
    const std::uint32_t ended = (words[word] & ~(0xFFFFFFFFu >> bits)) | (0x80000000u >> bits);
    words[word] = kept < 0 ? 0 : kept < 4 ? ended : words[word];
  }
  if (block + 1 == Sha256BlockCount(size_bytes)) {
    words[14] = size_bytes >> 29;
    words[15] = size_bytes << 3;
  }
}

}  // namespace kerf::cuda
