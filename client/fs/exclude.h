// Which paths a backup leaves out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kerf::agent {

// Each name is held against all of them, by a backup, and by a restore that spares what it left
// out.
inline constexpr std::size_t kMaxExcludes = std::size_t{1} << 16;

// A set of glob patterns. `*`, `?` and `[...]` match within one component, a component `**` any
// number of components, `\` takes the next character literally.
//   "*.o", "node_modules"   without '/': the name, at any depth
//   "/home/*/.cache"        with '/' in front: the whole path from the root of the file system
//   "build/out"             with '/' inside: the last components of a path
//   "tmp/"                  with '/' at the end: directories only
// Immutable once filled; matching is thread-safe.
class ExcludePatterns {
 public:
  // InvalidArgument if the pattern can match nothing, as an empty one, or is broken, as one with a
  // '[' without its ']', or if there are kMaxExcludes.
  absl::Status Add(std::string_view pattern);

  // One pattern a line; empty lines and lines that begin with '#' do not count. NotFound and
  // PermissionDenied as from open(2); InvalidArgument names file and line.
  absl::Status AddFile(const std::string& file);

  bool empty() const { return patterns_.empty(); }
  // As they were added.
  const std::vector<std::string>& texts() const { return texts_; }

  // `path` is a node's path.
  bool Matches(std::string_view path, bool is_directory) const;

 private:
  struct Pattern {
    std::vector<std::string> components;
    bool anchored = false;
    bool directories_only = false;
  };

  std::vector<Pattern> patterns_;
  std::vector<std::string> texts_;
};

}  // namespace kerf::agent
