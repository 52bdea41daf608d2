#include "client/store/packs/block_compressor.h"

#include <zstd.h>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

// Of level 3, with tables that fit the second-level cache beside the block: a fifth less time, and
// with blocks of twice the size no larger on text, code, libraries (docs/adr/0024).
constexpr int kBriskHashLog = 16;
constexpr int kBriskChainLog = 15;
constexpr int kBriskMinMatch = 5;
constexpr int kBriskWindowLog = 20;
static_assert(std::size_t{1} << kBriskWindowLog >= kLargeBlockBytes);

constexpr int kThoroughLevel = 6;
// Finds long repetitions only, at the speed of memory.
constexpr int kTrialLevel = -5;
// What looks random and still becomes so small was misjudged.
constexpr double kWorthShare = 0.95;

absl::Status ZstdError(std::size_t code) {
  return absl::InternalError(Cat("zstd: ", ZSTD_getErrorName(code)));
}

}  // namespace

BlockCompressor::BlockCompressor(const Compression& compression)
    : compression_(compression),
      context_(compression.kind == Compression::Kind::kOff ? nullptr : ZSTD_createCCtx()) {
  KERF_CHECK(compression.kind == Compression::Kind::kOff || context_ != nullptr);
}

BlockCompressor::~BlockCompressor() { ZSTD_freeCCtx(context_); }

absl::StatusOr<std::size_t> BlockCompressor::WithLevel(std::span<const std::uint8_t> raw,
                                                       int level) {
  const std::size_t count =
      ZSTD_compressCCtx(context_, frame_.data(), frame_.size(), raw.data(), raw.size(), level);
  if (ZSTD_isError(count) != 0) return ZstdError(count);
  return count;
}

// ZSTD_compressCCtx leaves these parameters alone, and goes by its level.
absl::StatusOr<std::size_t> BlockCompressor::Briskly(std::span<const std::uint8_t> raw) {
  const struct {
    ZSTD_cParameter name;
    int value;
  } parameters[] = {
      {ZSTD_c_strategy, ZSTD_dfast},       {ZSTD_c_hashLog, kBriskHashLog},
      {ZSTD_c_chainLog, kBriskChainLog},   {ZSTD_c_minMatch, kBriskMinMatch},
      {ZSTD_c_windowLog, kBriskWindowLog},
  };
  for (const auto& parameter : parameters) {
    const std::size_t set = ZSTD_CCtx_setParameter(context_, parameter.name, parameter.value);
    if (ZSTD_isError(set) != 0) return ZstdError(set);
  }
  const std::size_t count =
      ZSTD_compress2(context_, frame_.data(), frame_.size(), raw.data(), raw.size());
  if (ZSTD_isError(count) != 0) return ZstdError(count);
  return count;
}

absl::StatusOr<std::size_t> BlockCompressor::Automatic(std::span<const std::uint8_t> raw,
                                                       Effort effort) {
  if (LooksRandom(raw)) {
    KERF_ASSIGN_OR_RETURN(const std::size_t count, WithLevel(raw, kTrialLevel));
    const auto worth_bytes =
        static_cast<std::size_t>(static_cast<double>(raw.size()) * kWorthShare);
    if (count > worth_bytes) return count;
  }
  return effort == Effort::kThorough ? WithLevel(raw, kThoroughLevel) : Briskly(raw);
}

absl::StatusOr<std::span<const std::uint8_t>> BlockCompressor::Compress(
    std::span<const std::uint8_t> raw, Effort effort) {
  if (compression_.kind == Compression::Kind::kOff) return std::span<const std::uint8_t>();
  // Grows only: of what is behind the frame nothing is read.
  const std::size_t bound_bytes = ZSTD_compressBound(raw.size());
  if (frame_.size() < bound_bytes) frame_.resize(bound_bytes);
  KERF_ASSIGN_OR_RETURN(const std::size_t count, compression_.kind == Compression::Kind::kAuto
                                                     ? Automatic(raw, effort)
                                                     : WithLevel(raw, compression_.level));
  if (count >= raw.size()) return std::span<const std::uint8_t>();
  return std::span<const std::uint8_t>(frame_).first(count);
}

}  // namespace kerf::agent
