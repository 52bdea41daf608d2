// The server's index to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/store/format/chunk_ref.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// Of one call.
inline constexpr std::size_t kMaxIndexBatch = 16 * 1024;

// The values are those of kerf.v1.Verdict.
enum class IndexVerdict { kNew = 1, kDuplicate = 2, kUnverified = 3 };

// What the index says of one digest.
struct IndexAnswer {
  IndexVerdict verdict = IndexVerdict::kNew;
  // Unless verdict is kNew.
  std::uint32_t length_bytes = 0;
  std::string locator;
};

// The calls come from one thread.
class ReadableIndex {
 public:
  virtual ~ReadableIndex() = default;
  // The repository's epoch, 0 if it was never told any.
  virtual absl::StatusOr<std::uint64_t> ReadEpoch() = 0;
  // One answer for each of at most kMaxIndexBatch digests, as a session of `epoch` gets it.
  virtual absl::StatusOr<std::vector<IndexAnswer>> Lookup(std::uint64_t epoch,
                                                          std::span<const Digest> digests) = 0;
  // The next entries behind `after` in digest order, kMaxIndexBatch at most; none: that was all.
  virtual absl::StatusOr<std::vector<StoredChunk>> ScanPage(const std::optional<Digest>& after) = 0;
};

}  // namespace kerf::agent
