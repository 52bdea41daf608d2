// The numbers of BLAKE3 (section 2.1 and table 2 of its paper).
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerf::blake3 {

inline constexpr std::size_t kBlockBytes = 64;
// A leaf of the hash tree; the paper calls it a chunk.
inline constexpr std::size_t kLeafBytes = 1024;
inline constexpr std::size_t kDigestBytes = 32;
inline constexpr std::size_t kRounds = 7;

// Plain arrays, and no code that could be emitted out of line: this header is also compiled with
// the flags of instruction sets that the machine may lack.

// Also the key of the hash mode. They are SHA-256's.
inline constexpr std::uint32_t kIv[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                         0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

inline constexpr std::uint32_t kLeafStart = 1u << 0;
inline constexpr std::uint32_t kLeafEnd = 1u << 1;
inline constexpr std::uint32_t kParent = 1u << 2;
inline constexpr std::uint32_t kRoot = 1u << 3;

// kSchedule[r][i]: the message word at place i of round r. Each round takes the words of the one
// before it in the order of its second line.
inline constexpr std::uint8_t kSchedule[kRounds][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1},
    {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4},
    {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13},
};

}  // namespace kerf::blake3
