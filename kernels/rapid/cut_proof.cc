#include "kernels/rapid/cut_proof.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/check.h"
#include "kernels/reference/crc.h"
#include "kernels/reference/fastcdc.h"
#include "kernels/reference/fastcdc2020.h"
#include "kernels/reference/gear.h"
#include "kernels/reference/rabin.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

// The hash of a gear rule after byte `index`: it starts at min in every chunk, and a byte has left
// it once it has been shifted by all its bits.
template <typename Hash, typename Table>
Hash GearHashAt(const Profile& profile, const Table& table, Bytes bytes, std::size_t index) {
  constexpr std::size_t kBits = std::numeric_limits<Hash>::digits;
  const std::size_t begin =
      std::max<std::size_t>(profile.min_bytes, index >= kBits ? index - kBits + 1 : 0);
  Hash hash = 0;
  for (std::size_t position = begin; position <= index; ++position) {
    hash = static_cast<Hash>((hash << 1) + table[bytes[position]]);
  }
  return hash;
}

// log2(avg) and the bits more or less that the mask of a cut of `length` has.
std::uint32_t FastCdcMaskBits(const Profile& profile, std::size_t length) {
  const std::uint32_t bits = static_cast<std::uint32_t>(std::countr_zero(profile.avg_bytes));
  return length < profile.avg_bytes ? bits + profile.level : bits - profile.level;
}

bool TestFastCdc2020(const Profile& profile, Bytes bytes, std::size_t length) {
  // The last byte of an odd size is not looked at.
  if (length + 1 == bytes.size() && bytes.size() % 2 != 0) return false;
  const std::uint64_t hash = GearHashAt<std::uint64_t>(profile, FastCdc2020Gear(), bytes, length);
  return (hash & FastCdc2020Mask(FastCdcMaskBits(profile, length))) == 0;
}

bool TestFastCdc(const Profile& profile, Bytes bytes, std::size_t length) {
  const std::uint32_t hash = GearHashAt<std::uint32_t>(profile, FastCdcGear(), bytes, length);
  return (hash & FastCdcMask(FastCdcMaskBits(profile, length))) == 0;
}

// What takes the eight bits above the degree away and adds their residue.
const std::array<std::uint64_t, 256>& RabinReduceTable() {
  static const auto table = [] {
    std::array<std::uint64_t, 256> made;
    for (std::uint64_t byte = 0; byte < made.size(); ++byte) {
      made[byte] = RabinResidue(byte, kRabinDegree) | byte << kRabinDegree;
    }
    return made;
  }();
  return table;
}

// The digest once bytes[end - 1] has been slid in, if sliding began with bytes[begin]. Nothing has
// to be slid out of a window that holds no more than it can.
std::uint64_t RabinDigest(Bytes bytes, std::size_t begin, std::size_t end) {
  const std::array<std::uint64_t, 256>& reduce = RabinReduceTable();
  const std::size_t count = std::min<std::size_t>(end - begin, kRabinWindowBytes);
  // Among fewer bytes the 1 with which every window begins is still there.
  std::uint64_t digest = count == kRabinWindowBytes ? 0 : 1;
  for (const std::uint8_t byte : bytes.subspan(end - count, count)) {
    digest = (digest << 8 | byte) ^ reduce[digest >> (kRabinDegree - 8)];
  }
  return digest;
}

bool TestCrc(const Profile& profile, Bytes bytes, std::size_t length) {
  const std::span<const std::uint32_t, 256> table = CrcTable();
  std::uint32_t crc = 0;
  for (const std::uint8_t byte : bytes.subspan(length + 1 - kCrcWindowBytes, kCrcWindowBytes)) {
    crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8;
  }
  return (crc & ((std::uint32_t{1} << profile.mask_bits) - 1)) == 0;
}

bool TestSeqCdc(const Profile& profile, Bytes bytes, std::size_t length) {
  return profile.mode == SequenceMode::kIncreasing ? bytes[length] > bytes[length - 1]
                                                   : bytes[length] < bytes[length - 1];
}

// The byte behind the cut has windows that it is not smaller than, or is greater than, on both
// sides.
bool TestMaximum(const Profile& profile, Bytes bytes, std::size_t length) {
  const bool is_local = profile.algorithm == Algorithm::kMaxpLocal;
  const std::size_t window = profile.window_bytes;
  // The one-pass form looks at its candidate when it has one byte more.
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  if (length + window + (is_local ? 0 : 1) >= size) return false;
  const std::uint8_t byte = bytes[length];
  const auto before = bytes.subspan(length - window, window);
  const auto behind = bytes.subspan(length + 1, window);
  const std::uint8_t greatest_before = std::ranges::max(before);
  return (is_local ? greatest_before < byte : greatest_before <= byte) &&
         std::ranges::max(behind) < byte;
}

// Whether no place behind the cut beats it. The rule itself is asked, about a chunk that begins so
// that its first place, min, is the cut.
bool TestExtremum(const Chunker& base, const Profile& profile, Bytes bytes, std::size_t length) {
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile.max_bytes);
  const std::size_t begin = length - profile.min_bytes;
  return base.NextCut(bytes.subspan(begin, size - begin)) == profile.min_bytes;
}

// The window test at a place that is neither max nor the end of the file.
bool TestInside(const Chunker& base, const Profile& profile, Bytes bytes, std::size_t length) {
  const std::size_t window = profile.window_bytes;
  switch (profile.algorithm) {
    case Algorithm::kFixed:
      return false;
    case Algorithm::kRabin:
      return (RabinDigest(bytes, 0, length) & (profile.avg_bytes - 1)) == 0;
    case Algorithm::kTttd:
      return (RabinDigest(bytes, profile.min_bytes, length + 1) & (profile.avg_bytes - 1)) == 0;
    case Algorithm::kCrc:
      return TestCrc(profile, bytes, length);
    case Algorithm::kFastCdc:
      return TestFastCdc(profile, bytes, length);
    case Algorithm::kFastCdc2020:
      return TestFastCdc2020(profile, bytes, length);
    case Algorithm::kGear:
      return GearHashAt<std::uint16_t>(profile, kGearTable, bytes, length) <
             GearBound(profile.avg_bytes);
    case Algorithm::kAeMax:
      return bytes[length] <= bytes[length - window];
    case Algorithm::kAeMin:
      return bytes[length] >= bytes[length - window];
    case Algorithm::kRam:
      return bytes[length] >= std::ranges::max(bytes.first(window));
    case Algorithm::kSeqCdc:
      return TestSeqCdc(profile, bytes, length);
    case Algorithm::kMaxp:
    case Algorithm::kMaxpLocal:
      return TestMaximum(profile, bytes, length);
    case Algorithm::kMinCdc:
    case Algorithm::kMaxCdc:
      return TestExtremum(base, profile, bytes, length);
  }
  KERF_CHECK(false && "an algorithm without a window test");
  return false;
}

}  // namespace

std::size_t BytesBehindCut(const Profile& profile) {
  switch (profile.algorithm) {
    case Algorithm::kFixed:
    case Algorithm::kRabin:
      return 0;
    case Algorithm::kCrc:
    case Algorithm::kFastCdc:
    case Algorithm::kFastCdc2020:
    case Algorithm::kGear:
    case Algorithm::kAeMax:
    case Algorithm::kAeMin:
    case Algorithm::kRam:
    case Algorithm::kSeqCdc:
      return 1;
    case Algorithm::kMaxp:
    case Algorithm::kMaxpLocal:
      return std::size_t{profile.window_bytes} + 1;
    case Algorithm::kTttd:
    case Algorithm::kMinCdc:
    case Algorithm::kMaxCdc:
      return profile.max_bytes;
  }
  KERF_CHECK(false && "an algorithm of which nothing is known");
  return profile.max_bytes;
}

bool CutDependsOnChunkAlone(const Profile& profile) { return BytesBehindCut(profile) == 0; }

bool CutsShiftWithBytes(const Profile& profile) {
  switch (profile.algorithm) {
    case Algorithm::kRabin:
    case Algorithm::kTttd:
    case Algorithm::kCrc:
    case Algorithm::kFastCdc:
    case Algorithm::kFastCdc2020:
    case Algorithm::kGear:
    case Algorithm::kMaxpLocal:
    case Algorithm::kMinCdc:
    case Algorithm::kMaxCdc:
      return true;
    case Algorithm::kFixed:
    case Algorithm::kAeMax:
    case Algorithm::kAeMin:
    case Algorithm::kMaxp:
    case Algorithm::kRam:
    case Algorithm::kSeqCdc:
      return false;
  }
  KERF_CHECK(false && "an algorithm of which nothing is known");
  return false;
}

bool RollingWindowTest(const Chunker& base, const Profile& profile, Bytes bytes,
                       std::size_t length) {
  if (length == 0 || length > std::min<std::size_t>(bytes.size(), profile.max_bytes)) return false;
  if (length == profile.max_bytes || length == bytes.size()) return true;
  return length >= profile.min_bytes && TestInside(base, profile, bytes, length);
}

bool ProvesCut(const Chunker& base, const Profile& profile, Bytes bytes, std::size_t length) {
  if (length == profile.max_bytes) return length <= bytes.size();
  // Where the data ends the rule may have looked at less than when it cut the chunk before.
  if (length >= bytes.size()) return false;
  if (length < profile.min_bytes || length > profile.max_bytes) return false;
  if (CutDependsOnChunkAlone(profile)) return true;
  if (profile.algorithm == Algorithm::kRam) return bytes[length] == 0xFF;
  return RollingWindowTest(base, profile, bytes, length);
}

}  // namespace kerf
