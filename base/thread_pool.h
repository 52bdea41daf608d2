// The threads that cut and hash.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kerf {

// Runs tasks in the order in which they are posted, on a fixed number of threads. Thread-safe.
class ThreadPool {
 public:
  explicit ThreadPool(std::size_t thread_count);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  // Runs what is posted, also what those tasks post, then joins.
  ~ThreadPool();

  void Post(std::function<void()> task);

  std::size_t thread_count() const { return threads_.size(); }

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable wakeup_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kerf
