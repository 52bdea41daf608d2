// A profile names an algorithm with all its parameters and so fixes every cut for ever. The text
// form and the named profiles are specified in docs/spec/chunking.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kerf {

enum class Algorithm : std::uint8_t {
  // Chunks of one size; the end of the file only shortens the last one.
  kFixed,
  // Rabin fingerprints of a 48-byte window (Muthitacharoen et al., LBFS, SOSP 2001).
  kRabin,
  // CRC-32 of a 256-byte window, as in SS-CDC (Ni et al., SYSTOR 2019).
  kCrc,
  // Two thresholds, two divisors (Eshghi, Tang, HPL-2005-30) on the Rabin fingerprints.
  kTttd,
  // FastCDC as in the paper (Xia et al., TPDS 2020, algorithm 1), with kerf's gear table and masks.
  kFastCdc,
  // The FastCDC 2020 variant in the field (Rust registry `fastcdc` v2020): its table and masks.
  kFastCdc2020,
  // Asymmetric extremum (Zhang et al., INFOCOM 2015): the first maximum, or minimum, that stands
  // for a whole window.
  kAeMax,
  kAeMin,
  // Local maximum (Teodosiu et al., MSR-TR-2006-157), in the sequential form in the field.
  kMaxp,
  // Rapid asymmetric maximum (Widodo et al., FGCS 2017).
  kRam,
  // Sequences of rising or falling bytes, with skips (Udayashankar et al., Middleware 2024).
  kSeqCdc,
  // The smallest hash of four bytes between min and max.
  kMinCdc,
  // A 16-bit gear hash whose highest bits are zero (Xia et al., DDelta, 2014, for the hash), with
  // kerf's table.
  kGear,
  // The largest 32-bit gear hash between min and max.
  kMaxCdc,
  // Local maximum (MSR-TR-2006-157) as published: greater than the windows on both sides.
  kMaxpLocal,
  kLast = kMaxpLocal,
};

// Limits of every profile. What an algorithm's loop needs beyond them, ParseProfile asks for.
inline constexpr std::uint32_t kMinAvgBytes = 256;
inline constexpr std::uint32_t kMaxAvgBytes = 1u << 20;
inline constexpr std::uint32_t kMaxMaxBytes = 4u << 20;
inline constexpr std::uint32_t kMaxLevel = 3;
// No gear hash sees further back than 64 bytes. With min >= the window nothing in front of a cut
// has influence on the next one, so that every cut is a place to start again.
inline constexpr std::uint32_t kHashWindowBytes = 64;
static_assert(kHashWindowBytes <= kMinAvgBytes && kMaxAvgBytes <= kMaxMaxBytes);

// The masks that exist, by their one bits: log2(avg) + level before avg, log2(avg) - level after
// it. Those of fastcdc2020 with fewer bits are satisfied by runs of some bytes, which would be cut
// at min: refused.
inline constexpr std::uint32_t kFastCdcMinMaskBits = 5;
inline constexpr std::uint32_t kFastCdcMaxMaskBits = 23;
inline constexpr std::uint32_t kFastCdc2020MinMaskBits = 10;
inline constexpr std::uint32_t kFastCdc2020MaxMaskBits = 23;

// gear masks at most all bits of its hash.
inline constexpr std::uint32_t kMaxGearAvgBytes = 1u << 16;
static_assert(kMaxGearAvgBytes <= kMaxAvgBytes);

inline constexpr std::uint32_t kRabinWindowBytes = 48;
inline constexpr std::uint32_t kCrcWindowBytes = 256;
static_assert(kRabinWindowBytes <= kHashWindowBytes);
inline constexpr std::uint32_t kMinCrcBits = 6;
inline constexpr std::uint32_t kMaxCrcBits = 22;
// Of windows of extrema and of skips.
inline constexpr std::uint32_t kMaxWindowBytes = 1u << 20;
static_assert(2 * kMaxWindowBytes + 1 <= kMaxMaxBytes);
inline constexpr std::uint32_t kMaxSequenceLength = 255;
inline constexpr std::uint32_t kMaxSkipTrigger = 1u << 16;

// Which way the sequences of seqcdc go.
enum class SequenceMode : std::uint32_t { kIncreasing, kDecreasing };

// Always valid when it comes from ParseProfile. A plain value; what an algorithm has no key for is
// 0, but for min_bytes and max_bytes, which hold for every algorithm: no chunk is shorter, unless
// the file ends, and none longer.
struct Profile {
  Algorithm algorithm = Algorithm::kFastCdc2020;
  std::uint32_t min_bytes = 0;
  std::uint32_t avg_bytes = 0;
  std::uint32_t max_bytes = 0;
  // FastCDC's normalisation level: how many bits the masks are stricter before avg_bytes and looser
  // after it.
  std::uint32_t level = 0;
  // What an extremum must stand for (ae-max, ae-min, maxp, maxp-local, ram).
  std::uint32_t window_bytes = 0;
  // Low bits of the hash that must be zero (crc).
  std::uint32_t mask_bits = 0;
  // seqcdc: rises (or falls) that make a cut, opposite steps that make a skip, and its length.
  SequenceMode mode = SequenceMode::kIncreasing;
  std::uint32_t sequence_length = 0;
  std::uint32_t skip_trigger = 0;
  std::uint32_t skip_bytes = 0;

  friend bool operator==(const Profile&, const Profile&) = default;
};

struct NamedProfile {
  std::string_view name;
  // In canonical form.
  std::string_view parameters;
};

// The profile that an agent uses for a new store unless it is told otherwise (docs/adr/0007).
inline constexpr std::string_view kDefaultProfileName = "mincdc-8k";

// All named profiles. A name never changes its meaning.
std::span<const NamedProfile> NamedProfiles();

// "fastcdc", "fastcdc2020", ...: what may stand in front of the colon.
std::span<const std::string_view> AlgorithmNames();

// A named profile, or "algorithm:key=value,...". InvalidArgument says which key is unknown,
// missing, given twice or out of range, what range it has, and why.
absl::StatusOr<Profile> ParseProfile(std::string_view text);

// The canonical text: every parameter, in the order of the specification. ParseProfile reads it
// back.
std::string FormatProfile(const Profile& profile);

}  // namespace kerf
