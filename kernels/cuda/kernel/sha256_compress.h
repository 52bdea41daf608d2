// SHA-256's compression function (FIPS 180-4, 6.2.2) in its two parts: the message schedule, which
// does not wait for the block before, and the rounds, which do.
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

template <int kRound>
KERF_DEVICE_CODE std::uint32_t RoundConstant() {
  constexpr std::uint32_t kValue = sha256::kRoundConstants[kRound];
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

// The words that round 4 x kGroup and those after it take, each with the round's constant.
template <int kGroup>
KERF_DEVICE_CODE void ExpandFrom(std::uint32_t (&words)[16], Vector16* schedule, unsigned stride) {
  constexpr int kRound = 4 * kGroup;
  Vector16 group;
  group.words[0] = ScheduledWord<kRound>(words) + RoundConstant<kRound>();
  group.words[1] = ScheduledWord<kRound + 1>(words) + RoundConstant<kRound + 1>();
  group.words[2] = ScheduledWord<kRound + 2>(words) + RoundConstant<kRound + 2>();
  group.words[3] = ScheduledWord<kRound + 3>(words) + RoundConstant<kRound + 3>();
  schedule[kGroup * stride] = group;
  if constexpr (kRound + 4 < 64) ExpandFrom<kGroup + 1>(words, schedule, stride);
}

// The working variables do not move: each round has its own names for them. Ten shifts and steps of
// logic a round are what the pipe for them is busy with, so that the additions go elsewhere; they
// stand so that only one of them waits for the longest of what is added.
template <int kRound>
KERF_DEVICE_CODE void Round(std::uint32_t (&state)[8], std::uint32_t scheduled, std::uint32_t one) {
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
  const std::uint32_t early = AddByMultiplying(AddByMultiplying(h, one, scheduled), one, choice);
  d = AddByMultiplying(AddByMultiplying(early, one, d), one, sum_1);
  h = AddByMultiplying(AddByMultiplying(early, one, majority), one, sum_1);
  h = AddByMultiplying(h, one, sum_0);
}

template <int kGroup>
KERF_DEVICE_CODE void RoundsFrom(std::uint32_t (&state)[8], const Vector16* schedule,
                                 unsigned stride, std::uint32_t one) {
  constexpr int kRound = 4 * kGroup;
  const Vector16 group = schedule[kGroup * stride];
  Round<kRound>(state, group.words[0], one);
  Round<kRound + 1>(state, group.words[1], one);
  Round<kRound + 2>(state, group.words[2], one);
  Round<kRound + 3>(state, group.words[3], one);
  if constexpr (kRound + 4 < 64) RoundsFrom<kGroup + 1>(state, schedule, stride, one);
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

// The message schedule of a block: what the rounds take, four a vector, of which every
// `stride`-th is written. Of the block's words nothing is left.
KERF_DEVICE_CODE void Sha256Expand(std::uint32_t (&words)[16], Vector16* schedule,
                                   unsigned stride) {
  sha256_internal::ExpandFrom<0>(words, schedule, stride);
}

// The rounds of a block of such a schedule. `value` is the hash value before and after; `one` is
// that of AddByMultiplying.
KERF_DEVICE_CODE void Sha256Rounds(std::uint32_t (&value)[8], const Vector16* schedule,
                                   unsigned stride, std::uint32_t one) {
  std::uint32_t state[8] = {value[0], value[1], value[2], value[3],
                            value[4], value[5], value[6], value[7]};
  sha256_internal::RoundsFrom<0>(state, schedule, stride, one);
  KERF_UNROLL
  for (int index = 0; index < 8; ++index) value[index] += state[index];
}

}  // namespace kerf::cuda
