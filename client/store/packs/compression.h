// How the blocks of packs are compressed. What a reader meets is the same whatever is chosen: a
// zstd frame, or the raw bytes (docs/spec/store.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kerf::agent {

// Raw bytes that are compressed together, about.
inline constexpr std::uint32_t kDefaultBlockBytes = std::uint32_t{512} << 10;
// More compresses better and, with the tables that fit it, in less time; less loses less to a
// sector that is damaged, and is cheaper to read one chunk of (docs/adr/0024).
inline constexpr std::uint32_t kLargeBlockBytes = std::uint32_t{1} << 20;

struct Compression {
  enum class Kind : std::uint8_t {
    kOff,
    // One level of zstd for everything.
    kLevel,
    // As small as the default for less time: what each block, and the store's disk, is like
    // decides.
    kAuto,
  };

  Kind kind = Kind::kLevel;
  int level = 3;
  std::uint32_t block_bytes = kDefaultBlockBytes;

  friend bool operator==(const Compression&, const Compression&) = default;
};

// auto, off, fast, default, max, or a level of zstd from 1 to 19. InvalidArgument for anything
// else.
absl::StatusOr<Compression> ParseCompression(std::string_view text);

// For the check of a flag: what is wrong with it, empty if nothing is.
std::string RefuseNoCompression(const std::string& text);

// Of the packs that hold metadata, which a restore reads in small parts: as `files` says, but for
// auto, which is the default there.
Compression ForMetadata(const Compression& files);

// Whether the bytes, each quarter of them, are such that neither their frequencies nor, by all
// experience, repetitions let them shrink: compressed or encrypted before. By a sample of them, in
// some microseconds; of less than a sample always false.
bool LooksRandom(std::span<const std::uint8_t> bytes);

}  // namespace kerf::agent
