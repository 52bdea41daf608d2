// What `kerf restore --delete` leaves alone.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/fs/exclude.h"
#include "kerf/store/v1/store.pb.h"

namespace kerf::agent {

// All paths are node paths of the snapshot. Nothing of what it does not know is kept.
class KeptPaths {
 public:
  // FailedPrecondition if `target` is the store or lies in it. Call it first.
  absl::Status CheckTarget(const std::string& store_directory, const std::string& target);
  // What the snapshot is of, and what its backup left out on purpose unless `with_excluded`.
  // FailedPrecondition if that cannot be understood.
  absl::Status Learn(const store::v1::Snapshot& snapshot, bool with_excluded);

  // Whether the snapshot knows all that was in the directory.
  bool MayRemoveIn(std::string_view directory) const;
  // Whether the backup left it out with all that is in it.
  bool IsLeftOut(std::string_view path, bool is_directory) const;
  // The store's directory, of which nothing is ever removed.
  const struct stat& store() const { return store_; }

 private:
  struct stat store_{};
  std::vector<std::string> backed_up_;
  ExcludePatterns excludes_;
  std::set<std::string, std::less<>> left_out_;
};

}  // namespace kerf::agent
