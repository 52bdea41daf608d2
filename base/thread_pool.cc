#include "base/thread_pool.h"

#include <utility>

#include "base/check.h"

namespace kerf {

ThreadPool::ThreadPool(std::size_t thread_count) {
  KERF_CHECK(thread_count > 0);
  threads_.reserve(thread_count);
  for (std::size_t index = 0; index < thread_count; ++index) {
    threads_.emplace_back([this] { Work(); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wakeup_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Post(std::uint64_t share, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    std::deque<std::function<void()>>& tasks = tasks_[share];
    if (tasks.empty()) turns_.push_back(share);
    tasks.push_back(std::move(task));
  }
  wakeup_.notify_one();
}

bool ThreadPool::is_wanted() const {
  const std::lock_guard lock(mutex_);
  return !turns_.empty();
}

std::function<void()> ThreadPool::TakeLocked() {
  const auto found = tasks_.find(turns_.front());
  turns_.pop_front();
  std::function<void()> task = std::move(found->second.front());
  found->second.pop_front();
  if (!found->second.empty()) {
    turns_.push_back(found->first);
  } else if (tasks_.size() > kKeptShares) {
    tasks_.erase(found);
  }
  return task;
}

void ThreadPool::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wakeup_.wait(lock, [this] { return stopping_ || !turns_.empty(); });
    if (turns_.empty()) return;
    std::function<void()> task = TakeLocked();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace kerf
