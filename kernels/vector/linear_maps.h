// The linear parts of CRC-32 and of Rabin fingerprints, byte by byte, in the forms in which vectors
// apply them. Both hashes are linear over GF(2): what a byte of the state, an arriving byte or a
// leaving one does to each byte of the next state is an 8 by 8 matrix of bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kerf {

// A linear map from bytes to bytes.
struct ByteMap {
  // Of the low and of the high four bits of a byte; the map is their xor.
  alignas(16) std::array<std::uint8_t, 16> low;
  alignas(16) std::array<std::uint8_t, 16> high;
  // The same as the matrix of the instruction GF2P8AFFINEQB: byte 7 - i selects the bits whose
  // parity is bit i.
  std::uint64_t matrix;
};

// A state is held in planes: plane p is its byte p, least first.
template <std::size_t kPlanes>
using PlaneMaps = std::array<ByteMap, kPlanes>;

// Bytes of a strip: what is hashed in one lane. Also the positions of a word of marks.
inline constexpr std::size_t kLinearStripBytes = 64;

// One byte further: the state moves down a plane, and `feed` of the lowest plane and the arriving
// byte together, and `out` of the byte that leaves the window, are added.
struct CrcMaps {
  PlaneMaps<4> feed;
  PlaneMaps<4> out;
  // What a state is after so many strips of zeros: [from][to].
  std::array<PlaneMaps<4>, 4> past_1_strip;
  std::array<PlaneMaps<4>, 4> past_2_strips;
};

// The state is the digest shifted left by kRabinPlaneShift, so that a plane of its own holds the
// eight bits that leave it at the top. One byte further: the state moves up a plane, and `feed` of
// the highest plane, `in` of the arriving byte and `out` of the leaving one are added.
inline constexpr int kRabinPlaneShift = 3;
struct RabinMaps {
  PlaneMaps<7> feed;
  PlaneMaps<2> in;
  PlaneMaps<7> out;
};

// Made once. Thread-safe.
const CrcMaps& CrcByteMaps();
const RabinMaps& RabinByteMaps();

}  // namespace kerf
