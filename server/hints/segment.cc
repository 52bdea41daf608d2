#include "server/hints/segment.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "base/little_endian.h"
#include "base/strings.h"

namespace kerf {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kHasNextFlag = 1;
constexpr std::size_t kFixedHeadBytes = 1 + 1 + 4;
// One digest in 16. The first bytes place entries in Redis, and these must not go together.
constexpr std::size_t kAnchorByte = 15;
constexpr std::uint8_t kAnchorMask = 0x0F;

absl::Status Unreadable(std::string_view why) {
  return absl::DataLossError(ToAbsl(Cat("segment: ", why, "; it is a hint and may be dropped")));
}

std::string KeyOf(const HintScope& scope, std::span<const std::uint8_t> name) {
  std::string key(scope.id().size(), '\0');
  for (std::size_t index = 0; index < key.size(); ++index) {
    key[index] = static_cast<char>(scope.id()[index] ^ name[index]);
  }
  return key;
}

}  // namespace

SegmentId Segment::id() const {
  KERF_CHECK(sealed_run.size() >= kRunTagBytes);
  SegmentId id;
  std::ranges::copy(sealed_run.last(kRunTagBytes), id.bytes.begin());
  return id;
}

std::string EncodeSegment(const Segment& segment) {
  std::vector<std::uint8_t> bytes = {kVersion,
                                     segment.next.has_value() ? kHasNextFlag : std::uint8_t{0}};
  AppendLittleEndian(bytes, segment.written_day);
  if (segment.next.has_value()) {
    bytes.insert(bytes.end(), segment.next->bytes.begin(), segment.next->bytes.end());
  }
  bytes.insert(bytes.end(), segment.sealed_run.begin(), segment.sealed_run.end());
  KERF_CHECK(segment.sealed_run.size() >= kRunTagBytes && bytes.size() <= kMaxSegmentBytes);
  return {bytes.begin(), bytes.end()};
}

absl::StatusOr<Segment> ParseSegment(std::string_view bytes) {
  if (bytes.size() > kMaxSegmentBytes) return Unreadable("longer than any");
  std::span<const std::uint8_t> rest(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                     bytes.size());
  if (rest.size() < kFixedHeadBytes) return Unreadable("cut off in its head");
  if (rest[0] != kVersion) {
    return Unreadable(Cat("version ", rest[0], ", this kerf reads ", int{kVersion}));
  }
  if (rest[1] > kHasNextFlag) return Unreadable(Cat("unknown flags ", rest[1]));
  Segment segment;
  segment.written_day = LoadLittleEndian<std::uint32_t>(rest.data() + 2);
  const bool has_next = rest[1] == kHasNextFlag;
  rest = rest.subspan(kFixedHeadBytes);
  if (has_next) {
    SegmentId next;
    if (rest.size() < next.bytes.size()) return Unreadable("cut off in its head");
    std::ranges::copy(rest.first(next.bytes.size()), next.bytes.begin());
    segment.next = next;
    rest = rest.subspan(next.bytes.size());
  }
  if (rest.size() < kRunTagBytes) return Unreadable("without a run");
  segment.sealed_run = rest;
  return segment;
}

bool IsAnchor(const Digest& digest) { return (digest.bytes[kAnchorByte] & kAnchorMask) == 0; }

std::vector<Digest> AnchorsOf(std::span<const RunChunk> chunks, bool with_first) {
  std::vector<Digest> anchors;
  absl::flat_hash_set<std::string> seen;
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    const Digest& digest = chunks[index].digest;
    if (!IsAnchor(digest) && !(with_first && index == 0)) continue;
    const bool is_first = seen.emplace(digest.bytes.begin(), digest.bytes.end()).second;
    if (is_first) anchors.push_back(digest);
  }
  return anchors;
}

std::string HintKeyOf(const HintScope& scope, const Digest& anchor) {
  return KeyOf(scope, anchor.bytes);
}

std::string HintKeyOf(const HintScope& scope, const SegmentId& id) {
  return KeyOf(scope, id.bytes);
}

}  // namespace kerf
