// Lets whoever opens a file wait.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "base/check.h"
#include "base/unique_fd.h"

namespace kerf::e2e {

// A write lease (fcntl(2), F_SETLEASE), as file servers take them: another process that opens the
// file waits until GiveBack. Ignores SIGIO from now on, by which the kernel asks for it.
class FileLease {
 public:
  explicit FileLease(const std::string& path) : holder_(open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    KERF_CHECK(holder_.valid());
    KERF_CHECK(signal(SIGIO, SIG_IGN) != SIG_ERR);
    held_ = fcntl(holder_.get(), F_SETLEASE, F_WRLCK) == 0;
  }
  ~FileLease() { GiveBack(); }
  FileLease(const FileLease&) = delete;
  FileLease& operator=(const FileLease&) = delete;

  // False where the file system has no leases.
  bool held() const { return held_; }

  // Whether somebody waits for it.
  bool is_wanted() const { return held_ && fcntl(holder_.get(), F_GETLEASE) != F_WRLCK; }

  void GiveBack() {
    if (held_) KERF_CHECK(fcntl(holder_.get(), F_SETLEASE, F_UNLCK) == 0);
    held_ = false;
  }

 private:
  const UniqueFd holder_;
  bool held_ = false;
};

}  // namespace kerf::e2e
