// The layout of a parity file (docs/spec/store.md); the only file that knows it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "client/store/format/pack_format.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// What a disk loses at once.
inline constexpr std::size_t kSectorBytes = 4096;
// The code's field has 256 elements, and the spec leaves one out.
inline constexpr std::uint32_t kMaxGroupSectors = 255;
// Damage that no sector holds in full lies in two of them.
inline constexpr std::uint32_t kMinGroupParity = 2;
// What making parity costs grows with it.
inline constexpr std::uint32_t kMaxGroupParity = 16;
inline constexpr unsigned kMinParityPercent = 1;
inline constexpr unsigned kMaxParityPercent = 100;
// A writer's largest pack has 64 MiB of blocks, one block more and a footer: 176 MiB.
inline constexpr std::uint64_t kMaxParityPackBytes = std::uint64_t{1} << 30;

inline constexpr std::size_t kParityHeadBytes = 128;
// Rows of the table of checksums that stand in a page, before the page's own checksum.
inline constexpr std::size_t kPageRows = 511;
inline constexpr std::size_t kPageBytes = (kPageRows + 1) * sizeof(std::uint64_t);
static_assert(kPageBytes == kSectorBytes);

// How a pack is divided: sector S of it is the (S / group_count)th data sector of group
// S % group_count. So a row of the pack, group_count sectors one behind the other, has one of each
// group. Where the last row ends early its sectors are zeros, and are not stored.
struct ParityShape {
  std::uint64_t pack_bytes = 0;
  std::uint32_t group_count = 0;
  // Of each group.
  std::uint32_t data_count = 0;
  std::uint32_t parity_count = 0;

  std::uint64_t sector_count() const { return (pack_bytes + kSectorBytes - 1) / kSectorBytes; }
  std::uint64_t parity_sector_count() const { return std::uint64_t{group_count} * parity_count; }
  // Of the table: the data sectors, and behind them the parity sectors.
  std::uint64_t row_count() const { return sector_count() + parity_sector_count(); }
  std::uint64_t page_count() const { return (row_count() + kPageRows - 1) / kPageRows; }
  std::uint64_t table_bytes() const { return (row_count() + page_count()) * sizeof(std::uint64_t); }
  // Of the file: head, table, zeros up to a whole sector, parity sectors, table, head.
  std::uint64_t parity_offset() const {
    const std::uint64_t end = kParityHeadBytes + table_bytes();
    return (end + kSectorBytes - 1) / kSectorBytes * kSectorBytes;
  }
  std::uint64_t parity_sector_offset(std::uint64_t index) const {
    return parity_offset() + index * kSectorBytes;
  }
  std::uint64_t second_table_offset() const { return parity_sector_offset(parity_sector_count()); }
  std::uint64_t file_bytes() const {
    return second_table_offset() + table_bytes() + kParityHeadBytes;
  }

  friend bool operator==(const ParityShape&, const ParityShape&) = default;
};

// For a pack of 1 to kMaxParityPackBytes bytes, and kMinParityPercent to kMaxParityPercent.
ParityShape ShapeFor(std::uint64_t pack_bytes, unsigned percent);

struct ParityHead {
  PackId pack;
  ParityShape shape;
  // What PackDigest says of the pack.
  Digest pack_digest;
};

std::array<std::uint8_t, kParityHeadBytes> EncodeParityHead(const ParityHead& head);
// DataLoss if it is none, or its numbers fit no pack; FailedPrecondition for a later version.
absl::StatusOr<ParityHead> DecodeParityHead(std::span<const std::uint8_t> bytes);

// The checksum of a whole sector, or of the rows of a page: the first 8 bytes of its XXH3-128. It
// finds what a disk loses; nobody is to trust it against an enemy.
std::uint64_t SectorSum(std::span<const std::uint8_t> bytes);

// The BLAKE3 of the BLAKE3s of each kDigestPieceBytes of a file, in order. Takes the file piece by
// piece; all but the last one have that size.
inline constexpr std::size_t kDigestPieceBytes = std::size_t{1} << 20;
class PackDigest {
 public:
  void Add(std::span<const std::uint8_t> piece);
  Digest value() const { return Fingerprint(DigestAlgorithm::kBlake3, pieces_); }

 private:
  std::vector<std::uint8_t> pieces_;
};

}  // namespace kerf::agent
