// An index that answers when it likes, from a thread of its own: what a network does to calls.
#pragma once

#include <condition_variable>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/task.h"
#include "server/index/forwarding_index.h"

namespace kerf {

// Carries each lookup, commit and forget out a while after it was asked, in any order, and one in
// eight at once. Thread-safe.
class LateIndex final : public ForwardingIndex {
 public:
  // `index` outlives it.
  LateIndex(Index* index, std::uint64_t seed) : ForwardingIndex(index), random_(seed) {
    thread_ = std::thread([this] { Work(); });
  }
  // Everything is answered then.
  ~LateIndex() override { Close(); }

  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    Delay delay(this);
    co_await delay;
    co_return co_await ForwardingIndex::Lookup(repository, session_epoch, digests, results);
  }
  Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override {
    Delay delay(this);
    co_await delay;
    co_return co_await ForwardingIndex::Commit(repository, session_epoch, entries, replace);
  }
  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                            std::span<const IndexEntry> entries) override {
    Delay delay(this);
    co_await delay;
    co_return co_await ForwardingIndex::Forget(repository, entries);
  }

  // While it is held back nothing is answered.
  void HoldBack(bool held) {
    const std::lock_guard lock(mutex_);
    is_held_ = held;
    changed_.notify_all();
  }
  // Returns when all is answered; from now on every call is answered at once.
  void Close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
      is_held_ = false;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }
  // Until so many calls wait.
  void WaitForCalls(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return calls_.size() >= count; });
  }
  // Until none waits.
  void WaitUntilIdle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return calls_.empty(); });
  }
  std::size_t waiting_count() {
    const std::lock_guard lock(mutex_);
    return calls_.size();
  }
  // In which it answers.
  std::thread::id thread_id() const { return thread_.get_id(); }

 private:
  // Awaited, it goes on in the index's thread.
  class Delay {
   public:
    explicit Delay(LateIndex* index) : index_(*index) {}
    bool await_ready() const { return false; }
    bool await_suspend(std::coroutine_handle<> awaiter) {
      const std::lock_guard lock(index_.mutex_);
      if (!index_.is_held_ && (index_.is_closed_ || index_.random_.OneIn(8))) return false;
      index_.calls_.push_back(awaiter);
      index_.changed_.notify_all();
      return true;
    }
    void await_resume() const {}

   private:
    LateIndex& index_;
  };

  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return (!calls_.empty() && !is_held_) || is_closed_; });
      if (calls_.empty()) return;
      const auto at = calls_.begin() + static_cast<std::ptrdiff_t>(random_.Below(calls_.size()));
      const std::coroutine_handle<> call = *at;
      calls_.erase(at);
      changed_.notify_all();
      lock.unlock();
      call.resume();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Random random_;
  std::deque<std::coroutine_handle<>> calls_;
  bool is_held_ = false;
  bool is_closed_ = false;
  std::thread thread_;
};

}  // namespace kerf
