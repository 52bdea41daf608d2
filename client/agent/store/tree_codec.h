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

// False if the entry could be longer than kMaxEntryBytes: then it cannot be written.
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
// ComparePaths order, every parent is a directory that came before, kinds are known, recipes cover
// their content, extents lie in order within the file, and hard links point to an earlier file. Not
// thread-safe.
class TreeReader {
 public:
  TreeReader(StreamSource source, std::size_t digest_size_bytes);

  // False at the end of the stream.
  absl::StatusOr<bool> Next(TreeEntry& entry);

 private:
  absl::StatusOr<bool> Fill(std::size_t count);
  absl::Status Decode(std::span<const std::uint8_t> bytes, TreeEntry& entry) const;
  absl::Status Check(const TreeEntry& entry);

  StreamSource source_;
  const std::size_t digest_size_bytes_;
  std::vector<std::uint8_t> buffer_;
  std::size_t position_ = 0;
  bool at_end_ = false;
  std::string last_path_;
  // The directories above the last entry, itself included if it is one; by their paths.
  std::vector<std::string> open_directories_;
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
