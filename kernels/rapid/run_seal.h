// Runs as bytes that may be kept where anybody can write, and believed when they come back: the
// one who cut them seals them with a key that the keeper has not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/rapid/cut_run.h"
#include "kernels/rapid/upload_profile.h"

namespace kerf {

// Of all who cut for one index and believe each other. Never in the index, never sent. It may be
// changed at any time: what was sealed with another key is no hint any more, and nothing else.
struct RunKey {
  std::array<std::uint8_t, 32> bytes{};
};

// What HMAC-SHA256 is cut to.
inline constexpr std::size_t kRunTagBytes = 16;

// How the upload's profile, the digest algorithm and `scope` (at most kMaxRunScopeBytes: whose data
// it is, as a repository's name) enter the tag but not the bytes: a run opens only where it
// belongs.
//
//   version (1 byte: 1), flags (1 byte; bit 0: ended by the end of the file), number of chunks
//   (varint), for each chunk length (varint), marker (1 byte), digest (16 or 32 bytes); then the
//   tag: the first 16 bytes of HMAC-SHA256 over
//   "kerf cut run\0", length of the scope (varint), scope, length of the profile's canonical text
//   (varint), the text, digest algorithm (1 byte), and all bytes before the tag
inline constexpr std::size_t kMaxRunScopeBytes = 256;

// `run` must be one that Vouches for its own profile and digests, or, with the criterion by which
// it was cut, of hearsay: then it opens only for uploads with this criterion, and as hearsay.
std::vector<std::uint8_t> SealRun(const RunKey& key, std::string_view scope, const CutRun& run,
                                  std::optional<AcceptanceCriterion> criterion = std::nullopt);

// A run of exact cuts if `profile` has no criterion, else of hearsay. DataLoss if `bytes` is not
// what SealRun made with that key, scope, profile and digest algorithm: forged, damaged, of another
// key or another owner; it may be dropped. In time and memory linear in bytes.size().
absl::StatusOr<CutRun> OpenRun(const RunKey& key, std::string_view scope,
                               const UploadProfile& profile, DigestAlgorithm digest_algorithm,
                               std::span<const std::uint8_t> bytes);

}  // namespace kerf
