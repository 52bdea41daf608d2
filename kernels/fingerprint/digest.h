// A chunk's fingerprint.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kerf {

// The values are those of kerf.v1.DigestAlgorithm.
enum class DigestAlgorithm : std::uint8_t {
  kBlake3 = 1,
  kSha256 = 2,
  kXxh3_128 = 3,
};

// 32, or 16 for XXH3-128.
std::size_t DigestSizeBytes(DigestAlgorithm algorithm);

// "blake3", "sha256", "xxh3-128".
std::string_view DigestAlgorithmName(DigestAlgorithm algorithm);
std::optional<DigestAlgorithm> ParseDigestAlgorithm(std::string_view name);

// A plain value. Shorter digests stand at the front; the rest is zero, so that comparison and
// hashing need not know the algorithm.
struct Digest {
  std::array<std::uint8_t, 32> bytes{};

  friend bool operator==(const Digest&, const Digest&) = default;
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

// Lower-case hexadecimal of the first `size_bytes` bytes.
std::string DigestToHex(const Digest& digest, std::size_t size_bytes);

// The fingerprint of `bytes`. Pure and thread-safe; the same for ever on every backend.
Digest Fingerprint(DigestAlgorithm algorithm, std::span<const std::uint8_t> bytes);

// digests[i] = Fingerprint(algorithm, chunks[i]); the spans have the same length. The form to call
// where there are many chunks: backends hash several at once.
void FingerprintMany(DigestAlgorithm algorithm,
                     std::span<const std::span<const std::uint8_t>> chunks,
                     std::span<Digest> digests);

// For hash tables: a digest is uniform already, unless it comes from an adversary who can choose
// XXH3-128 values; tables that hold unbounded outside input must not rely on it.
struct DigestHash {
  std::size_t operator()(const Digest& digest) const {
    std::size_t value = 0;
    std::memcpy(&value, digest.bytes.data(), sizeof value);
    return value;
  }
};

}  // namespace kerf
