#include "client/store/snapshots/forgotten.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"

namespace kerf::agent {
namespace {

constexpr std::string_view kSuffix = ".snap";

// Of the last change of the file's name or content.
absl::StatusOr<std::int64_t> ChangeTime(const std::string& path) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  return info.st_ctim.tv_sec;
}

absl::StatusOr<std::int64_t> FileSystemTime(const Store& store) {
  const std::string path = Cat(store.temporary_directory(), "/", RandomHex());
  KERF_RETURN_IF_ERROR(CreateNewFile(path).status());
  absl::StatusOr<std::int64_t> now = ChangeTime(path);
  RemoveFile(path).IgnoreError();
  return now;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpiredForgotten(const Store& store,
                                                          std::int64_t max_age_s) {
  std::vector<std::string> expired;
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(store.forgotten_directory());
  // Kerf 0.1.0 keeps none.
  if (absl::IsNotFound(names.status())) return expired;
  if (!names.ok()) return names.status();
  std::int64_t now = 0;
  if (max_age_s > 0 && !names->empty()) {
    KERF_ASSIGN_OR_RETURN(now, FileSystemTime(store));
  }
  for (const std::string& name : *names) {
    if (!name.ends_with(kSuffix)) continue;
    const std::string id = name.substr(0, name.size() - kSuffix.size());
    // Who forgets it has seen the pin and brings it back, or died before that.
    if (store.pins().Has(id)) continue;
    if (max_age_s > 0) {
      const absl::StatusOr<std::int64_t> since =
          ChangeTime(SnapshotPath(store.forgotten_directory(), id));
      if (absl::IsNotFound(since.status())) continue;
      if (!since.ok()) return since.status();
      if (now - *since <= max_age_s) continue;
    }
    expired.push_back(id);
  }
  return expired;
}

absl::Status PurgeForgotten(const Store& store, const std::string& id) {
  // A note that somebody wrote while it was forgotten would be of a snapshot that is missing. One
  // that is published again keeps its note, also if that is now.
  KERF_RETURN_IF_ERROR(store.SettleNote(id));
  const absl::Status status = RemoveFile(SnapshotPath(store.forgotten_directory(), id));
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return SyncDirectory(store.forgotten_directory());
}

}  // namespace kerf::agent
