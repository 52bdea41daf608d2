#include "server/lock_watch.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/file_lock.h"
#include "base/strings.h"

namespace kerf {
namespace {

// Nobody is told of a lock that becomes free but one who waits for it, and whoever waits so cannot
// be told to end.
constexpr std::chrono::milliseconds kLockPoll{50};

}  // namespace

absl::StatusOr<std::unique_ptr<LockWatch>> LockWatch::Start(const std::string& path,
                                                            std::function<void()> on_free) {
  UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file.valid()) {
    return absl::ErrnoToStatus(errno, ToAbsl(Cat("cannot open --while-locked ", path)));
  }
  return std::unique_ptr<LockWatch>(new LockWatch(std::move(file), std::move(on_free)));
}

LockWatch::LockWatch(UniqueFd file, std::function<void()> on_free)
    : file_(std::move(file)), on_free_(std::move(on_free)), thread_([this] { Run(); }) {}

LockWatch::~LockWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
  // The system closes it.
  if (has_it_) file_.Release();
}

void LockWatch::Run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    // One that cannot be looked at is held: kerfd goes on.
    if (TryLock(file_.get(), LOCK_EX).value_or(false)) {
      has_it_ = true;
      lock.unlock();
      on_free_();
      return;
    }
    changed_.wait_for(lock, kLockPoll);
  }
}

}  // namespace kerf
