// The limits of index.h, checked once for every leaf.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "kernels/fingerprint/digest.h"
#include "server/index/index.h"

namespace kerf {

// A name that ValidateRepositoryName takes, and a known digest algorithm; else InvalidArgument.
absl::Status ValidateRepository(const RepositoryId& repository);

// InvalidArgument unless the repository is valid, there are as many results as digests, and each
// digest is as short as the repository's algorithm makes it (the rest of its bytes is zero).
absl::Status ValidateLookup(const RepositoryId& repository, std::span<const Digest> digests,
                            std::size_t result_count);

// The same for entries; each locator has 1 to kMaxLocatorBytes bytes.
absl::Status ValidateCommit(const RepositoryId& repository, std::span<const IndexEntry> entries);

// The same, but a locator may be empty.
absl::Status ValidateForget(const RepositoryId& repository, std::span<const IndexEntry> entries);

// InvalidArgument unless the repository is valid and `after` as short as its digests.
absl::Status ValidateScan(const RepositoryId& repository, const std::optional<Digest>& after);

// The same, and that `limit` is not 0.
absl::Status ValidateStep(const RepositoryId& repository, const std::optional<Digest>& after,
                          std::size_t limit);

// InvalidArgument unless `after`, where a list goes on, is a repository.
absl::Status ValidateList(const std::optional<RepositoryId>& after);

// Of a Drop whose `after` no earlier step has answered.
absl::Status LeftOut();

}  // namespace kerf
