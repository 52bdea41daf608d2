// The metadata streams of a snapshot: the tree stream (entries with their recipes) and the identity
// stream. docs/spec/store.md has their layout; this pair of files is the only one that knows it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/fs/node.h"
#include "client/agent/store/chunk_ref.h"

namespace kerf::agent {

struct TreeEntry {
  Node node;
  // Files with content of their own: its chunks in order.
  std::vector<ChunkRef> recipe;

  friend bool operator==(const TreeEntry&, const TreeEntry&) = default;
};

// What the length in front of an entry can say.
inline constexpr std::uint64_t kMaxEntryBytes = UINT32_MAX;
// Of the parts of an entry. Those of Linux are XATTR_NAME_MAX, XATTR_SIZE_MAX and XATTR_LIST_MAX
// (linux/limits.h; in the last each name counts with its NUL); what it does not bound is far
// beyond what is in use.
inline constexpr std::size_t kMaxXattrNameBytes = 255;
inline constexpr std::size_t kMaxXattrValueBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxXattrListBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxXattrValuesBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxTreePathBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxOwnerNameBytes = 4096;

// False if a part of the entry is beyond its bound, or the entry could be longer than
// kMaxEntryBytes: then it cannot be written.
bool FitsTree(const TreeEntry& entry, std::size_t digest_size_bytes);
// The same for the recipe alone.
bool RecipeFitsTree(std::uint64_t chunk_count, std::size_t digest_size_bytes);

// Appends one entry, which fits, to `out`.
void EncodeTreeEntry(const TreeEntry& entry, std::size_t digest_size_bytes,
                     std::vector<std::uint8_t>& out);
void EncodeIdentity(const NodeIdentity& identity, std::vector<std::uint8_t>& out);

// Gives the next bytes of a stream, valid until the next call; empty at the end.
using StreamSource = std::function<absl::StatusOr<std::span<const std::uint8_t>>()>;

// Reads entries one after the other and trusts none of them: DataLoss unless paths are valid and in
// ComparePaths order, every parent is a directory that came before, kinds are known, parts are
// within their bounds, recipes cover their content, extents lie in order within the file, and hard
// links point to an earlier file. No more memory is taken than for what the stream has given so
// far; ResourceExhausted where there is not that much. Behind an error it is of no further use. Not
// thread-safe.
class TreeReader {
 public:
  TreeReader(StreamSource source, std::size_t digest_size_bytes);

  // False at the end of the stream.
  absl::StatusOr<bool> Next(TreeEntry& entry);

 private:
  absl::StatusOr<bool> ReadEntry(TreeEntry& entry);
  absl::Status Check(const TreeEntry& entry);

  StreamSource source_;
  const std::size_t digest_size_bytes_;
  // Of what the source gave last: what has not been read.
  std::span<const std::uint8_t> rest_;
  std::string last_path_;
  // The directories above the last entry, itself included if it is one: how many bytes of its path
  // are theirs.
  std::vector<std::size_t> open_directories_;
};

class IdentityReader {
 public:
  explicit IdentityReader(StreamSource source);
  // False at the end of the stream.
  absl::StatusOr<bool> Next(NodeIdentity& identity);

 private:
  StreamSource source_;
  std::vector<std::uint8_t> buffer_;
  std::size_t position_ = 0;
  bool at_end_ = false;
};

}  // namespace kerf::agent
