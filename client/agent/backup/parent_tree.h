// The snapshot before this one, read alongside the scan.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/agent/backup/entry_window.h"
#include "client/agent/store/chunk_reader.h"
#include "client/agent/store/store.h"

namespace kerf::agent {

// Steps through the parent's entries in the order of the scan. Not thread-safe.
class ParentTree {
 public:
  // `reader` outlives the tree.
  static absl::StatusOr<std::unique_ptr<ParentTree>> Open(ChunkReader& reader,
                                                          const store::v1::Snapshot& snapshot,
                                                          std::size_t digest_size_bytes);

  // The parent's entry of `path`, or null. Paths must be asked for in ComparePaths order. A parent
  // that turns out to be damaged has no further entries, and damage() says why.
  BackupEntry* Find(const std::string& path);

  const absl::Status& damage() const { return damage_; }

 private:
  ParentTree(StreamSource tree, StreamSource identity, std::size_t digest_size_bytes);
  absl::StatusOr<bool> Advance();

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
