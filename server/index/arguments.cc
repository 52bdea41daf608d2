#include "server/index/arguments.h"

#include <algorithm>

#include "base/status.h"
#include "base/strings.h"

namespace kerf {
namespace {

absl::Status ValidateDigest(const RepositoryId& repository, const Digest& digest) {
  const std::size_t size_bytes = DigestSizeBytes(repository.digest_algorithm);
  const bool fits = std::all_of(digest.bytes.begin() + static_cast<std::ptrdiff_t>(size_bytes),
                                digest.bytes.end(), [](std::uint8_t byte) { return byte == 0; });
  if (!fits) {
    return absl::InvalidArgumentError(ToAbsl(
        Cat("a digest of this repository (", DigestAlgorithmName(repository.digest_algorithm),
            ") has ", size_bytes, " bytes, and one that was given has more")));
  }
  return absl::OkStatus();
}

absl::Status ValidateEntries(const RepositoryId& repository, std::span<const IndexEntry> entries,
                             std::size_t min_locator_bytes) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  for (const IndexEntry& entry : entries) {
    KERF_RETURN_IF_ERROR(ValidateDigest(repository, entry.digest));
    if (entry.locator.size() < min_locator_bytes || entry.locator.size() > kMaxLocatorBytes) {
      return absl::InvalidArgumentError(
          ToAbsl(Cat("a locator has ", min_locator_bytes, " to ", kMaxLocatorBytes, " bytes, not ",
                     entry.locator.size())));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateRepository(const RepositoryId& repository) {
  KERF_RETURN_IF_ERROR(ValidateRepositoryName(repository.name));
  switch (repository.digest_algorithm) {
    case DigestAlgorithm::kBlake3:
    case DigestAlgorithm::kSha256:
    case DigestAlgorithm::kXxh3_128:
      return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      ToAbsl(Cat("unknown digest algorithm ", static_cast<int>(repository.digest_algorithm))));
}

absl::Status ValidateLookup(const RepositoryId& repository, std::span<const Digest> digests,
                            std::size_t result_count) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  if (digests.size() != result_count) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat(digests.size(), " digests but room for ", result_count, " results")));
  }
  for (const Digest& digest : digests) KERF_RETURN_IF_ERROR(ValidateDigest(repository, digest));
  return absl::OkStatus();
}

absl::Status ValidateCommit(const RepositoryId& repository, std::span<const IndexEntry> entries) {
  return ValidateEntries(repository, entries, 1);
}

absl::Status ValidateForget(const RepositoryId& repository, std::span<const IndexEntry> entries) {
  return ValidateEntries(repository, entries, 0);
}

absl::Status ValidateScan(const RepositoryId& repository, const std::optional<Digest>& after) {
  KERF_RETURN_IF_ERROR(ValidateRepository(repository));
  return after.has_value() ? ValidateDigest(repository, *after) : absl::OkStatus();
}

absl::Status ValidateStep(const RepositoryId& repository, const std::optional<Digest>& after,
                          std::size_t limit) {
  KERF_RETURN_IF_ERROR(ValidateScan(repository, after));
  if (limit > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("no entry at all may be looked at");
}

absl::Status ValidateList(const std::optional<RepositoryId>& after) {
  return after.has_value() ? ValidateRepository(*after) : absl::OkStatus();
}

absl::Status LeftOut() {
  return absl::InvalidArgumentError(
      "there are entries before `after`: a drop begins with the first one");
}

}  // namespace kerf
