// XXH3 as one instruction set gives it. Plain types only: what is compiled for wide vectors must
// not leave templates behind that another file might link.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerf::xxh3 {

inline constexpr std::size_t kStateBytes = 576;
inline constexpr std::size_t kDigestBytes = 16;

// A stream's state between two calls of one target.
struct alignas(64) State {
  std::uint8_t bytes[kStateBytes];
};

struct Target {
  const char* name;
  // Seed 0; digests in canonical (big-endian) form.
  std::uint64_t (*hash_64)(const std::uint8_t* bytes, std::size_t count);
  void (*hash_128)(const std::uint8_t* bytes, std::size_t count, std::uint8_t* digest);
  void (*reset)(State* state);
  void (*update)(State* state, const std::uint8_t* bytes, std::size_t count);
  void (*digest)(const State* state, std::uint8_t* digest);
};

extern const Target kBaseline;
#if defined(__x86_64__)
extern const Target kAvx2;
extern const Target kAvx512;
#endif

}  // namespace kerf::xxh3
