#include "client/agent/restore/kept_paths.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/status.h"
#include "base/strings.h"
#include "client/fs/path.h"

namespace kerf::agent {
namespace {

// As nodes have it.
std::string NodePathOf(const std::string& absolute) {
  return absolute.substr(std::min(absolute.find_first_not_of('/'), absolute.size()));
}

}  // namespace

absl::Status KeptPaths::CheckTarget(const std::string& store_directory, const std::string& target) {
  if (stat(store_directory.c_str(), &store_) != 0) store_ = {};
  std::error_code error;
  std::filesystem::path path = std::filesystem::weakly_canonical(target, error);
  for (; !error && path.has_relative_path(); path = path.parent_path()) {
    struct stat status{};
    if (stat(path.c_str(), &status) != 0 || status.st_dev != store_.st_dev ||
        status.st_ino != store_.st_ino) {
      continue;
    }
    return absl::FailedPreconditionError(
        Cat(target, " lies in the store ", store_directory, ": --delete never cleans up there"));
  }
  return absl::OkStatus();
}

absl::Status KeptPaths::Learn(const store::v1::Snapshot& snapshot, bool with_excluded) {
  for (const std::string& path : snapshot.paths()) backed_up_.push_back(NodePathOf(path));
  if (with_excluded) return absl::OkStatus();
  const store::v1::LeftOut& left_out = snapshot.left_out();
  constexpr char kAdvice[] = "; restore without --delete, or with --delete-excluded";
  // Of an earlier kerf, or hostile.
  if (static_cast<std::size_t>(left_out.excludes_size()) > kMaxExcludes) {
    return absl::FailedPreconditionError(Cat("snapshot ", snapshot.id(), " was made with ",
                                             left_out.excludes_size(), " exclude patterns; ",
                                             kMaxExcludes, " are possible", kAdvice));
  }
  for (const std::string& pattern : left_out.excludes()) {
    const absl::Status status = excludes_.Add(pattern);
    if (status.ok()) continue;
    return absl::FailedPreconditionError(Cat("what snapshot ", snapshot.id(), " was to leave out ",
                                             "is not understood: ", MessageOf(status), kAdvice));
  }
  for (const std::string& path : left_out.directories()) left_out_.insert(NodePathOf(path));
  return absl::OkStatus();
}

// The nearest path of the backup above it counts, and nothing on the way to it may have been left
// out: what leads to a path of the backup holds nothing else of what was.
bool KeptPaths::MayRemoveIn(std::string_view directory) const {
  while (true) {
    // Never excluded, and of every file system.
    if (std::find(backed_up_.begin(), backed_up_.end(), directory) != backed_up_.end()) return true;
    if (directory.empty() || IsLeftOut(directory, true)) return false;
    directory = ParentOf(directory);
  }
}

bool KeptPaths::IsLeftOut(std::string_view path, bool is_directory) const {
  return excludes_.Matches(path, is_directory) || (is_directory && left_out_.contains(path));
}

}  // namespace kerf::agent
