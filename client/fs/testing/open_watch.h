// Sees whether anybody opens what nobody may, and swaps names at the worst time.
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/unique_fd.h"

namespace kerf::agent::testing {

// Of the kernel: also an open that fails to be used, and one by another thread. A handle (O_PATH)
// opens nothing.
class OpenWatch {
 public:
  OpenWatch() : fd_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) { KERF_CHECK(fd_.valid()); }

  // A file, a fifo, or a directory and what is in it.
  void Add(const std::string& path) {
    KERF_CHECK(inotify_add_watch(fd_.get(), path.c_str(), IN_OPEN) >= 0);
  }

  // Since the last call.
  bool WasOpened() {
    std::array<char, 4096> events;
    bool any = false;
    while (read(fd_.get(), events.data(), events.size()) > 0) any = true;
    return any;
  }

 private:
  UniqueFd fd_;
};

// Exchanges what two names stand for, again and again, from a thread of its own.
class Swapper {
 public:
  Swapper(std::string left, std::string right)
      : thread_([this, left = std::move(left), right = std::move(right)] {
          while (!stopping_) {
            KERF_CHECK(
                renameat2(AT_FDCWD, left.c_str(), AT_FDCWD, right.c_str(), RENAME_EXCHANGE) == 0);
            ++count_;
          }
        }) {}
  ~Swapper() {
    stopping_ = true;
    thread_.join();
  }
  Swapper(const Swapper&) = delete;
  Swapper& operator=(const Swapper&) = delete;

  std::size_t count() const { return count_; }

 private:
  std::atomic<bool> stopping_ = false;
  std::atomic<std::size_t> count_ = 0;
  std::thread thread_;
};

// Whether the file system of this directory can exchange names.
inline bool CanExchange(const std::string& directory) {
  const std::string left = directory + "/exchange left";
  const std::string right = directory + "/exchange right";
  for (const std::string& path : {left, right}) {
    close(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  const int result = renameat2(AT_FDCWD, left.c_str(), AT_FDCWD, right.c_str(), RENAME_EXCHANGE);
  unlink(left.c_str());
  unlink(right.c_str());
  return result == 0;
}

}  // namespace kerf::agent::testing
