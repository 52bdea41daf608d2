// The threads that cut and hash.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace kerf {

// Runs tasks on a fixed number of threads: those of one share in the order in which they are
// posted, and shares that have some in turn, however many each has. Thread-safe.
class ThreadPool {
 public:
  // Of what nobody in particular has posted.
  static constexpr std::uint64_t kNobodysShare = 0;

  explicit ThreadPool(std::size_t thread_count);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  // Runs what is posted, also what those tasks post, then joins.
  ~ThreadPool();

  void Post(std::function<void()> task) { Post(kNobodysShare, std::move(task)); }
  void Post(std::uint64_t share, std::function<void()> task);

  // Whether anything waits for a thread.
  bool is_wanted() const;

  std::size_t thread_count() const { return threads_.size(); }

 private:
  void Work();
  // Of the share whose turn it is.
  std::function<void()> TakeLocked();

  mutable std::mutex mutex_;
  std::condition_variable wakeup_;
  // Of shares that have some, in turns_ each of them once, the next one first; and of others, whose
  // empty queues are kept for their next task.
  static constexpr std::size_t kKeptShares = 1024;
  absl::flat_hash_map<std::uint64_t, std::deque<std::function<void()>>> tasks_;
  std::deque<std::uint64_t> turns_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kerf
