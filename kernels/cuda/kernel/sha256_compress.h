// SHA-256's compression function (FIPS 180-4, 6.2.2), in registers.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/portable.h"
#include "kernels/fingerprint/sha256_constants.h"

namespace kerf::cuda {
namespace sha256_internal {

template <int kWord>
KERF_DEVICE_CODE std::uint32_t StartWord() {
  constexpr std::uint32_t kValue = sha256::kStart[kWord];
  return kValue;
}

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
  constexpr std::uint32_t kConstant = sha256::kRoundConstants[kRound];
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

// The hash value of nothing.
KERF_DEVICE_CODE void Sha256Start(std::uint32_t (&value)[8]) {
  value[0] = sha256_internal::StartWord<0>();
  value[1] = sha256_internal::StartWord<1>();
  value[2] = sha256_internal::StartWord<2>();
  value[3] = sha256_internal::StartWord<3>();
  value[4] = sha256_internal::StartWord<4>();
  value[5] = sha256_internal::StartWord<5>();
  value[6] = sha256_internal::StartWord<6>();
  value[7] = sha256_internal::StartWord<7>();
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
