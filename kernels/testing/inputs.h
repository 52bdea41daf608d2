// Inputs that a test or a golden vector names: a kind, a seed and a length, never a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kerf {

// The first `size_bytes` bytes of an input. The same on every machine; a shorter one is the start
// of a longer one. Kinds:
//   aes-ctr   AES-128-CTR of zeros, key 00112233445566778899aabbccddeeff, IV 0; the seed is ignored
//   random    SplitMix64 of the seed, values little-endian
//   constant  the byte `seed`
//   period    SplitMix64's first bytes, repeated after `seed` bytes (at least 1)
//   ramp      byte i is i / (seed + 1)
//   text      lines of words of lower-case letters from a vocabulary of 512, by SplitMix64
//   sparse    zeros with a random 4 KiB block in each 64 KiB
// Stops the process on another kind.
std::vector<std::uint8_t> MakeInput(std::string_view kind, std::uint64_t seed,
                                    std::size_t size_bytes);

struct InputName {
  std::string kind;
  std::uint64_t seed;
};

// What every chunker is tried on: each kind, and the constants and periods that have hurt one.
std::vector<InputName> NastyInputs();

}  // namespace kerf
