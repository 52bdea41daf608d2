// The metadata streams of a snapshot: the tree stream (entries with their recipes) and the identity
// stream. docs/spec/store.md has their layout; this pair of files is the only one that knows it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/fs/node.h"
#include "client/store/format/chunk_ref.h"

namespace kerf::agent {

// Where a recipe stands in a tree stream: behind its count.
struct RecipePlace {
  // Of what the stream's source gives, counted from 0.
  std::uint64_t piece_index = 0;
  std::size_t offset_in_piece = 0;
  std::uint64_t chunk_count = 0;

  friend bool operator==(const RecipePlace&, const RecipePlace&) = default;
};

struct TreeEntry {
  Node node;
  // Files with content of their own: its chunks in order.
  std::vector<ChunkRef> recipe;
  // In place of `recipe`, of one that is too long to be kept: RecipeReader reads it from there.
  std::optional<RecipePlace> long_recipe;

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
// A scan of a file with more counts the rest as data (fs/file_source.cc).
inline constexpr std::size_t kMaxExtentCount = 65536;

// Chunks of a recipe that a reader keeps: a file may claim to be as long as it likes, and repeat
// one chunk. 2.3 MiB of memory; half a gigabyte of content in chunks of 8 KiB.
inline constexpr std::size_t kMaxKeptChunks = std::size_t{1} << 16;

// False if a part of the entry is beyond its bound, or the entry could be longer than
// kMaxEntryBytes: then it cannot be written.
bool FitsTree(const TreeEntry& entry, std::size_t digest_size_bytes);
// The same for the recipe alone.
bool RecipeFitsTree(std::uint64_t chunk_count, std::size_t digest_size_bytes);

// Appends one entry, which fits and has its recipe, to `out`.
void EncodeTreeEntry(const TreeEntry& entry, std::size_t digest_size_bytes,
                     std::vector<std::uint8_t>& out);
// The same, of an entry with a long recipe, up to that: the caller appends its chunks
// (EncodeChunkRef), which take `recipe_bytes`.
void EncodeLongTreeEntry(const TreeEntry& entry, std::uint64_t recipe_bytes,
                         std::vector<std::uint8_t>& out);
// One of a recipe.
void EncodeChunkRef(const ChunkRef& chunk, std::size_t digest_size_bytes,
                    std::vector<std::uint8_t>& out);
void EncodeIdentity(const NodeIdentity& identity, std::vector<std::uint8_t>& out);

// Gives the next bytes of a stream, valid until the next call; empty at the end.
using StreamSource = std::function<absl::StatusOr<std::span<const std::uint8_t>>()>;

// A source, and how far it has been read.
struct StreamPosition {
  StreamSource source;
  std::uint64_t given_count = 0;
  std::uint64_t given_bytes = 0;
  // The piece that was given last, and what of it has not been read.
  std::size_t piece_bytes = 0;
  std::span<const std::uint8_t> rest{};

  // Bytes before what has not been read.
  std::uint64_t offset() const { return given_bytes - rest.size(); }
};

using ChunkVisitor = std::function<void(const ChunkRef&)>;

// Reads entries one after the other and trusts none of them: DataLoss unless paths are valid and in
// ComparePaths order, every parent is a directory that came before, kinds are known, parts are
// within their bounds, chunks are of a length that a profile can cut, recipes cover their content,
// extents lie in order within the file, and hard links point to an earlier file. No more memory is
// taken than for what the stream has given so far, nor than the bounds above allow;
// ResourceExhausted where there is not that much. Behind an error it gives no further entry, but
// still says how far it came. Not thread-safe.
class TreeReader {
 public:
  TreeReader(StreamSource source, std::size_t digest_size_bytes,
             std::size_t max_kept_chunks = kMaxKeptChunks);

  // False at the end of the stream. A recipe of more than max_kept_chunks chunks is checked and not
  // kept: then entry.long_recipe says where it is.
  absl::StatusOr<bool> Next(TreeEntry& entry);
  // The same, but the recipe is given to `visit` chunk by chunk and never kept; before it is known
  // whether the rest of the entry is sound.
  absl::StatusOr<bool> Next(TreeEntry& entry, const ChunkVisitor& visit);

  // Before the first Next, of a stream from the middle of another one: what comes next comes behind
  // what `before` gave last, and some entries in between are missing. So the first entry's
  // directories may be among these; all else is asked of it.
  void ResumeBehind(const TreeReader& before);

  const std::string& last_path() const { return last_path_; }
  // Of the last entry's path: as long is that of the nearest directory above it that was given. No
  // shorter than its parent's, unless entries are missing.
  std::size_t known_parent_bytes() const { return known_parent_bytes_; }

  // Where the entry begins that was read last, or could not be, in bytes of the source; and behind
  // which of them it ends, as it says itself, if that much of it was there.
  std::uint64_t entry_offset() const { return entry_offset_; }
  std::optional<std::uint64_t> entry_end() const { return entry_end_; }
  // How far the source was read.
  std::uint64_t read_bytes() const { return position_.offset(); }

 private:
  absl::StatusOr<bool> ReadEntry(TreeEntry& entry, const ChunkVisitor& visit);
  absl::Status Check(const TreeEntry& entry);

  StreamPosition position_;
  const std::size_t digest_size_bytes_;
  const std::size_t max_kept_chunks_;
  std::uint64_t entry_offset_ = 0;
  std::optional<std::uint64_t> entry_end_;
  bool entries_are_missing_ = false;
  std::size_t known_parent_bytes_ = 0;
  std::string last_path_;
  // The directories above the last entry, itself included if it is one: how many bytes of its path
  // are theirs.
  std::vector<std::size_t> open_directories_;
};

// Reads a recipe again that TreeReader has read before. Not thread-safe.
class RecipeReader {
 public:
  // `source` gives the tree stream from piece place.piece_index on.
  RecipeReader(StreamSource source, const RecipePlace& place, std::size_t digest_size_bytes);

  std::uint64_t left_count() const { return left_count_; }
  // The next one, of which there is one left. The errors are TreeReader's.
  absl::StatusOr<ChunkRef> Next();

 private:
  StreamPosition position_;
  std::size_t skip_bytes_;
  std::uint64_t left_count_;
  const std::size_t digest_size_bytes_;
};

// Each takes this.
inline constexpr std::size_t kIdentityBytes = 8 + 8 + 8 + 4;

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
