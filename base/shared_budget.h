// A budget of which everybody who uses it may have as much as any other: one who takes all that
// there is leaves the others theirs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/memory_budget.h"

namespace kerf {

// For what has arrived before anybody could say no, such as messages: it is always taken, and
// whoever has too much takes nothing more until some of it is worked off. Thread-safe. Must outlive
// its shares.
class SharedBudget {
 public:
  explicit SharedBudget(std::size_t limit_bytes) : total_(limit_bytes) {}
  SharedBudget(const SharedBudget&) = delete;
  SharedBudget& operator=(const SharedBudget&) = delete;

  // What one user has of it, over all that he does. Thread-safe.
  class Share {
   public:
    explicit Share(SharedBudget* budget) : budget_(*budget) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    void Take(std::size_t bytes);
    void GiveBack(std::size_t bytes);
    // His part of the limit: that is the limit divided by the number of those who have anything
    // now, and him.
    std::size_t part_bytes() const;
    // Whether he has less than his part. As somebody who comes lessens what is others' already, and
    // each takes what has arrived for him, all together may have more. From half as much again on
    // only who has less than half of his part may grow, so that all of those together add no more
    // than half of the limit.
    bool MayGrow() const;
    std::size_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }

   private:
    SharedBudget& budget_;
    std::atomic<std::size_t> used_bytes_{0};
  };

  // Of the user of this number: one and the same as long as anybody holds it.
  std::shared_ptr<Share> ShareOf(std::uint64_t number);

  const MemoryBudget& total() const { return total_; }

 private:
  MemoryBudget total_;
  // Shares that have anything.
  std::atomic<std::size_t> active_count_{0};
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::weak_ptr<Share>> shares_;
};

}  // namespace kerf
