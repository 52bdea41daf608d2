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
  // FastCDC as in the paper (Xia et al., TPDS 2020, algorithm 1), with kerf's gear table and masks.
  kFastCdc,
  // The FastCDC 2020 variant in the field (Rust registry `fastcdc` v2020): its table and masks.
  kFastCdc2020,
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

// Always valid when it comes from ParseProfile. A plain value.
struct Profile {
  Algorithm algorithm = Algorithm::kFastCdc2020;
  std::uint32_t min_bytes = 0;
  std::uint32_t avg_bytes = 0;
  std::uint32_t max_bytes = 0;
  // Normalisation level: how many bits the masks are stricter before avg_bytes and looser after it.
  std::uint32_t level = 0;

  friend bool operator==(const Profile&, const Profile&) = default;
};

struct NamedProfile {
  std::string_view name;
  // In canonical form.
  std::string_view parameters;
};

// The profile that an agent uses for a new store unless it is told otherwise.
inline constexpr std::string_view kDefaultProfileName = "fastcdc2020-8k";

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
