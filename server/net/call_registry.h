// The calls that a process has under way: a place for each, and who gives up his for another one.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "server/net/clock.h"

namespace kerf {

// Thread-safe. A call's lock is taken inside the registry's, never the other way.
//
// A Call has, thread-safe each:
//   bool CheckTime(TimePoint now);  // whether it has ended the call, whose peer is too slow
//   std::chrono::nanoseconds IdleTime(TimePoint now) const;  // 0 unless it is idle
//   bool EvictIfIdle(TimePoint now, std::chrono::nanoseconds idle_time);  // whether it has
//   void Drain(std::chrono::milliseconds drain);
//   void Fail(const absl::Status& status);
// Each kind of calls has places of its own. Calls of the kind 0 are streams: these alone are ever
// idle, and make room.
template <typename Call, std::size_t kKindCount = 1>
class CallRegistry {
 public:
  // By kind.
  using Counts = std::array<std::size_t, kKindCount>;

  static constexpr std::size_t kStreams = 0;
  // Streams that were ended for others and are not gone yet: this many may be open beyond the
  // limit.
  static constexpr std::size_t kMaxEvicted = 64;
  // If nobody is idle for long enough, that holds for a moment: looking costs a lock of each call.
  static constexpr std::chrono::milliseconds kEvictPause{100};

  struct Limits {
    // At once.
    Counts max_calls{};
    // After which an idle stream may have to make room for another one.
    std::chrono::milliseconds idle_evict{0};
  };
  enum class Entry : std::uint8_t { kEntered, kDraining, kFull };

  explicit CallRegistry(const Limits& limits) : limits_(limits) {}
  CallRegistry(const CallRegistry&) = delete;
  CallRegistry& operator=(const CallRegistry&) = delete;

  // A place for one call, kept until Leave. If there is none for a stream, the one that is idle for
  // longest is ended and the new one has its place.
  Entry Enter(std::size_t kind, TimePoint now);
  // Whoever has entered is added, and leaves.
  void Add(std::shared_ptr<Call> call);
  void Leave(const Call* call, std::size_t kind);

  // Ends the stream that is idle for longest of those that `is_meant` names; false: none is idle
  // for long enough.
  template <typename IsMeant>
  bool EvictIdle(TimePoint now, const IsMeant& is_meant);
  // How many calls it ended.
  std::size_t CheckTime(TimePoint now);
  // New calls are refused from here on; open ones are told.
  void Drain(std::chrono::milliseconds drain);
  void FailAll(const absl::Status& status);

  std::vector<std::shared_ptr<Call>> Snapshot() const;
  const Limits& limits() const { return limits_; }
  // Those that have a place.
  std::size_t count(std::size_t kind) const;
  bool is_draining() const;
  // Streams that were ended for others by Enter and EvictIdle, since the start.
  std::uint64_t evicted_count() const;

 private:
  // Null: nobody is idle for long enough.
  template <typename IsMeant>
  Call* FindIdlestLocked(TimePoint now, const IsMeant& is_meant) const;
  bool EvictLocked(Call* call, TimePoint now);
  bool MakeRoomLocked(TimePoint now);
  bool MayEvictLocked(TimePoint now) const {
    return evicted_.size() < kMaxEvicted && now >= next_look_;
  }

  const Limits limits_;
  mutable std::mutex mutex_;
  Counts entered_counts_{};
  bool is_draining_ = false;
  std::chrono::milliseconds drain_{0};
  absl::flat_hash_map<const Call*, std::shared_ptr<Call>> calls_;
  // Ended for others and not gone yet.
  absl::flat_hash_set<const Call*> evicted_;
  std::uint64_t evicted_count_ = 0;
  TimePoint next_look_;
};

template <typename Call, std::size_t kKindCount>
auto CallRegistry<Call, kKindCount>::Enter(std::size_t kind, TimePoint now) -> Entry {
  const std::lock_guard lock(mutex_);
  if (is_draining_) return Entry::kDraining;
  // Those that were evicted are as good as gone.
  const std::size_t count = entered_counts_[kind] - (kind == kStreams ? evicted_.size() : 0);
  if (count >= limits_.max_calls[kind] && !(kind == kStreams && MakeRoomLocked(now))) {
    return Entry::kFull;
  }
  ++entered_counts_[kind];
  return Entry::kEntered;
}

template <typename Call, std::size_t kKindCount>
void CallRegistry<Call, kKindCount>::Add(std::shared_ptr<Call> call) {
  std::optional<std::chrono::milliseconds> drain;
  {
    const std::lock_guard lock(mutex_);
    // A drain may have come between Enter and here.
    if (is_draining_) drain = drain_;
    calls_[call.get()] = call;
  }
  if (drain.has_value()) call->Drain(*drain);
}

template <typename Call, std::size_t kKindCount>
void CallRegistry<Call, kKindCount>::Leave(const Call* call, std::size_t kind) {
  // Dropped without the lock: it may be the last that holds the call.
  std::shared_ptr<Call> left;
  const std::lock_guard lock(mutex_);
  --entered_counts_[kind];
  evicted_.erase(call);
  if (const auto found = calls_.find(call); found != calls_.end()) {
    left = std::move(found->second);
    calls_.erase(found);
  }
}

template <typename Call, std::size_t kKindCount>
template <typename IsMeant>
Call* CallRegistry<Call, kKindCount>::FindIdlestLocked(TimePoint now,
                                                       const IsMeant& is_meant) const {
  Call* idlest = nullptr;
  std::chrono::nanoseconds idlest_time = limits_.idle_evict;
  for (const auto& [key, call] : calls_) {
    if (!is_meant(*call)) continue;
    const std::chrono::nanoseconds idle_time = call->IdleTime(now);
    if (idle_time < idlest_time) continue;
    idlest = call.get();
    idlest_time = idle_time;
  }
  return idlest;
}

template <typename Call, std::size_t kKindCount>
bool CallRegistry<Call, kKindCount>::EvictLocked(Call* call, TimePoint now) {
  if (!call->EvictIfIdle(now, limits_.idle_evict)) return false;
  evicted_.insert(call);
  ++evicted_count_;
  return true;
}

template <typename Call, std::size_t kKindCount>
bool CallRegistry<Call, kKindCount>::MakeRoomLocked(TimePoint now) {
  if (!MayEvictLocked(now)) return false;
  Call* const idlest = FindIdlestLocked(now, [](const Call&) { return true; });
  if (idlest != nullptr) return EvictLocked(idlest, now);
  next_look_ = now + kEvictPause;
  return false;
}

template <typename Call, std::size_t kKindCount>
template <typename IsMeant>
bool CallRegistry<Call, kKindCount>::EvictIdle(TimePoint now, const IsMeant& is_meant) {
  const std::lock_guard lock(mutex_);
  if (!MayEvictLocked(now)) return false;
  // If there is none, one may be of those that were not meant: no pause.
  Call* const idlest = FindIdlestLocked(now, is_meant);
  return idlest != nullptr && EvictLocked(idlest, now);
}

template <typename Call, std::size_t kKindCount>
std::vector<std::shared_ptr<Call>> CallRegistry<Call, kKindCount>::Snapshot() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Call>> calls;
  calls.reserve(calls_.size());
  for (const auto& [key, call] : calls_) calls.push_back(call);
  return calls;
}

template <typename Call, std::size_t kKindCount>
std::size_t CallRegistry<Call, kKindCount>::CheckTime(TimePoint now) {
  std::size_t ended_count = 0;
  for (const auto& call : Snapshot()) ended_count += call->CheckTime(now) ? 1 : 0;
  return ended_count;
}

template <typename Call, std::size_t kKindCount>
void CallRegistry<Call, kKindCount>::Drain(std::chrono::milliseconds drain) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_draining_, true)) return;
    drain_ = drain;
  }
  for (const auto& call : Snapshot()) call->Drain(drain);
}

template <typename Call, std::size_t kKindCount>
void CallRegistry<Call, kKindCount>::FailAll(const absl::Status& status) {
  for (const auto& call : Snapshot()) call->Fail(status);
}

template <typename Call, std::size_t kKindCount>
std::size_t CallRegistry<Call, kKindCount>::count(std::size_t kind) const {
  const std::lock_guard lock(mutex_);
  return entered_counts_[kind];
}

template <typename Call, std::size_t kKindCount>
bool CallRegistry<Call, kKindCount>::is_draining() const {
  const std::lock_guard lock(mutex_);
  return is_draining_;
}

template <typename Call, std::size_t kKindCount>
std::uint64_t CallRegistry<Call, kKindCount>::evicted_count() const {
  const std::lock_guard lock(mutex_);
  return evicted_count_;
}

}  // namespace kerf
