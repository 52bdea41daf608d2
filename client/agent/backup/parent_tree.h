// The snapshot before this one, read alongside the scan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/agent/backup/entry_window.h"
#include "client/fs/tree_walk.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// Steps through the parent's entries in the order of the scan. Not thread-safe.
class ParentTree {
 public:
  // Chunks, in any order.
  using ChunkSpan = std::span<const ChunkRef>;
  using Expect = std::function<void(ChunkSpan)>;
  using IsEnded = std::function<bool()>;

  // `reader` outlives the tree. Unless it is empty, `expect` is told of the chunks of some entries
  // before FindUnchanged comes to them: who has to ask for each asks for many at once. Once
  // `is_ended`, which is asked for each entry that is read, there is nothing to be found any more.
  static absl::StatusOr<std::unique_ptr<ParentTree>> Open(
      ChunkReader& reader, const store::v1::Snapshot& snapshot, std::size_t digest_size_bytes,
      std::size_t max_kept_chunks, Expect expect = {}, IsEnded is_ended = {});

  // The parent's entry of a file, with its whole recipe, if nothing of the file has changed and all
  // its chunks are held; or null. Files must be asked for in ComparePaths order. A parent that
  // turns out to be damaged has no further entries, and damage() says why.
  BackupEntry* FindUnchanged(const ScannedNode& scanned, bool ignore_device,
                             const std::function<bool(ChunkSpan)>& are_held);

  const absl::Status& damage() const { return damage_; }

  // Bounds of what is read ahead for `expect`: none is read behind so many entries, or chunks, or
  // bytes of what is in them (MemoryOf).
  static constexpr std::size_t kMaxAheadEntries = 4096;
  static constexpr std::size_t kMaxAheadChunks = 8192;
  static constexpr std::uint64_t kMaxAheadBytes = std::uint64_t{8} << 20;

 private:
  ParentTree(ChunkReader& reader, SharedRecipe tree, StreamSource identity,
             std::size_t digest_size_bytes, std::size_t max_kept_chunks, Expect expect,
             IsEnded is_ended);
  bool IsOver() const { return is_ended_ && is_ended_(); }
  BackupEntry* Find(const std::string& path);
  absl::StatusOr<bool> Advance();
  absl::StatusOr<bool> ReadEntry(BackupEntry& entry);
  void ReadAhead();
  bool TakeRecipe(BackupEntry& entry) const;
  absl::Status LoadRecipe(BackupEntry& entry) const;

  ChunkReader& reader_;
  const SharedRecipe tree_recipe_;
  const std::size_t digest_size_bytes_;
  TreeReader tree_;
  IdentityReader identity_;
  const Expect expect_;
  const IsEnded is_ended_;
  std::deque<BackupEntry> ahead_;
  // What comes behind ahead_: more if it is true.
  absl::StatusOr<bool> behind_ = true;
  BackupEntry current_;
  bool has_current_ = false;
  bool at_end_ = false;
  absl::Status damage_;
};

// Whether the file of the snapshot before is the one that is there now, unchanged. A ctime of zero
// tells nothing.
bool IsUnchanged(const NodeIdentity& before, const NodeIdentity& now, bool ignore_device);

// The chunks of a snapshot's metadata streams; none if it does not name them rightly.
std::vector<ChunkRef> MetadataOf(const store::v1::Snapshot& snapshot,
                                 std::size_t digest_size_bytes);

// The latest snapshot of the same host and paths.
std::optional<store::v1::Snapshot> FindParent(const SnapshotList& list, const std::string& host,
                                              const std::vector<std::string>& paths);

}  // namespace kerf::agent
