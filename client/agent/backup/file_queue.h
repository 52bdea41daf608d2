// Files that wait for a lane. Each has a home, the same in every run with as many lanes, so that
// its next version meets the worker that knows this one; but no lane is idle while there is work.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
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

// One of them, for who reads ahead of the lanes.
struct AheadFile {
  // As of its node.
  std::string path;
  NodeIdentity identity;
  // Of its front: of what is behind, whoever sends it reads ahead himself.
  std::uint64_t size_bytes = 0;
};

// What is read ahead and has not been taken by a lane: files, and their bytes.
inline constexpr std::size_t kAheadFiles = 2048;
inline constexpr std::uint64_t kAheadBytes = std::uint64_t{64} << 20;
// Of one file.
inline constexpr std::uint64_t kAheadFileBytes = std::uint64_t{1} << 20;
// Fewer are not worth waking anybody up.
inline constexpr std::size_t kMinAheadFiles = 64;

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
  bool aborted();
  // Whether nothing is in it, and nothing will come.
  bool drained();

  // The next files of the lane; if there are none, of the lane that has most. Calls `idle` before
  // it waits. Empty at the end.
  Batch Pop(std::size_t lane, const std::function<void()>& idle);

  // Those that lanes will take next and that were not given here before, of all lanes by turns, as
  // far as the bounds above let it: many at once, so that they can be put in order. Waits until
  // there are some; empty at the end.
  std::vector<AheadFile> TakeAhead();

 private:
  // Of one lane.
  struct Waiting {
    std::deque<EntryWindow::Slot*> files;
    // So many at the front were given to who reads ahead.
    std::size_t ahead_count = 0;
  };

  bool HasWorkAhead() const;
  void TakeFrontAhead(Waiting& waiting, std::vector<AheadFile>& files);

  const std::size_t max_files_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable ahead_changed_;
  std::vector<Waiting> waiting_;
  std::size_t file_count_ = 0;
  // Of those that are given to who reads ahead, and still wait.
  std::size_t ahead_count_ = 0;
  std::uint64_t ahead_bytes_ = 0;
  bool closed_ = false;
  bool aborted_ = false;
};

}  // namespace kerf::agent
