// Stage 1 of two-stage chunking (SS-CDC, Ni et al., SYSTOR 2019): marks every position where a
// chunk that began long before could end. A mark depends on the bytes around it alone, so
// that ranges can be marked in any order, by any number of threads and lanes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>

#include "kernels/profile.h"

namespace kerf {

// A gear rule as both stages see it: h = 2 h + table[b] mod 2^32, a cut where h has no bit of a
// mask. A plain value.
struct GearRule {
  std::array<std::uint32_t, 256> table;
  // Before avg_bytes of a chunk, and behind; equal where the rule has one. A position without a bit
  // of `strict` has none of `loose` either.
  std::uint32_t strict_mask;
  std::uint32_t loose_mask;
  // Bytes that decide: the number of the highest bit of a mask, counted from 1. Behind so many of a
  // chunk's hashes less one, the hash of the whole stream passes the tests as the chunk's does.
  std::size_t window_bytes;
  std::size_t min_bytes;
  std::size_t avg_bytes;
  std::size_t max_bytes;
};

// gear and fastcdc; none for other algorithms.
std::optional<GearRule> GearRuleOf(const Profile& profile);

// A rule whose marks hold wherever the chunk begins, because no chunk is cut before it has seen all
// that a mark looks at. A plain value.
struct LocalRule {
  // The end of a chunk of at most n bytes is the first mark at the offsets [first_bytes,
  // n - behind_bytes), and as many bytes more as `after_bytes` says; n if there is none.
  std::size_t first_bytes;
  std::size_t behind_bytes;
  std::size_t after_bytes;
  std::size_t max_bytes;
};

using TwoStageRule = std::variant<GearRule, LocalRule>;

// gear, fastcdc, crc, rabin and maxp-local; none for other algorithms.
std::optional<TwoStageRule> TwoStageRuleOf(const Profile& profile);

// Where marks go: bit p mod 64 of word p / 64 mod the size is position p. Both of the same size.
// `loose` holds every mark and `strict` those that count before a GearRule's avg_bytes too.
struct MarkWords {
  std::span<std::uint64_t> loose;
  std::span<std::uint64_t> strict;
};

// Positions of a word. Ranges begin and end at multiples of it.
inline constexpr std::size_t kWordPositions = 64;

// Thread-safe.
class Marker {
 public:
  virtual ~Marker() = default;

  // Marks the positions [from, to) of the whole stream `bytes`; `from` is a multiple of
  // kWordPositions, and so is `to`, unless it is the end. May read what lies behind `to`, but
  // nothing outside `bytes`. What would lie before the start counts nothing.
  virtual void Mark(std::span<const std::uint8_t> bytes, std::size_t from, std::size_t to,
                    const MarkWords& marks) const = 0;
};

// The plain one, for any rule.
std::unique_ptr<Marker> MakeScalarMarker(const GearRule& rule);

// The plain one of a profile; none for one without a TwoStageRule.
std::unique_ptr<Marker> MakeScalarMarker(const Profile& profile);

}  // namespace kerf
