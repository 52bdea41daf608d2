// Files that wait for a lane. Each has a home, the same in every run with as many lanes, so that
// its next version meets the worker that knows this one; but no lane is idle while there is work.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

#include "client/agent/backup/entry_window.h"

namespace kerf::agent {

// Files that a lane takes from the queue at once, and their bytes: neighbours stay together in
// packs.
inline constexpr std::size_t kBatchFiles = 64;
inline constexpr std::uint64_t kBatchBytes = std::uint64_t{4} << 20;

// What a file's home hangs on: large ones stand for themselves, small ones for their folder, so
// that neighbours stay together.
std::uint64_t HomeHash(std::string_view path, std::uint64_t size_bytes);

// Thread-safe.
class FileQueue {
 public:
  using Batch = std::vector<EntryWindow::Slot*>;

  // Holds at most `max_files`.
  explicit FileQueue(std::size_t max_files) : max_files_(max_files), waiting_(1) {}

  // Before the first Push. At least 1.
  void SetLaneCount(std::size_t count) { waiting_.resize(count); }

  // Waits while it is full. False once the queue was aborted.
  bool Push(EntryWindow::Slot* slot);
  void Close();
  void Abort();
  // Whether nothing is in it, and nothing will come.
  bool drained();

  // The next files of the lane; if there are none, of the lane that has most. Calls `idle` before
  // it waits. Empty at the end.
  Batch Pop(std::size_t lane, const std::function<void()>& idle);

 private:
  const std::size_t max_files_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Of each lane.
  std::vector<std::deque<EntryWindow::Slot*>> waiting_;
  std::size_t file_count_ = 0;
  bool closed_ = false;
  bool aborted_ = false;
};

}  // namespace kerf::agent
