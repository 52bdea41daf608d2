// SHA-256's compression of several messages side by side. Plain types only: what is compiled for
// an instruction set must not leave templates behind that another file might link.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerf::sha256 {

inline constexpr std::size_t kBlockBytes = 64;
// More do not fit the registers.
inline constexpr std::size_t kMaxStreams = 4;

// One message between two calls.
struct Stream {
  // The hash value's words a to h (FIPS 180-4, 6.2.2).
  std::uint32_t words[8];
  // The next blocks; a call moves it on.
  const std::uint8_t* bytes;
};

// Compresses `block_count` blocks of each of `stream_count` streams, 1..kMaxStreams. Pure and
// thread-safe.
using CompressFunction = void (*)(Stream* const* streams, std::size_t stream_count,
                                  std::size_t block_count);

#if defined(__x86_64__)
// With the SHA extensions and SSE4.1: call it only where the processor has them.
void CompressShaNi(Stream* const* streams, std::size_t stream_count, std::size_t block_count);
#endif

}  // namespace kerf::sha256
