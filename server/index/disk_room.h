// Room on the disk that an embedded index lies on. A database that finds none in the middle of
// being opened, or of being sorted, cannot be used at all: whoever opens one looks first.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/units.h"

namespace kerf {

// With less on its disk kerfd writes nothing more there that it can do without: what it has must
// still be sorted and merged.
inline constexpr std::uint64_t kMinFreeDiskBytes = 128 * kMiB;

struct DiskState {
  std::uint64_t free_bytes = 0;
  bool is_read_only = false;
};

// What the file system of `folder` says of itself.
absl::StatusOr<DiskState> ReadDisk(const std::string& folder);

// Whether `bytes` can be written in `folder` now, of whatever it is that would forbid it (a full
// disk, a quota, a limit, a disk that fails, too many open files): makes a file of that size, waits
// for the disk, and removes it. ResourceExhausted: there is not that much room. NotFound: there is
// no such folder. Unavailable: all else.
absl::Status ProbeDisk(const std::string& folder, std::uint64_t bytes);

// A file that holds room for somebody who may need it when there is none left. Not thread-safe.
class DiskReserve {
 public:
  DiskReserve(std::string path, std::uint64_t bytes) : path_(std::move(path)), bytes_(bytes) {}

  // Whether it is there, all of it.
  bool is_held() const;
  // Makes it if it is not there; the same errors as of ProbeDisk.
  absl::Status Hold() const;
  // Gives the room up.
  void Free() const;

 private:
  const std::string path_;
  const std::uint64_t bytes_;
};

}  // namespace kerf
