// Compresses blocks of packs, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "client/store/packs/compression.h"

struct ZSTD_CCtx_s;

namespace kerf::agent {

// What `auto` does for a block, where it does not look random.
enum class Effort : std::uint8_t {
  // As small as the default, for less time.
  kBrisk,
  // Smaller, for more of it: where the store's disk is slower than the processor, this is faster.
  kThorough,
};

// Not thread-safe; each thread has its own.
class BlockCompressor {
 public:
  explicit BlockCompressor(const Compression& compression);
  ~BlockCompressor();
  BlockCompressor(const BlockCompressor&) = delete;
  BlockCompressor& operator=(const BlockCompressor&) = delete;

  // One zstd frame that names its raw length and is shorter than it, or, if there is none, nothing:
  // then the block is stored as it is. Valid until the next call. `effort` is for `auto` alone.
  // Internal if zstd fails.
  absl::StatusOr<std::span<const std::uint8_t>> Compress(std::span<const std::uint8_t> raw,
                                                         Effort effort);

 private:
  absl::StatusOr<std::size_t> WithLevel(std::span<const std::uint8_t> raw, int level);
  absl::StatusOr<std::size_t> Briskly(std::span<const std::uint8_t> raw);
  absl::StatusOr<std::size_t> Automatic(std::span<const std::uint8_t> raw, Effort effort);

  const Compression compression_;
  // Null if nothing is compressed.
  ZSTD_CCtx_s* const context_;
  std::vector<std::uint8_t> frame_;
};

}  // namespace kerf::agent
