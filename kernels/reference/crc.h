// CRC-32 of a window of 256 bytes, as SS-CDC uses it (Ni et al., SYSTOR 2019).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/profile.h"

namespace kerf {

// x^32 + x^26 + ... + 1 (IEEE 802.3), reflected.
inline constexpr std::uint32_t kCrcPolynomial = 0xEDB88320;

// The reflected remainder of each byte alone; initial value and final xor are 0.
std::span<const std::uint32_t, 256> CrcTable();

// The same after 256 more zero bytes: what a byte is worth when the window has moved past it.
std::span<const std::uint32_t, 256> CrcOutTable();

// As Chunker::NextCut: the first place at or behind min where the CRC of the 256 bytes up to and
// with this one has its low bits zero; the byte begins the next chunk. Pure.
std::size_t CrcNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

}  // namespace kerf
