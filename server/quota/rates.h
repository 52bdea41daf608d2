// What each of many has used lately of a rate of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "server/net/clock.h"
#include "server/quota/leaky_level.h"

namespace kerf {

// Levels (LeakyLevel) by key. Thread-safe.
template <typename Key, typename Order = std::less<>>
class Rates {
 public:
  // So many keys are remembered at once: where there are more, one is forgotten that has used
  // least.
  explicit Rates(std::size_t capacity) : capacity_(capacity) {}

  // 0 for a key of which nothing is known.
  template <typename AnyKey>
  double At(const AnyKey& key, double per_second, TimePoint now) const {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(key);
    return found == used_.end() ? 0 : found->second.level.At(per_second, now);
  }

  template <typename AnyKey>
  void Add(const AnyKey& key, double per_second, double amount, TimePoint now) {
    const std::lock_guard lock(mutex_);
    AddLocked(key, per_second, amount, now);
  }

  // As Add while the level is below `reserve`, which the amount may pass; else false, and nothing.
  template <typename AnyKey>
  bool TryAdd(const AnyKey& key, double per_second, double reserve, double amount, TimePoint now) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(key);
    if (found != used_.end() && found->second.level.At(per_second, now) >= reserve) return false;
    AddLocked(key, per_second, amount, now);
    return true;
  }

  // As if the key had used nothing.
  template <typename AnyKey>
  void Forget(const AnyKey& key) {
    const std::lock_guard lock(mutex_);
    if (const auto found = used_.find(key); found != used_.end()) used_.erase(found);
  }

 private:
  struct Used {
    LeakyLevel level;
    // As of when it was last used.
    double per_second = 0;
  };

  template <typename AnyKey>
  void AddLocked(const AnyKey& key, double per_second, double amount, TimePoint now) {
    auto found = used_.find(key);
    if (found == used_.end()) {
      if (used_.size() >= capacity_) MakeRoomLocked(now);
      found = used_.emplace(Key(key), Used()).first;
    }
    found->second.level.Add(per_second, amount, now);
    found->second.per_second = per_second;
  }

  // Those that have fallen back to nothing go; else the one that has used least of its second.
  void MakeRoomLocked(TimePoint now) {
    const auto seconds_of = [now](const auto& known) {
      const Used& used = known.second;
      return used.level.At(used.per_second, now) / std::max(used.per_second, 1.0);
    };
    std::erase_if(used_, [&](const auto& known) { return seconds_of(known) == 0; });
    if (used_.size() < capacity_) return;
    used_.erase(std::min_element(used_.begin(), used_.end(), [&](const auto& a, const auto& b) {
      return seconds_of(a) < seconds_of(b);
    }));
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::map<Key, Used, Order> used_;
};

}  // namespace kerf
