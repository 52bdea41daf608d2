#include "client/store/format/framed_file.h"

#include <cstring>

#include "base/little_endian.h"
#include "base/status.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/format_version.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kHeadBytes = 8 + 4 + 4 + 8;
constexpr std::size_t kChecksumBytes = 32;

}  // namespace

std::vector<std::uint8_t> EncodeFramed(const FileMagic& magic, std::string_view payload,
                                       std::uint32_t version) {
  std::vector<std::uint8_t> out(magic.begin(), magic.end());
  AppendLittleEndian(out, version);
  AppendLittleEndian(out, std::uint32_t{0});
  AppendLittleEndian(out, static_cast<std::uint64_t>(payload.size()));
  out.insert(out.end(), payload.begin(), payload.end());
  const Digest checksum = Fingerprint(DigestAlgorithm::kBlake3, out);
  out.insert(out.end(), checksum.bytes.begin(), checksum.bytes.end());
  return out;
}

absl::StatusOr<std::string> DecodeFramed(const FileMagic& magic,
                                         std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kHeadBytes + kChecksumBytes ||
      std::memcmp(bytes.data(), magic.data(), magic.size()) != 0) {
    return absl::DataLossError("it is not the kind of file that its name says, or was cut short");
  }
  // The checksum first: a bit that flipped in the version makes no newer kerf's file of it.
  const std::size_t payload_bytes = bytes.size() - kHeadBytes - kChecksumBytes;
  const Digest checksum =
      Fingerprint(DigestAlgorithm::kBlake3, bytes.first(kHeadBytes + payload_bytes));
  if (std::memcmp(checksum.bytes.data(), bytes.data() + kHeadBytes + payload_bytes,
                  kChecksumBytes) != 0) {
    return absl::DataLossError("its checksum does not match: it is damaged");
  }
  const auto version = LoadLittleEndian<std::uint32_t>(bytes.data() + 8);
  const std::uint32_t last = magic == kSnapshotMagic ? kLinkedSnapshotVersion : kFirstFramedVersion;
  if (version < kFirstFramedVersion || version > last) {
    KERF_RETURN_IF_ERROR(CheckFormatVersion(version, last));
  }
  if (LoadLittleEndian<std::uint64_t>(bytes.data() + 16) != payload_bytes) {
    return absl::DataLossError("its length is not the one that it names");
  }
  return std::string(reinterpret_cast<const char*>(bytes.data() + kHeadBytes), payload_bytes);
}

absl::StatusOr<std::string> ReadFramedFile(const std::string& path, const FileMagic& magic,
                                           std::uint64_t max_bytes) {
  KERF_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> bytes, ReadWholeFile(path, max_bytes));
  absl::StatusOr<std::string> payload = DecodeFramed(magic, bytes);
  if (!payload.ok()) return Annotate(payload.status(), path);
  return payload;
}

}  // namespace kerf::agent
