// Files that get the inode number of one that is gone.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/check.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/fs/incarnation.h"

namespace kerf::agent::testing {

// Of what has the path now.
inline Incarnation Incarnate(const std::string& path) {
  const Timestamp now = StampClockNow();
  const UniqueFd fd(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  KERF_CHECK(fd.valid() && fstat(fd.get(), &status) == 0);
  return IncarnationOf(fd.get(), status, now);
}

// Makes files beside `path` until one gets the number, and gives that one the path; false if none
// does, as where numbers are never given again.
inline bool MakeFileOfInode(const std::string& path, std::uint64_t inode) {
  constexpr int kMaxFiles = 2000;
  bool found = false;
  int made = 0;
  for (; made < kMaxFiles && !found; ++made) {
    const std::string name = Cat(path, ".", made);
    std::ofstream(name) << "another file";
    struct stat status{};
    KERF_CHECK(lstat(name.c_str(), &status) == 0);
    found = status.st_ino == inode;
    if (found) std::filesystem::rename(name, path);
  }
  for (int number = 0; number < made; ++number) std::filesystem::remove(Cat(path, ".", number));
  return found;
}

}  // namespace kerf::agent::testing
