// How much memory the streams of this process may hold together.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace kerf {

// Thread-safe. Must outlive every reservation.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // False, and nothing is taken, if it would pass the limit.
  bool TryReserve(std::size_t bytes);
  // For what is there already, such as a message that has arrived; may pass the limit.
  void ForceReserve(std::size_t bytes);
  void Release(std::size_t bytes);

  // Whether `bytes` would fit now.
  bool HasRoomFor(std::size_t bytes);
  // Whether TryReserve or HasRoomFor has said no since the last call.
  bool TakeShortage() { return is_short_.exchange(false, std::memory_order_relaxed); }

  // Calls `wake` once, from the thread of a later Release. Try again after it and also directly
  // after this call: memory may have come back in between.
  void WakeOnRelease(std::function<void()> wake);

  bool is_exhausted() const { return used_bytes() >= limit_bytes_; }
  std::size_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  // The most that was ever used at once.
  std::size_t peak_bytes() const { return peak_bytes_.load(std::memory_order_relaxed); }
  std::size_t limit_bytes() const { return limit_bytes_; }

 private:
  void NotePeak(std::size_t used_bytes);

  const std::size_t limit_bytes_;
  std::atomic<std::size_t> used_bytes_{0};
  std::atomic<std::size_t> peak_bytes_{0};
  std::atomic<bool> has_waiters_{false};
  std::atomic<bool> is_short_{false};
  std::mutex mutex_;
  std::vector<std::function<void()>> waiters_;
};

// A part of a budget that goes back by itself. Not thread-safe.
class Reservation {
 public:
  explicit Reservation(MemoryBudget* budget) : budget_(budget) {}
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() { Set(0); }

  // Grows or shrinks it to `bytes`. False, and nothing changes, if the budget has no room.
  bool Set(std::size_t bytes);
  // Grows or shrinks it to `bytes` whether the budget has room or not: for what is there already.
  void Force(std::size_t bytes);
  std::size_t bytes() const { return bytes_; }

 private:
  MemoryBudget* const budget_;
  std::size_t bytes_ = 0;
};

}  // namespace kerf
