#include "client/store/snapshots/quarantine.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/snapshots/manifest.h"
#include "client/store/snapshots/snapshot_list.h"

namespace kerf::agent {
namespace {

constexpr std::string_view kFolder = "/quarantine";
// More files of one name than any store was mended.
constexpr int kMaxSameName = 10'000;

bool IsThere(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0 || errno != ENOENT;
}

// Makes the folder; a name in it that is free, for a file that is there.
absl::StatusOr<std::string> NameInQuarantine(const std::string& store_directory,
                                             const std::string& path) {
  KERF_CHECK(path.starts_with(Cat(store_directory, "/")));
  if (!IsThere(path)) return ErrnoStatus(ENOENT, path);
  const std::string folder = Cat(store_directory, kFolder);
  KERF_RETURN_IF_ERROR(MakeDirectory(folder));
  KERF_RETURN_IF_ERROR(SyncDirectory(store_directory));
  std::string name = path.substr(store_directory.size() + 1);
  std::replace(name.begin(), name.end(), '/', '-');
  std::string target = Cat(folder, "/", name);
  for (int number = 1; IsThere(target); ++number) {
    if (number > kMaxSameName) {
      return absl::ResourceExhaustedError(
          Cat(folder, ": it holds too many files called ", name, ": move them elsewhere"));
    }
    target = Cat(folder, "/", name, ".", number);
  }
  return target;
}

}  // namespace

absl::StatusOr<std::string> MoveToQuarantine(const std::string& store_directory,
                                             const std::string& path) {
  KERF_ASSIGN_OR_RETURN(std::string target, NameInQuarantine(store_directory, path));
  KERF_RETURN_IF_ERROR(PublishFile(path, target));
  KERF_RETURN_IF_ERROR(SyncDirectory(DirectoryOf(path)));
  return target;
}

absl::StatusOr<std::string> LinkToQuarantine(const std::string& store_directory,
                                             const std::string& path) {
  KERF_ASSIGN_OR_RETURN(std::string target, NameInQuarantine(store_directory, path));
  KERF_RETURN_IF_ERROR(LinkFile(path, target));
  return target;
}

absl::StatusOr<std::string> QuarantineSnapshot(const std::string& store_directory,
                                               const std::string& id) {
  const Manifest manifest(store_directory);
  const absl::Status note = MoveToQuarantine(store_directory, manifest.NotePath(id)).status();
  if (!note.ok() && !absl::IsNotFound(note)) return note;
  absl::StatusOr<std::string> moved =
      MoveToQuarantine(store_directory, SnapshotPath(Cat(store_directory, "/snapshots"), id));
  if (absl::IsNotFound(moved.status())) moved = "";
  if (!moved.ok() || !manifest.IsThere()) return moved;
  // Who saw the snapshot without its note may have written one.
  KERF_RETURN_IF_ERROR(manifest.Remove(id));
  KERF_RETURN_IF_ERROR(manifest.RaiseGeneration());
  return moved;
}

}  // namespace kerf::agent
