// BLAKE3's compression function (its paper, section 2.2), in registers.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/portable.h"
#include "kernels/fingerprint/blake3_constants.h"

namespace kerf::cuda {
namespace blake3_internal {

// Indices of tables that the host compiles are constants of the source, so that no table is
// needed on the device.
template <int kRound, int kPlace>
KERF_DEVICE_CODE std::uint32_t ScheduledWord(const std::uint32_t (&message)[16]) {
  constexpr unsigned kWord = blake3::kSchedule[kRound][kPlace];
  return message[kWord];
}

template <int kWord>
KERF_DEVICE_CODE std::uint32_t InitialWord() {
  constexpr std::uint32_t kValue = blake3::kIv[kWord];
  return kValue;
}

// The additions go where shifts and logic do not: those alone keep their pipe busy.
KERF_DEVICE_CODE void Mix(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c, std::uint32_t& d,
                          std::uint32_t first, std::uint32_t second, std::uint32_t one) {
  a = AddByMultiplying(AddByMultiplying(a, one, first), one, b);
  d = RotateRight(d ^ a, 16);
  c = AddByMultiplying(c, one, d);
  b = RotateRight(b ^ c, 12);
  a = AddByMultiplying(AddByMultiplying(a, one, second), one, b);
  d = RotateRight(d ^ a, 8);
  c = AddByMultiplying(c, one, d);
  b = RotateRight(b ^ c, 7);
}

template <int kRound, int kMix>
KERF_DEVICE_CODE void MixWords(std::uint32_t (&state)[16], const std::uint32_t (&message)[16],
                               std::uint32_t one) {
  // Columns, then diagonals.
  constexpr int kTurn = kMix / 4;
  constexpr int kColumn = kMix % 4;
  Mix(state[kColumn], state[4 + (kColumn + kTurn) % 4], state[8 + (kColumn + 2 * kTurn) % 4],
      state[12 + (kColumn + 3 * kTurn) % 4], ScheduledWord<kRound, 2 * kMix>(message),
      ScheduledWord<kRound, 2 * kMix + 1>(message), one);
}

template <int kRound>
KERF_DEVICE_CODE void Round(std::uint32_t (&state)[16], const std::uint32_t (&message)[16],
                            std::uint32_t one) {
  MixWords<kRound, 0>(state, message, one);
  MixWords<kRound, 1>(state, message, one);
  MixWords<kRound, 2>(state, message, one);
  MixWords<kRound, 3>(state, message, one);
  MixWords<kRound, 4>(state, message, one);
  MixWords<kRound, 5>(state, message, one);
  MixWords<kRound, 6>(state, message, one);
  MixWords<kRound, 7>(state, message, one);
}

}  // namespace blake3_internal

// Where a leaf and a parent begin.
KERF_DEVICE_CODE void Blake3Start(std::uint32_t (&value)[8]) {
  value[0] = blake3_internal::InitialWord<0>();
  value[1] = blake3_internal::InitialWord<1>();
  value[2] = blake3_internal::InitialWord<2>();
  value[3] = blake3_internal::InitialWord<3>();
  value[4] = blake3_internal::InitialWord<4>();
  value[5] = blake3_internal::InitialWord<5>();
  value[6] = blake3_internal::InitialWord<6>();
  value[7] = blake3_internal::InitialWord<7>();
}

// `value` is the chaining value before and after. `counter` is a leaf's number within its chunk,
// 0 for a parent; a batch is too small for a number of more than 32 bits. `one` is that of
// AddByMultiplying.
KERF_DEVICE_CODE void Blake3Compress(std::uint32_t (&value)[8], const std::uint32_t (&message)[16],
                                     std::uint32_t counter, std::uint32_t size_bytes,
                                     std::uint32_t flags, std::uint32_t one) {
  using blake3_internal::InitialWord;
  std::uint32_t state[16] = {
      value[0],         value[1],
      value[2],         value[3],
      value[4],         value[5],
      value[6],         value[7],
      InitialWord<0>(), InitialWord<1>(),
      InitialWord<2>(), InitialWord<3>(),
      counter,          0,
      size_bytes,       flags,
  };
  static_assert(blake3::kRounds == 7);
  blake3_internal::Round<0>(state, message, one);
  blake3_internal::Round<1>(state, message, one);
  blake3_internal::Round<2>(state, message, one);
  blake3_internal::Round<3>(state, message, one);
  blake3_internal::Round<4>(state, message, one);
  blake3_internal::Round<5>(state, message, one);
  blake3_internal::Round<6>(state, message, one);
  KERF_UNROLL
  for (int index = 0; index < 8; ++index) value[index] = state[index] ^ state[index + 8];
}

}  // namespace kerf::cuda
