// The open directories between a root and where a walk below it stands.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace kerf::agent {

// Keeps a bounded number of directories open, whatever the depth; those further up are opened again
// when the walk comes back to them, from the one below where that still stands in them. Never
// follows a symlink below the root. Not thread-safe.
class DirectoryStack {
 public:
  using Directory = std::shared_ptr<const UniqueFd>;

  // `flags` for openat of directories that are opened again (O_DIRECTORY is added).
  DirectoryStack(UniqueFd root, int flags);

  // Node path of the top, "" for the root.
  std::string_view path() const { return path_; }

  // Leaves directories until the top is `path` or lies above it.
  void PopTo(std::string_view path);

  // The top; valid for as long as someone holds it.
  absl::StatusOr<Directory> Top();

  // Enters `name`, a child of the top that the caller has opened.
  void Push(std::string_view name, UniqueFd fd);

  // PopTo, then opens what is missing down to the directory `path`.
  absl::StatusOr<Directory> Enter(std::string_view path);

 private:
  struct Level {
    // Of the directory's path.
    std::size_t path_length = 0;
    dev_t device = 0;
    ino_t inode = 0;
    // Null while it is not open.
    Directory fd;
  };

  static Directory OpenAbove(const Directory& child, const Level& level, int flags);

  const Directory root_;
  const int flags_;
  std::string path_;
  // Below the root.
  std::vector<Level> levels_;
};

}  // namespace kerf::agent
