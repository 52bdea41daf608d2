// The snapshot before this one, read alongside the scan.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/agent/backup/entry_window.h"
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

  // The parent's entry of `path`, or null. Paths must be asked for in ComparePaths order. A parent
  // that turns out to be damaged has no further entries, and damage() says why.
  BackupEntry* Find(const std::string& path);

  // Reads the recipe of an entry of Find that has a long one into it.
  absl::Status LoadRecipe(BackupEntry& entry) const;

  const absl::Status& damage() const { return damage_; }

 private:
  ParentTree(ChunkReader& reader, SharedRecipe tree, StreamSource identity,
             std::size_t digest_size_bytes, std::size_t max_kept_chunks);
  absl::StatusOr<bool> Advance();

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

// The latest snapshot of the same host and paths.
std::optional<store::v1::Snapshot> FindParent(const SnapshotList& list, const std::string& host,
                                              const std::vector<std::string>& paths);

}  // namespace kerf::agent
