// What instructions of PTX do that are no operators of C++. For what translate.py makes.
#pragma once

#include <bit>
#include <cstdint>

namespace kerf::cuda::ptx {

// As short as PTX has them: tens of thousands of lines are made of these.
using U8 = std::uint8_t;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;
using S8 = std::int8_t;
using S16 = std::int16_t;
using S32 = std::int32_t;
using S64 = std::int64_t;

// A shift by as many bits as there are, or more, leaves nothing.
template <class T>
inline T ShiftLeft(T value, U32 count) {
  return count >= 8 * sizeof(T) ? T{0} : static_cast<T>(value << count);
}

// Or nothing but the sign.
template <class T>
inline T ShiftRight(T value, U32 count) {
  constexpr U32 kBits = 8 * sizeof(T);
  if (count >= kBits) return static_cast<T>(value < 0 ? -1 : 0);
  return static_cast<T>(value >> count);
}

inline U64 Pair(U32 low, U32 high) { return U64{high} << 32 | low; }

inline U32 FunnelLeft(U32 low, U32 high, U32 count) {
  return static_cast<U32>((Pair(low, high) << (count & 31)) >> 32);
}
inline U32 FunnelRight(U32 low, U32 high, U32 count) {
  return static_cast<U32>(Pair(low, high) >> (count & 31));
}

// Byte i is the one that nibble i of `selector` names, or its sign where the nibble's highest bit
// is set.
inline U32 Permute(U32 low, U32 high, U32 selector) {
  U32 result = 0;
  for (unsigned place = 0; place < 4; ++place) {
    const U32 nibble = selector >> (4 * place);
    U32 byte = static_cast<U32>(Pair(low, high) >> (8 * (nibble & 7))) & 0xFF;
    if ((nibble & 8) != 0) byte = (byte & 0x80) != 0 ? 0xFF : 0;
    result |= byte << (8 * place);
  }
  return result;
}

inline U32 PopCount(U32 word) { return static_cast<U32>(std::popcount(word)); }
inline U32 LeadingZeros(U32 word) { return static_cast<U32>(std::countl_zero(word)); }
// By how much to shift left for the highest bit that is set to be the sign; all bits if none is.
inline U32 ShiftToHighest(U32 word) { return word == 0 ? 0xFFFFFFFFu : LeadingZeros(word); }

inline U32 ReverseBits(U32 word) {
  word = (word >> 1 & 0x55555555u) | (word & 0x55555555u) << 1;
  word = (word >> 2 & 0x33333333u) | (word & 0x33333333u) << 2;
  word = (word >> 4 & 0x0F0F0F0Fu) | (word & 0x0F0F0F0Fu) << 4;
  return __builtin_bswap32(word);
}

// `count` low bits of `bits` into `word`, from bit `place` on; what does not fit is lost.
inline U32 InsertBits(U32 bits, U32 word, U32 place, U32 count) {
  place &= 0xFF;
  count &= 0xFF;
  if (place > 31 || count == 0) return word;
  const U32 mask = (count > 31 ? 0xFFFFFFFFu : (1u << count) - 1) << place;
  return (word & ~mask) | (bits << place & mask);
}

}  // namespace kerf::cuda::ptx
