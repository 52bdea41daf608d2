// What BLAKE3 and SHA-256 answer with.
#pragma once

#include <cstdint>

namespace kerf::cuda {

// 32 bytes: a digest, byte by byte, or the value of a node of BLAKE3's tree. Loaded and stored as
// two vectors of 16 bytes.
struct alignas(16) DigestWords {
  std::uint32_t words[8];
};

}  // namespace kerf::cuda
