// Rabin fingerprints of a window of 48 bytes: the residue of the window, read as a polynomial over
// GF(2), modulo an irreducible polynomial (Rabin, TR-15-81, 1981; Broder 1993 for the tables).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/profile.h"

namespace kerf {

// Of degree 53.
inline constexpr std::uint64_t kRabinPolynomial = 0x3DA3358B4DC173;
inline constexpr int kRabinDegree = 53;

// x^bits * value mod the polynomial, for a `value` of a smaller degree. A bit at a time.
std::uint64_t RabinResidue(std::uint64_t value, int bits);

// The hash of the last 48 bytes, in the field's form: byte by byte, from a window of zeros into
// which a 1 was slid.
class RabinRoll {
 public:
  RabinRoll();

  void Slide(std::uint8_t byte);
  std::uint64_t digest() const { return digest_; }

 private:
  std::array<std::uint8_t, kRabinWindowBytes> window_{};
  std::size_t oldest_ = 0;
  std::uint64_t digest_ = 0;
};

// As Chunker::NextCut: the first place at or behind min where the hash of all bytes from the start
// of the chunk has its low log2(avg) bits zero; the byte that makes it so belongs to the chunk.
// Pure.
std::size_t RabinNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

// As Chunker::NextCut: two thresholds, two divisors (Eshghi, Tang, HPL-2005-30, section 4.2).
// Rolling begins at min; the byte that makes a cut begins the next chunk; where none does, the last
// one that satisfied the smaller divisor. Pure.
std::size_t TttdNextCut(const Profile& profile, std::span<const std::uint8_t> bytes);

}  // namespace kerf
