#include "client/store/parity/parity_layout.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/little_endian.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/format_version.h"

namespace kerf::agent {
namespace {

constexpr std::string_view kMagic = "KERFPRTY";
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kPercent = 100;
constexpr std::size_t kVersionOffset = 8;
constexpr std::size_t kPackOffset = 16;
constexpr std::size_t kPackBytesOffset = 32;
constexpr std::size_t kGroupCountOffset = 40;
constexpr std::size_t kDataCountOffset = 44;
constexpr std::size_t kParityCountOffset = 48;
constexpr std::size_t kPackDigestOffset = 64;
constexpr std::size_t kChecksumOffset = 96;

std::uint32_t ParityCountFor(std::uint64_t data_count, unsigned percent) {
  const std::uint64_t count = (data_count * percent + kPercent - 1) / kPercent;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(count, kMinGroupParity));
}

// The more sectors a group has, the better its parity stands losses that lie anyhow.
std::uint32_t MaxDataCount(unsigned percent) {
  std::uint32_t count = kMaxGroupSectors - kMinGroupParity;
  while (ParityCountFor(count, percent) > kMaxGroupParity ||
         count + ParityCountFor(count, percent) > kMaxGroupSectors) {
    --count;
  }
  return count;
}

std::uint64_t DivideUp(std::uint64_t value, std::uint64_t by) { return (value + by - 1) / by; }

}  // namespace

ParityShape ShapeFor(std::uint64_t pack_bytes, unsigned percent) {
  KERF_CHECK(pack_bytes > 0 && pack_bytes <= kMaxParityPackBytes);
  KERF_CHECK(percent >= kMinParityPercent && percent <= kMaxParityPercent);
  ParityShape shape;
  shape.pack_bytes = pack_bytes;
  const std::uint64_t sector_count = shape.sector_count();
  shape.group_count = static_cast<std::uint32_t>(DivideUp(sector_count, MaxDataCount(percent)));
  shape.data_count = static_cast<std::uint32_t>(DivideUp(sector_count, shape.group_count));
  shape.parity_count = ParityCountFor(shape.data_count, percent);
  return shape;
}

std::array<std::uint8_t, kParityHeadBytes> EncodeParityHead(const ParityHead& head) {
  std::array<std::uint8_t, kParityHeadBytes> bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  StoreLittleEndian(&bytes[kVersionOffset], kVersion);
  std::memcpy(&bytes[kPackOffset], head.pack.bytes.data(), head.pack.bytes.size());
  StoreLittleEndian(&bytes[kPackBytesOffset], head.shape.pack_bytes);
  StoreLittleEndian(&bytes[kGroupCountOffset], head.shape.group_count);
  StoreLittleEndian(&bytes[kDataCountOffset], head.shape.data_count);
  StoreLittleEndian(&bytes[kParityCountOffset], head.shape.parity_count);
  std::memcpy(&bytes[kPackDigestOffset], head.pack_digest.bytes.data(),
              head.pack_digest.bytes.size());
  const Digest checksum =
      Fingerprint(DigestAlgorithm::kBlake3, std::span(bytes).first(kChecksumOffset));
  std::memcpy(&bytes[kChecksumOffset], checksum.bytes.data(), checksum.bytes.size());
  return bytes;
}

absl::StatusOr<ParityHead> DecodeParityHead(std::span<const std::uint8_t> bytes) {
  if (bytes.size() != kParityHeadBytes ||
      std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return absl::DataLossError("it is no parity of a pack, or was cut short");
  }
  const Digest checksum = Fingerprint(DigestAlgorithm::kBlake3, bytes.first(kChecksumOffset));
  if (std::memcmp(bytes.data() + kChecksumOffset, checksum.bytes.data(), checksum.bytes.size()) !=
      0) {
    return absl::DataLossError("its head does not match its checksum");
  }
  KERF_RETURN_IF_ERROR(
      CheckFormatVersion(LoadLittleEndian<std::uint32_t>(&bytes[kVersionOffset]), kVersion));
  ParityHead head;
  std::memcpy(head.pack.bytes.data(), &bytes[kPackOffset], head.pack.bytes.size());
  ParityShape& shape = head.shape;
  shape.pack_bytes = LoadLittleEndian<std::uint64_t>(&bytes[kPackBytesOffset]);
  shape.group_count = LoadLittleEndian<std::uint32_t>(&bytes[kGroupCountOffset]);
  shape.data_count = LoadLittleEndian<std::uint32_t>(&bytes[kDataCountOffset]);
  shape.parity_count = LoadLittleEndian<std::uint32_t>(&bytes[kParityCountOffset]);
  std::memcpy(head.pack_digest.bytes.data(), &bytes[kPackDigestOffset],
              head.pack_digest.bytes.size());
  // In this order: what is computed of them does not overflow then.
  if (shape.pack_bytes == 0 || shape.pack_bytes > kMaxParityPackBytes || shape.group_count == 0 ||
      shape.group_count > shape.sector_count() ||
      shape.data_count != DivideUp(shape.sector_count(), shape.group_count) ||
      shape.data_count >= kMaxGroupSectors || shape.parity_count == 0 ||
      shape.parity_count > kMaxGroupSectors - shape.data_count ||
      shape.parity_count > std::max(shape.data_count, kMinGroupParity)) {
    return absl::DataLossError("its numbers are those of no pack");
  }
  return head;
}

std::uint64_t SectorSum(std::span<const std::uint8_t> bytes) {
  return LoadLittleEndian<std::uint64_t>(
      Fingerprint(DigestAlgorithm::kXxh3_128, bytes).bytes.data());
}

void PackDigest::Add(std::span<const std::uint8_t> piece) {
  const Digest digest = Fingerprint(DigestAlgorithm::kBlake3, piece);
  pieces_.insert(pieces_.end(), digest.bytes.begin(), digest.bytes.end());
}

}  // namespace kerf::agent
