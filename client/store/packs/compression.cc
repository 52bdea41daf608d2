#include "client/store/packs/compression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

constexpr int kFastLevel = 1;
constexpr int kMaxLevel = 19;

// A sample: runs of this length, evenly spread, and counted for each part of the bytes by itself: a
// part that would shrink must not hide among the others.
constexpr std::size_t kRunBytes = 64;
constexpr std::size_t kPartCount = 4;
constexpr std::size_t kRunsPerPart = 64;
constexpr std::size_t kRunCount = kPartCount * kRunsPerPart;
constexpr std::size_t kPartSampleBytes = kRunBytes * kRunsPerPart;
constexpr std::size_t kSampleBytes = kRunBytes * kRunCount;
// What a code for single bytes could save is a fortieth then. A part's sample of random bytes has
// 7.95.
constexpr double kRandomBitsPerByte = 7.8;

double BitsPerByte(const std::array<std::uint32_t, 256>& counts) {
  double bits = 0;
  for (const std::uint32_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(kPartSampleBytes);
    bits -= share * std::log2(share);
  }
  return bits;
}

}  // namespace

absl::StatusOr<Compression> ParseCompression(std::string_view text) {
  using Kind = Compression::Kind;
  if (text == "auto") return Compression{Kind::kAuto, 0, kLargeBlockBytes};
  if (text == "off") return Compression{Kind::kOff, 0, kDefaultBlockBytes};
  if (text == "fast") return Compression{Kind::kLevel, kFastLevel, kLargeBlockBytes};
  if (text == "default") return Compression();
  if (text == "max") return Compression{Kind::kLevel, kMaxLevel, kLargeBlockBytes};
  int level = 0;
  if (absl::SimpleAtoi(ToAbsl(text), &level) && level >= 1 && level <= kMaxLevel) {
    return Compression{Kind::kLevel, level, kDefaultBlockBytes};
  }
  return absl::InvalidArgumentError(
      ToAbsl(Cat("'", text, "' is no compression: write auto, off, fast, default, max or a level ",
                 "of zstd from 1 to ", kMaxLevel)));
}

std::string RefuseNoCompression(const std::string& text) {
  return std::string(MessageOf(ParseCompression(text).status()));
}

Compression ForMetadata(const Compression& files) {
  return files.kind == Compression::Kind::kAuto ? Compression() : files;
}

bool LooksRandom(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kSampleBytes) return false;
  for (std::size_t part = 0; part < kPartCount; ++part) {
    std::array<std::uint32_t, 256> counts{};
    for (std::size_t run = part * kRunsPerPart; run < (part + 1) * kRunsPerPart; ++run) {
      const std::size_t begin = (bytes.size() - kRunBytes) * run / (kRunCount - 1);
      for (const std::uint8_t byte : bytes.subspan(begin, kRunBytes)) ++counts[byte];
    }
    if (BitsPerByte(counts) < kRandomBitsPerByte) return false;
  }
  return true;
}

}  // namespace kerf::agent
