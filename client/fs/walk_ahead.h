// Looks into directories ahead of a walk, where they have to be read from a disk.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace kerf::agent {

// Threads that list directories and look at what is in them, so that the kernel has it all in
// memory when the walk comes to it. Hints: the walk finds the same with or without. Each thread
// holds two descriptors at a time, and none leaves the file system that it is sent into. Everything
// public is for the thread that walks.
class WalkAhead {
 public:
  explicit WalkAhead(unsigned thread_count);
  // What nobody has begun is dropped, and what is begun ended at the next name.
  ~WalkAhead();
  WalkAhead(const WalkAhead&) = delete;
  WalkAhead& operator=(const WalkAhead&) = delete;

  // Directories that wait, at most. The walk comes to others later than to those that will be
  // offered meanwhile.
  static constexpr std::size_t kMaxWaiting = 1024;

  // A directory to look into.
  struct Directory {
    // As of its node.
    std::string path;
    // The one that the walk is on.
    std::uint64_t device = 0;
  };
  // False while this thread, and those here, have found everything in memory lately: then looking
  // ahead would only cost time.
  bool IsCold();
  // The walk has come to `position` and will come to these next, in this order.
  void Offer(const std::string& position, std::vector<Directory> directories);

  // Directories that were looked into.
  std::uint64_t looked_count() const;
  // What was looked at in them.
  std::uint64_t name_count() const { return name_count_; }

  // As at the end of its life. Nothing is looked into afterwards.
  void Stop();

 private:
  void Run();
  bool Next(Directory& directory);
  void LookInto(const Directory& directory);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // The first is the one that the walk comes to first.
  std::deque<Directory> waiting_;
  std::string position_;
  // Set under the mutex.
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> name_count_ = 0;
  std::uint64_t looked_count_ = 0;
  // What these threads had to have read.
  bool have_read_ = false;

  // Of the thread that walks.
  unsigned thread_count_;
  long reads_before_ = 0;
  unsigned cold_left_ = 0;

  // None before the first Offer.
  std::vector<std::thread> threads_;
};

}  // namespace kerf::agent
