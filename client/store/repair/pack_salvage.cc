#include "client/store/repair/pack_salvage.h"

#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"

namespace kerf::agent {
namespace {

constexpr std::array<std::uint8_t, 4> kFrameMagic = {0x28, 0xB5, 0x2F, 0xFD};

struct StreamDeleter {
  void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

}  // namespace

std::vector<std::uint8_t> DecodePrefix(const PackBlock& block, std::vector<std::uint8_t> stored) {
  if (!block.compressed) {
    stored.resize(block.raw_bytes);
    return stored;
  }
  std::vector<std::uint8_t> raw(block.raw_bytes);
  const std::unique_ptr<ZSTD_DStream, StreamDeleter> stream(ZSTD_createDStream());
  ZSTD_inBuffer in{stored.data(), stored.size(), 0};
  ZSTD_outBuffer out{raw.data(), raw.size(), 0};
  while (stream != nullptr && in.pos < in.size && out.pos < out.size) {
    const std::size_t in_before = in.pos;
    const std::size_t out_before = out.pos;
    const std::size_t left = ZSTD_decompressStream(stream.get(), &out, &in);
    const bool stands_still = in.pos == in_before && out.pos == out_before;
    if (ZSTD_isError(left) != 0 || left == 0 || stands_still) break;
  }
  return raw;
}

absl::StatusOr<KnownPack> ReadFooterAnyway(const std::string& path, const PackId& id) {
  KERF_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path));
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, path);
  const auto file_bytes = static_cast<std::uint64_t>(info.st_size);
  if (file_bytes < kPackHeaderBytes + kPackTrailerBytes) {
    return absl::DataLossError(Cat(path, ": it is too short for a pack"));
  }
  std::array<std::uint8_t, kPackTrailerBytes> end;
  KERF_RETURN_IF_ERROR(PReadExactly(fd.get(), end, file_bytes - kPackTrailerBytes, path));
  KERF_ASSIGN_OR_RETURN(const PackTrailer trailer, DecodePackTrailer(end, file_bytes));
  std::vector<std::uint8_t> bytes(trailer.footer_bytes);
  KERF_RETURN_IF_ERROR(PReadExactly(fd.get(), bytes, trailer.footer_offset, path));
  KERF_ASSIGN_OR_RETURN(PackFooter footer, DecodePackFooter(bytes, trailer));
  return KnownPack{id, std::move(footer), file_bytes};
}

void ChunkOrder::Add(const ChunkRef& chunk) {
  length_of_.emplace(chunk.digest, chunk.length_bytes);
  lengths_.insert(chunk.length_bytes);
  if (has_last_) next_of_.emplace(last_, chunk.digest);
  last_ = chunk.digest;
  has_last_ = true;
}

bool ChunkOrder::Is(DigestAlgorithm algorithm, std::span<const std::uint8_t> bytes,
                    std::uint32_t length_bytes, ChunkRef& found) const {
  if (length_bytes == 0 || length_bytes > bytes.size()) return false;
  const auto known = length_of_.find(Fingerprint(algorithm, bytes.first(length_bytes)));
  if (known == length_of_.end() || known->second != length_bytes) return false;
  found = {known->first, length_bytes};
  return true;
}

bool ChunkOrder::Match(DigestAlgorithm algorithm, std::span<const std::uint8_t> bytes,
                       const Digest* previous, ChunkRef& found) const {
  if (previous != nullptr) {
    // Files are stored in their order, so this is it mostly.
    const auto next = next_of_.find(*previous);
    if (next != next_of_.end() &&
        Is(algorithm, bytes, length_of_.find(next->second)->second, found)) {
      return true;
    }
  }
  return std::any_of(lengths_.begin(), lengths_.end(), [&](std::uint32_t length_bytes) {
    return Is(algorithm, bytes, length_bytes, found);
  });
}

namespace {

// The raw bytes of the frame with which `bytes` begin, and how long it is; empty if there is none.
std::vector<std::uint8_t> DecodeFrame(std::span<const std::uint8_t> bytes,
                                      std::size_t& frame_bytes) {
  if (bytes.size() < kFrameMagic.size() ||
      !std::equal(kFrameMagic.begin(), kFrameMagic.end(), bytes.begin())) {
    return {};
  }
  frame_bytes = ZSTD_findFrameCompressedSize(bytes.data(), bytes.size());
  if (ZSTD_isError(frame_bytes) != 0) return {};
  const unsigned long long raw_bytes = ZSTD_getFrameContentSize(bytes.data(), frame_bytes);
  // Also what the library says for a frame of unknown length is larger.
  if (raw_bytes == 0 || raw_bytes > kMaxBlockRawBytes) return {};
  std::vector<std::uint8_t> raw(raw_bytes);
  const std::size_t count = ZSTD_decompress(raw.data(), raw.size(), bytes.data(), frame_bytes);
  if (ZSTD_isError(count) != 0 || count != raw.size()) raw.clear();
  return raw;
}

// Chunks one behind the other from the beginning, as far as they are known; returns how many bytes.
absl::StatusOr<std::size_t> FindTiles(std::span<const std::uint8_t> bytes,
                                      DigestAlgorithm algorithm, const ChunkOrder& order,
                                      const FoundChunk& found) {
  std::size_t at = 0;
  ChunkRef chunk;
  while (at < bytes.size() &&
         order.Match(algorithm, bytes.subspan(at), at == 0 ? nullptr : &chunk.digest, chunk)) {
    KERF_RETURN_IF_ERROR(found(chunk, bytes.subspan(at, chunk.length_bytes)));
    at += chunk.length_bytes;
  }
  return at;
}

}  // namespace

absl::Status FindChunks(std::span<const std::uint8_t> pack, DigestAlgorithm algorithm,
                        const ChunkOrder& order, const FoundChunk& found) {
  std::size_t at = kPackHeaderBytes;
  while (at < pack.size()) {
    const std::span<const std::uint8_t> rest = pack.subspan(at);
    std::size_t frame_bytes = 0;
    const std::vector<std::uint8_t> raw = DecodeFrame(rest, frame_bytes);
    if (!raw.empty()) {
      KERF_RETURN_IF_ERROR(FindTiles(raw, algorithm, order, found).status());
      at += frame_bytes;
      continue;
    }
    // A block that did not compress.
    KERF_ASSIGN_OR_RETURN(const std::size_t tiled, FindTiles(rest, algorithm, order, found));
    if (tiled > 0) {
      at += tiled;
      continue;
    }
    const auto next =
        std::search(rest.begin() + 1, rest.end(), kFrameMagic.begin(), kFrameMagic.end());
    at += static_cast<std::size_t>(next - rest.begin());
  }
  return absl::OkStatus();
}

}  // namespace kerf::agent
