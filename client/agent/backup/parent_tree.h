// The snapshot before this one, read alongside the scan.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

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
  // `reader` outlives the tree.
  static absl::StatusOr<std::unique_ptr<ParentTree>> Open(ChunkReader& reader,
                                                          const store::v1::Snapshot& snapshot,
                                                          std::size_t digest_size_bytes,
                                                          std::size_t max_kept_chunks);

  // The parent's entry of a file, with its whole recipe, if nothing of the file has changed and all
  // its chunks are held; or null. Files must be asked for in ComparePaths order. A parent that
  // turns out to be damaged has no further entries, and damage() says why.
  BackupEntry* FindUnchanged(const ScannedNode& scanned, bool ignore_device,
                             const std::function<bool(const ChunkRef&)>& is_held);

  const absl::Status& damage() const { return damage_; }

 private:
  ParentTree(ChunkReader& reader, SharedRecipe tree, StreamSource identity,
             std::size_t digest_size_bytes, std::size_t max_kept_chunks);
  BackupEntry* Find(const std::string& path);
  absl::StatusOr<bool> Advance();
  bool TakeRecipe(BackupEntry& entry) const;
  absl::Status LoadRecipe(BackupEntry& entry) const;

  ChunkReader& reader_;
  const SharedRecipe tree_recipe_;
  const std::size_t digest_size_bytes_;
  TreeReader tree_;
  IdentityReader identity_;
  BackupEntry current_;
  bool has_current_ = false;
  bool at_end_ = false;
  absl::Status damage_;
};

// Whether the file of the snapshot before is the one that is there now, unchanged. A ctime of zero
// tells nothing.
bool IsUnchanged(const NodeIdentity& before, const NodeIdentity& now, bool ignore_device);

// The latest snapshot of the same host and paths.
std::optional<store::v1::Snapshot> FindParent(const SnapshotList& list, const std::string& host,
                                              const std::vector<std::string>& paths);

}  // namespace kerf::agent
