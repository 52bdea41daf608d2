// The golden vectors of cuts and fingerprints: proto/kerf/v1/vectors/chunking.json. A change of
// what is written there is a change of the file format of every store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"

namespace kerf {

// The file's text, made with the references of kernels/reference and, for digests that have none,
// with their library.
std::string MakeVectors();

// Holds the kernels that kerf runs (MakeChunker, StreamCutter, FingerprintMany) against vectors in
// that form. DataLoss names each case that differs; InvalidArgument if the text is none of ours.
absl::Status CheckKernelsAgainst(const std::string& vectors);

// The chunks of an input, one behind the other.
struct ForeignChunk {
  std::size_t size_bytes = 0;
  Digest blake3;
  Digest sha256;
};

// nullopt: not for this profile. An error ends the check.
using ForeignCutter = std::function<absl::StatusOr<std::optional<std::vector<ForeignChunk>>>(
    const Profile& profile, std::span<const std::uint8_t> bytes)>;

// Holds what `cut` makes of the inputs against vectors in that form; how many it was asked for and
// had. Fails as CheckKernelsAgainst and `cut` do.
absl::StatusOr<std::size_t> CheckForeignAgainst(const std::string& vectors,
                                                const ForeignCutter& cut);

}  // namespace kerf
