// A segment: a sealed run of one file's chunks, as stores keep it. The only file that knows its
// bytes:
//
//   version (1 byte: 1), flags (1 byte; bit 0: a next segment follows), day on which it was written
//   (4 bytes, little-endian, since 1970), with bit 0 the next segment's id (16 bytes), and the
//   sealed run (kernels/rapid/run_seal.h) up to the end
//
// Only the run is sealed. What stands in front of it may be wrong: that costs a fetch for nothing.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/rapid/cut_run.h"
#include "kernels/rapid/run_seal.h"
#include "server/hints/scope.h"

namespace kerf {

// Chunks of a segment. Files with fewer than kMinRecordedChunks are not recorded: an anchor and a
// fetch would cost more than the scan.
inline constexpr std::size_t kMaxSegmentChunks = 1024;
inline constexpr std::size_t kMinRecordedChunks = 16;

// Longer values are not looked at: 22 bytes of head, at most 5 of the run's own, its chunks, its
// tag.
inline constexpr std::size_t kMaxSegmentBytes =
    22 + 5 + kMaxSegmentChunks * (4 + 1 + 32) + kRunTagBytes;

// The tag of its sealed run: a keyed hash of scope, profile and chunks. So the same chunks have the
// same id, writing them twice is harmless, and whoever can open the run knows that it is the one
// that was asked for.
struct SegmentId {
  std::array<std::uint8_t, kRunTagBytes> bytes{};

  friend bool operator==(const SegmentId&, const SegmentId&) = default;
  friend auto operator<=>(const SegmentId&, const SegmentId&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const SegmentId& id) {
    return H::combine(std::move(hash), id.bytes);
  }
};

struct Segment {
  // What came behind it in its file.
  std::optional<SegmentId> next;
  std::uint32_t written_day = 0;
  // A view: of the caller's bytes, or into the parsed ones. At least kRunTagBytes.
  std::span<const std::uint8_t> sealed_run;

  SegmentId id() const;
};

// `segment` is not longer than kMaxSegmentBytes.
std::string EncodeSegment(const Segment& segment);

// DataLoss unless `bytes` are exactly what EncodeSegment makes of some segment. The run is not
// opened: it may be anything.
absl::StatusOr<Segment> ParseSegment(std::string_view bytes);

// Which chunks lead to their segment: 1 of 16, by the digest alone, so that who writes and who asks
// agree (Lillibridge et al., Sparse Indexing, FAST 2009, section 3.1).
bool IsAnchor(const Digest& digest);

// Those of the run, each once, and its first chunk if `with_first`.
std::vector<Digest> AnchorsOf(std::span<const RunChunk> chunks, bool with_first);

// 16 bytes under which a store keeps what belongs to the scope.
std::string HintKeyOf(const HintScope& scope, const Digest& anchor);
std::string HintKeyOf(const HintScope& scope, const SegmentId& id);

}  // namespace kerf
