// The layout of a pack file (docs/spec/store.md); the only file that knows it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

struct PackId {
  std::array<std::uint8_t, 16> bytes{};

  friend bool operator==(const PackId&, const PackId&) = default;
  friend auto operator<=>(const PackId&, const PackId&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const PackId& id) {
    return H::combine(std::move(state), id.bytes);
  }
};

// 32 lower-case hexadecimal digits.
std::string PackIdToHex(const PackId& id);
std::optional<PackId> ParsePackId(std::string_view hex);

// Consecutive chunks that are compressed together.
struct PackBlock {
  std::uint64_t offset = 0;
  std::uint32_t stored_bytes = 0;
  std::uint32_t raw_bytes = 0;
  // One zstd frame; false if the raw bytes are stored as they are.
  bool compressed = false;
};

struct PackChunk {
  Digest digest;
  std::uint32_t block_index = 0;
  std::uint32_t offset_in_block = 0;
  std::uint32_t length_bytes = 0;
};

struct PackFooter {
  DigestAlgorithm digest_algorithm = DigestAlgorithm::kBlake3;
  std::vector<PackBlock> blocks;
  std::vector<PackChunk> chunks;
};

inline constexpr std::size_t kPackHeaderBytes = 32;
inline constexpr std::size_t kPackTrailerBytes = 64;
// Bounds on what a reader believes.
inline constexpr std::uint32_t kMaxBlockRawBytes = 64u << 20;
// A writer's largest one is 48 MiB.
inline constexpr std::uint32_t kMaxFooterBytes = 64u << 20;

std::array<std::uint8_t, kPackHeaderBytes> EncodePackHeader(const PackId& id);
// All but the version.
absl::Status CheckPackHeader(std::span<const std::uint8_t> header, const PackId& id);

// OK if a header and a trailer are of a version that is known, one of which is enough: in the other
// one a bit flipped (CheckReservedBytes says so). Else FailedPrecondition for a newer kerf's.
absl::Status CheckPackVersion(std::span<const std::uint8_t> header,
                              std::span<const std::uint8_t> trailer);

// What of a header and a trailer nothing else holds to anything: DataLoss if bytes that are zero in
// every pack are not, or the trailer's version is not the header's. The pack can be read all the
// same, but its file is not what was written.
absl::Status CheckReservedBytes(std::span<const std::uint8_t> header,
                                std::span<const std::uint8_t> trailer);

// Footer and trailer, to be written at `footer_offset`.
std::vector<std::uint8_t> EncodePackEnd(const PackFooter& footer, std::uint64_t footer_offset);

struct PackTrailer {
  std::uint64_t footer_offset = 0;
  std::uint32_t footer_bytes = 0;
  Digest footer_checksum;
};

// The last kPackTrailerBytes of a file of `file_bytes`. DataLoss says what is wrong.
absl::StatusOr<PackTrailer> DecodePackTrailer(std::span<const std::uint8_t> trailer,
                                              std::uint64_t file_bytes);
// Checks the checksum, and that every block lies in the file and every chunk in its block.
absl::StatusOr<PackFooter> DecodePackFooter(std::span<const std::uint8_t> footer,
                                            const PackTrailer& trailer);

// 20 bytes: the pack and the chunk's position in its footer.
std::string EncodeLocator(const PackId& pack, std::uint32_t chunk_index);
struct Locator {
  PackId pack;
  std::uint32_t chunk_index = 0;
};
std::optional<Locator> DecodeLocator(std::string_view locator);

}  // namespace kerf::agent
