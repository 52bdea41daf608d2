// The cut rules of docs/spec/chunking.md that have no tables of their own to show, each in its
// plainest form: the specification that runs. Faster forms are held equal to them by tests.
//
// All are pure, and as Chunker::NextCut: the length of the chunk that begins at bytes[0]; `profile`
// is valid and of the function's algorithm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/profile.h"

namespace kerf {

std::size_t FixedNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

// Asymmetric extremum (Zhang et al., INFOCOM 2015, algorithm 1): a byte beyond all before it that
// no byte of the window behind it goes beyond. kAeMax and kAeMin.
std::size_t AeNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

// Rapid asymmetric maximum (Widodo et al., FGCS 2017): the first byte behind the window that is at
// least the window's maximum.
std::size_t RamNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

// Local maximum as the field runs it (VectorCDC, Udayashankar et al., FAST 2025): at least all
// bytes of the window before it and more than all of the window after it. One pass that moves its
// candidate, so that not every such byte is found: not a function of the neighbourhood alone.
std::size_t MaxpNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

// The published idea of MAXP: a byte greater than every byte of the windows on both sides of it. A
// function of the neighbourhood alone, so that places can be marked in any order.
std::size_t MaxpLocalNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

// SeqCDC (Udayashankar et al., Middleware 2024, section 3).
std::size_t SeqCdcNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

// The place between min and max whose four bytes in front of it have the smallest hash, the first
// of equals (the Rust crate `mincdc`, MinCDCHash4).
std::size_t MinCdcNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

// What MinCDC compares: a linear permutation of the four bytes, read little-endian.
inline constexpr std::uint32_t kMinCdcMultiplier = 0x915F77F5u;
inline constexpr std::uint32_t kMinCdcAddend = 0x34636463u;
constexpr std::uint32_t MinCdcHash(std::uint32_t word) {
  return kMinCdcMultiplier * word + kMinCdcAddend;
}

}  // namespace kerf
