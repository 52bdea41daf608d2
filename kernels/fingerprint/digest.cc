#include "kernels/fingerprint/digest.h"

#include <algorithm>

#include "base/check.h"
#include "base/hex.h"
#include "kernels/fingerprint/blake3.h"
#include "kernels/fingerprint/sha256.h"
#include "kernels/fingerprint/xxh3.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

struct NamedAlgorithm {
  DigestAlgorithm algorithm;
  std::string_view name;
  std::size_t size_bytes;
};

constexpr std::array<NamedAlgorithm, 3> kAlgorithms = {{
    {DigestAlgorithm::kBlake3, "blake3", 32},
    {DigestAlgorithm::kSha256, "sha256", 32},
    {DigestAlgorithm::kXxh3_128, "xxh3-128", 16},
}};

const NamedAlgorithm& Find(DigestAlgorithm algorithm) {
  for (const NamedAlgorithm& named : kAlgorithms) {
    if (named.algorithm == algorithm) return named;
  }
  KERF_CHECK(false && "a digest algorithm that exists");
  return kAlgorithms[0];
}

void Xxh3(Bytes bytes, Digest& digest) {
  const Xxh3Digest hash = Xxh3Of128(bytes);
  digest = Digest{};
  std::copy(hash.begin(), hash.end(), digest.bytes.begin());
}

}  // namespace

std::size_t DigestSizeBytes(DigestAlgorithm algorithm) { return Find(algorithm).size_bytes; }

std::string_view DigestAlgorithmName(DigestAlgorithm algorithm) { return Find(algorithm).name; }

std::optional<DigestAlgorithm> ParseDigestAlgorithm(std::string_view name) {
  for (const NamedAlgorithm& named : kAlgorithms) {
    if (named.name == name) return named.algorithm;
  }
  return std::nullopt;
}

std::string DigestToHex(const Digest& digest, std::size_t size_bytes) {
  KERF_CHECK(size_bytes <= digest.bytes.size());
  return HexOf(std::span(digest.bytes).first(size_bytes));
}

Digest Fingerprint(DigestAlgorithm algorithm, Bytes bytes) {
  Digest digest;
  FingerprintMany(algorithm, {&bytes, 1}, {&digest, 1});
  return digest;
}

void FingerprintMany(DigestAlgorithm algorithm, std::span<const Bytes> chunks,
                     std::span<Digest> digests) {
  KERF_CHECK(chunks.size() == digests.size());
  switch (algorithm) {
    case DigestAlgorithm::kBlake3:
      Blake3Many(Blake3Backends().front(), chunks, digests);
      return;
    case DigestAlgorithm::kSha256:
      Sha256Backends().front().hash_many(chunks, digests);
      return;
    case DigestAlgorithm::kXxh3_128:
      for (std::size_t index = 0; index < chunks.size(); ++index) {
        Xxh3(chunks[index], digests[index]);
      }
      return;
  }
  KERF_CHECK(false && "a digest algorithm that exists");
}

}  // namespace kerf
