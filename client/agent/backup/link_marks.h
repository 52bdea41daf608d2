// Names that may be those of one file, where only what they hold can tell.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "client/agent/backup/entry_window.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// Not thread-safe.
class LinkMarks {
 public:
  // An entry that fits a tree and has its recipe, as it goes into the snapshot: later names may be
  // linked to it.
  void Add(BackupEntry& entry);

  // Makes the entry a hard link to `path` if that was added and is the same in all but its name,
  // number of inode included: whichever of them is restored, it is right. Otherwise it stays what
  // it is.
  void LinkIfTheSame(const std::string& path, BackupEntry& entry) const;

 private:
  absl::flat_hash_map<std::string, Digest> marks_;
};

}  // namespace kerf::agent
