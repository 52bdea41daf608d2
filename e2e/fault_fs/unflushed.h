// What was written to files and may still be lost with an error that is told later, by close or
// fsync: as by a file server that takes bytes and finds no room for them.
#pragma once

#include <sys/types.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace kerf::fault_fs {

// Beside a file system. Thread-safe.
class Unflushed {
 public:
  void Wrote(int file, off_t offset, off_t length_bytes);
  // Its close or fsync went well: from now on what was written stays.
  void Kept(int file);
  // What was written since then reads as zeros; sizes stay.
  void Drop(int file);

 private:
  using Inode = std::pair<dev_t, ino_t>;
  struct Range {
    off_t begin = 0;
    off_t end = 0;
  };

  std::mutex mutex_;
  std::map<Inode, std::vector<Range>> written_;
};

}  // namespace kerf::fault_fs
