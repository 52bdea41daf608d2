// Looks again and again at what others may change at any time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"

namespace kerf {

// Content is compared with ==. Reads and tells in a thread of its own, until it is destroyed, and
// in those that call LookNow: one at a time.
template <typename Content>
class ContentWatch {
 public:
  using Read = std::function<absl::StatusOr<Content>()>;
  // Told of each content, or error, that is not what it was told of before: once two looks have
  // seen the same. Whoever writes several files writes one after the other, and a long one in
  // pieces, of which the first may make sense, too.
  using OnChange = std::function<void(const absl::StatusOr<Content>& content)>;

  // `first` is what its owner has seen already.
  ContentWatch(Read read, absl::StatusOr<Content> first, OnChange on_change,
               std::chrono::milliseconds interval)
      : read_(std::move(read)),
        on_change_(std::move(on_change)),
        seen_(first),
        told_(std::move(first)),
        thread_([this, interval](const std::stop_token& stop) { Run(stop, interval); }) {}
  ContentWatch(const ContentWatch&) = delete;
  ContentWatch& operator=(const ContentWatch&) = delete;

  // For those who say that all is written: what stands there now is told of before this returns,
  // without a second look. Thread-safe; not once it is being destroyed.
  void LookNow() {
    const std::lock_guard lock(look_mutex_);
    seen_ = read_();
    TellLocked();
  }

 private:
  static bool IsSame(const absl::StatusOr<Content>& one, const absl::StatusOr<Content>& other) {
    return one.status() == other.status() && (!one.ok() || *one == *other);
  }

  void Run(const std::stop_token& stop, std::chrono::milliseconds interval) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    while (true) {
      stopped.wait_for(lock, stop, interval, [] { return false; });
      if (stop.stop_requested()) return;
      Look();
    }
  }

  void Look() {
    const std::lock_guard lock(look_mutex_);
    absl::StatusOr<Content> content = read_();
    if (!IsSame(content, seen_)) {
      seen_ = std::move(content);
      return;
    }
    TellLocked();
  }

  void TellLocked() {
    if (IsSame(seen_, told_)) return;
    told_ = seen_;
    on_change_(told_);
  }

  const Read read_;
  const OnChange on_change_;
  // Held while it is read and told, for which readers need not be thread-safe.
  std::mutex look_mutex_;
  absl::StatusOr<Content> seen_;
  absl::StatusOr<Content> told_;
  // Last: it uses all of them.
  std::jthread thread_;
};

}  // namespace kerf
