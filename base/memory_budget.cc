#include "base/memory_budget.h"

#include "base/check.h"

namespace kerf {

bool MemoryBudget::TryReserve(std::size_t bytes) {
  std::size_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    if (used > limit_bytes_ || bytes > limit_bytes_ - used) {
      is_short_.store(true, std::memory_order_relaxed);
      return false;
    }
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_seq_cst));
  NotePeak(used + bytes);
  return true;
}

bool MemoryBudget::HasRoomFor(std::size_t bytes) {
  const std::size_t used = used_bytes();
  if (used <= limit_bytes_ && bytes <= limit_bytes_ - used) return true;
  is_short_.store(true, std::memory_order_relaxed);
  return false;
}

void MemoryBudget::ForceReserve(std::size_t bytes) {
  NotePeak(used_bytes_.fetch_add(bytes, std::memory_order_seq_cst) + bytes);
}

void MemoryBudget::NotePeak(std::size_t used_bytes) {
  std::size_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (used_bytes > peak &&
         !peak_bytes_.compare_exchange_weak(peak, used_bytes, std::memory_order_relaxed)) {
  }
}

void MemoryBudget::Release(std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t before = used_bytes_.fetch_sub(bytes, std::memory_order_seq_cst);
  KERF_CHECK(before >= bytes);
  // Sequential consistency: either this sees the waiter, or the waiter's second try sees the
  // memory.
  if (!has_waiters_.load(std::memory_order_seq_cst)) return;
  std::vector<std::function<void()>> waiters;
  {
    const std::lock_guard lock(mutex_);
    waiters.swap(waiters_);
    has_waiters_.store(false, std::memory_order_seq_cst);
  }
  for (const auto& wake : waiters) wake();
}

void MemoryBudget::WakeOnRelease(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  waiters_.push_back(std::move(wake));
  has_waiters_.store(true, std::memory_order_seq_cst);
}

bool Reservation::Set(std::size_t bytes) {
  if (bytes > bytes_) {
    if (!budget_->TryReserve(bytes - bytes_)) return false;
  } else {
    budget_->Release(bytes_ - bytes);
  }
  bytes_ = bytes;
  return true;
}

void Reservation::Force(std::size_t bytes) {
  if (bytes > bytes_) {
    budget_->ForceReserve(bytes - bytes_);
  } else {
    budget_->Release(bytes_ - bytes);
  }
  bytes_ = bytes;
}

}  // namespace kerf
