// Several agents at one store, one file operation at a time, in an order that a seed decides.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/random.h"
#include "client/store/format/file_hook.h"

namespace kerf::agent {

// Before each file operation of an agent another one may come. Threads that an agent starts itself
// are not held up: what they do belongs to the turn of their agent.
class Interleave final : public FileHook {
 public:
  explicit Interleave(std::uint64_t seed) : random_(seed) { SetFileHookForTest(this); }
  ~Interleave() override { SetFileHookForTest(nullptr); }

  // Until all have ended. No agent may wait for another one but by itself looking again.
  void Run(const std::vector<std::function<void()>>& agents) {
    is_live_.assign(agents.size(), true);
    weights_.clear();
    for (std::size_t index = 0; index < agents.size(); ++index) {
      weights_.push_back(std::uint64_t{1} << random_.Below(kMaxWeightBits));
    }
    PassOn();
    std::vector<std::jthread> threads;
    threads.reserve(agents.size());
    for (std::size_t index = 0; index < agents.size(); ++index) {
      threads.emplace_back([this, index, &agent = agents[index]] {
        agent_index_ = index;
        WaitForTurn();
        agent();
        const std::lock_guard lock(mutex_);
        is_live_[index] = false;
        PassOn();
      });
    }
  }

  absl::Status Before(const FileOperation& /*operation*/) override {
    if (!agent_index_.has_value()) return absl::OkStatus();
    {
      const std::lock_guard lock(mutex_);
      PassOn();
    }
    WaitForTurn();
    return absl::OkStatus();
  }

 private:
  void WaitForTurn() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return turn_ == *agent_index_; });
  }

  // To any of those that are left, the one that has it included.
  void PassOn() {
    std::uint64_t sum = 0;
    for (std::size_t index = 0; index < is_live_.size(); ++index) {
      if (is_live_[index]) sum += weights_[index];
    }
    if (sum == 0) return;
    std::uint64_t chosen = random_.Below(sum);
    for (std::size_t index = 0; index < is_live_.size(); ++index) {
      if (!is_live_[index]) continue;
      turn_ = index;
      if (chosen < weights_[index]) break;
      chosen -= weights_[index];
    }
    changed_.notify_all();
  }

  // Some are faster than others, else those with little to do would always be done first.
  static constexpr std::uint64_t kMaxWeightBits = 7;

  // Of the thread; none: of no agent.
  static inline thread_local std::optional<std::size_t> agent_index_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Random random_;
  std::vector<bool> is_live_;
  std::vector<std::uint64_t> weights_;
  std::size_t turn_ = 0;
};

}  // namespace kerf::agent
