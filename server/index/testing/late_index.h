// An index that answers when it likes, from a thread of its own: what a network does to calls.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/random.h"
#include "server/index/async_index.h"

namespace kerf {

// Carries each call out a while after it was made, in any order, and one in eight at once.
// Thread-safe.
class LateIndex final : public AsyncIndex {
 public:
  // `index` outlives it.
  LateIndex(Index* index, std::uint64_t seed) : inline_(index), random_(seed) {
    thread_ = std::thread([this] { Work(); });
  }
  // Everything is answered then.
  ~LateIndex() override { Close(); }

  void Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
              std::span<const Digest> digests, std::span<LookupResult> results,
              Done done) override {
    Take([=, this, &repository, done = std::move(done)] {
      inline_.Lookup(repository, session_epoch, digests, results, done);
    });
  }
  void Commit(const RepositoryId& repository, std::uint64_t session_epoch,
              std::span<const IndexEntry> entries, bool replace, Done done) override {
    Take([=, this, &repository, done = std::move(done)] {
      inline_.Commit(repository, session_epoch, entries, replace, done);
    });
  }
  void Forget(const RepositoryId& repository, std::span<const IndexEntry> entries,
              Done done) override {
    Take([=, this, &repository, done = std::move(done)] {
      inline_.Forget(repository, entries, done);
    });
  }

  // While it is held back nothing is answered.
  void HoldBack(bool held) {
    const std::lock_guard lock(mutex_);
    is_held_ = held;
    changed_.notify_all();
  }
  // Returns when all is answered; from now on every call is answered before it returns.
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

 private:
  void Take(std::function<void()> call) {
    {
      const std::lock_guard lock(mutex_);
      if (is_held_ || (!is_closed_ && !random_.OneIn(8))) {
        calls_.push_back(std::move(call));
        changed_.notify_all();
        return;
      }
    }
    call();
  }

  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return (!calls_.empty() && !is_held_) || is_closed_; });
      if (calls_.empty()) return;
      const auto at = calls_.begin() + static_cast<std::ptrdiff_t>(random_.Below(calls_.size()));
      const std::function<void()> call = std::move(*at);
      calls_.erase(at);
      lock.unlock();
      call();
      lock.lock();
    }
  }

  InlineIndex inline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Random random_;
  std::deque<std::function<void()>> calls_;
  bool is_held_ = false;
  bool is_closed_ = false;
  std::thread thread_;
};

}  // namespace kerf
