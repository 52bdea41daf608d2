// Removes from a target what a snapshot has not.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/fs/directory_stack.h"
#include "client/fs/node.h"

namespace kerf::agent {

struct PruneOptions {
  // Whether what else lies in this directory of the snapshot may go; not asked of what is below it.
  std::function<bool(std::string_view directory)> may_remove_in;
  // What stays with all that is in it, wherever it lies, and with all that leads to it. Empty:
  // nothing does.
  std::function<bool(std::string_view path, bool is_directory)> is_spared;
  // The same for one directory, by whatever name: the store.
  struct stat spared_directory{};
  // Nothing is removed, only told.
  bool dry_run = false;
  // Each thing that goes, with all that is below it; of a directory that stays, because something
  // in it does, what goes of it.
  std::function<void(const std::string& path)> on_removed;
  // What could not be removed, or looked at; the rest goes on.
  std::function<void(const std::string& path, const absl::Status& status)> on_error;
};

// Holds the names in the target against the nodes of a snapshot, which come in its order. Stays
// beneath the target and on its file system: follows no symlink, and leaves what is mounted below
// alone, with all that leads to it. Not thread-safe.
class Pruner {
 public:
  // `target` is an open directory.
  Pruner(UniqueFd target, PruneOptions options);

  void Keep(const Node& node);
  // Nothing else is kept.
  void Finish();

  // Files and directories that are gone, those below others too.
  std::uint64_t removed_count() const { return removed_count_; }
  // What was spared, without what is in it.
  std::uint64_t spared_count() const { return spared_count_; }

 private:
  struct Level {
    std::size_t path_bytes = 0;
    bool may_remove = false;
    // Those that have neither been kept nor removed are from `next` on, in order.
    std::vector<std::string> names;
    std::size_t next = 0;
  };

  class Removal;

  void Enter(const std::string& path);
  // Removes what comes before `name` in the top.
  void RemoveBefore(std::string_view name);
  void Leave();
  void Remove(int directory_fd, const std::string& name, const std::string& path);
  bool Spares(const std::string& path, bool is_directory);
  bool SparesDirectory(int directory_fd);
  bool RemoveEntry(int directory_fd, const std::string& name, const std::string& path, int flags);
  std::string PathOf(std::string_view name) const;

  const PruneOptions options_;
  DirectoryStack stack_;
  dev_t device_ = 0;
  std::vector<Level> levels_;
  std::uint64_t removed_count_ = 0;
  std::uint64_t spared_count_ = 0;
};

}  // namespace kerf::agent
