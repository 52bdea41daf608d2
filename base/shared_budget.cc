#include "base/shared_budget.h"

#include <algorithm>

#include "base/check.h"

namespace kerf {

void SharedBudget::Share::Take(std::size_t bytes) {
  if (bytes == 0) return;
  // Each time that it leaves nothing, and each time that it comes back there, is seen by one
  // thread.
  if (used_bytes_.fetch_add(bytes) == 0) budget_.active_count_.fetch_add(1);
  budget_.total_.ForceReserve(bytes);
}

void SharedBudget::Share::GiveBack(std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t before = used_bytes_.fetch_sub(bytes);
  KERF_CHECK(before >= bytes);
  if (before == bytes) budget_.active_count_.fetch_sub(1);
  budget_.total_.Release(bytes);
}

std::size_t SharedBudget::Share::part_bytes() const {
  const std::size_t users = budget_.active_count_.load() + (used_bytes_.load() == 0 ? 1 : 0);
  return budget_.total_.limit_bytes() / std::max<std::size_t>(users, 1);
}

bool SharedBudget::Share::MayGrow() const {
  const std::size_t used = used_bytes_.load();
  const std::size_t limit = budget_.total_.limit_bytes();
  const std::size_t part = part_bytes();
  const bool is_crowded = budget_.total_.used_bytes() >= limit + limit / 2;
  return used < (is_crowded ? part / 2 : part);
}

std::shared_ptr<SharedBudget::Share> SharedBudget::ShareOf(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<Share>& known = shares_[number];
  std::shared_ptr<Share> share = known.lock();
  if (share == nullptr) {
    share = std::shared_ptr<Share>(new Share(this), [this, number](Share* last) {
      delete last;
      const std::lock_guard forget(mutex_);
      // Unless somebody has come in between.
      const auto found = shares_.find(number);
      if (found != shares_.end() && found->second.expired()) shares_.erase(found);
    });
    known = share;
  }
  return share;
}

}  // namespace kerf
