// SHA-256's compression function (FIPS 180-4, 6.2.2), in registers.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/portable.h"

namespace kerf::cuda {
namespace sha256_internal {

// FIPS 180-4, 4.2.2.
inline constexpr std::uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// The word of the message schedule that round kRound takes, whose place is that of the one sixteen
// rounds before.
template <int kRound>
KERF_DEVICE_CODE std::uint32_t ScheduledWord(std::uint32_t (&words)[16]) {
  if constexpr (kRound >= 16) {
    const std::uint32_t before_2 = words[(kRound - 2) % 16];
    const std::uint32_t before_15 = words[(kRound - 15) % 16];
    const std::uint32_t sigma_1 =
        RotateRight(before_2, 17) ^ RotateRight(before_2, 19) ^ (before_2 >> 10);
    const std::uint32_t sigma_0 =
        RotateRight(before_15, 7) ^ RotateRight(before_15, 18) ^ (before_15 >> 3);
    words[kRound % 16] += sigma_1 + words[(kRound - 7) % 16] + sigma_0;
  }
  return words[kRound % 16];
}

// The working variables do not move: each round has its own names for them.
template <int kRound>
KERF_DEVICE_CODE void Round(std::uint32_t (&state)[8], std::uint32_t (&words)[16]) {
  constexpr std::uint32_t kConstant = kRoundConstants[kRound];
  constexpr int kTurn = 64 - kRound;
  const std::uint32_t a = state[kTurn % 8];
  const std::uint32_t b = state[(kTurn + 1) % 8];
  const std::uint32_t c = state[(kTurn + 2) % 8];
  std::uint32_t& d = state[(kTurn + 3) % 8];
  const std::uint32_t e = state[(kTurn + 4) % 8];
  const std::uint32_t f = state[(kTurn + 5) % 8];
  const std::uint32_t g = state[(kTurn + 6) % 8];
  std::uint32_t& h = state[(kTurn + 7) % 8];
  const std::uint32_t sum_1 = RotateRight(e, 6) ^ RotateRight(e, 11) ^ RotateRight(e, 25);
  const std::uint32_t sum_0 = RotateRight(a, 2) ^ RotateRight(a, 13) ^ RotateRight(a, 22);
  const std::uint32_t choice = (e & f) ^ (~e & g);
  const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
  h += kConstant + ScheduledWord<kRound>(words) + choice + sum_1;
  d += h;
  h += sum_0 + majority;
}

template <int kFirstRound>
KERF_DEVICE_CODE void EightRounds(std::uint32_t (&state)[8], std::uint32_t (&words)[16]) {
  Round<kFirstRound>(state, words);
  Round<kFirstRound + 1>(state, words);
  Round<kFirstRound + 2>(state, words);
  Round<kFirstRound + 3>(state, words);
  Round<kFirstRound + 4>(state, words);
  Round<kFirstRound + 5>(state, words);
  Round<kFirstRound + 6>(state, words);
  Round<kFirstRound + 7>(state, words);
}

}  // namespace sha256_internal

// FIPS 180-4, 5.3.3.
KERF_DEVICE_CODE void Sha256Start(std::uint32_t (&value)[8]) {
  value[0] = 0x6a09e667;
  value[1] = 0xbb67ae85;
  value[2] = 0x3c6ef372;
  value[3] = 0xa54ff53a;
  value[4] = 0x510e527f;
  value[5] = 0x9b05688c;
  value[6] = 0x1f83d9ab;
  value[7] = 0x5be0cd19;
}

// `value` is the hash value before and after; of the block's words nothing is left.
KERF_DEVICE_CODE void Sha256Compress(std::uint32_t (&value)[8], std::uint32_t (&words)[16]) {
  std::uint32_t state[8] = {value[0], value[1], value[2], value[3],
                            value[4], value[5], value[6], value[7]};
  sha256_internal::EightRounds<0>(state, words);
  sha256_internal::EightRounds<8>(state, words);
  sha256_internal::EightRounds<16>(state, words);
  sha256_internal::EightRounds<24>(state, words);
  sha256_internal::EightRounds<32>(state, words);
  sha256_internal::EightRounds<40>(state, words);
  sha256_internal::EightRounds<48>(state, words);
  sha256_internal::EightRounds<56>(state, words);
  KERF_UNROLL
  for (int index = 0; index < 8; ++index) value[index] += state[index];
}

}  // namespace kerf::cuda
