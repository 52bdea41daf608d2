// What a power cut would take: the names and bytes that nobody has synced.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/random.h"
#include "base/unique_fd.h"

namespace kerf::fault_fs {

// Beside a file system whose root is the working directory. It is told of each change before that
// is made, and keeps what the disk would still have, as links and copies in a folder of the same
// file system. Assumed of the disk: what fsync of a file has taken stays, its name does so after an
// fsync of its folder; until then each name and each file may be as before or as after, and the
// bytes of a file also zeros, or cut short. Modes, times and attributes count as synced, and so do
// directories that are renamed or removed. Thread-safe.
class Unsynced {
 public:
  // `folder` is an empty one.
  explicit Unsynced(std::string folder) : folder_(std::move(folder)) {}

  // Whether it takes notes; what was noted is forgotten.
  void Track(bool on);

  // What is to become of a name: it will be made, or made anew.
  void BeforeName(const char* path);
  // As BeforeName of both; of directories nothing is noted.
  void BeforeRename(const char* from, const char* to);
  // A file was made: its bytes are not on the disk, for it has none there.
  void AfterCreate(int file);
  void BeforeWrite(int file);
  void Synced(int file);
  void SyncedDirectory(int directory);

  // The power goes: nobody may have a file open. How many names and files are not as they were.
  absl::StatusOr<int> Cut(std::uint64_t seed);

 private:
  using Inode = std::pair<dev_t, ino_t>;

  // Files of which bytes are not on the disk.
  struct File {
    UniqueFd place;
    // What the disk has; empty: nothing.
    std::string copy;
  };

  struct Directory {
    UniqueFd place;
    // What the disk has under the name: a link, or empty: nothing.
    std::map<std::string, std::string> names;
  };

  std::string NewPath();
  Directory* Open(const std::string& directory);
  // How many changed; nothing if that cannot be done.
  static std::optional<int> CutNames(Directory& directory, Random& random, std::uint64_t keep_in_4);
  static std::optional<int> CutBytes(File& file, Random& random);
  void Forget();

  const std::string folder_;
  std::atomic<bool> is_on_{false};
  std::mutex mutex_;
  std::uint64_t next_ = 0;
  std::map<Inode, File> files_;
  std::map<Inode, Directory> directories_;
};

}  // namespace kerf::fault_fs
