#include "server/front/forwarded_calls.h"

#include <optional>
#include <utility>

#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/front/forwarded_call.h"

namespace kerf {
namespace {

using routing::CallKind;

// Uploads that were ended for others and are not gone yet: this many may be open beyond the limit.
constexpr std::size_t kMaxEvicted = 64;
// If nobody is idle for long enough, that holds for a moment: looking costs a lock of each call.
constexpr std::chrono::milliseconds kEvictPause{100};
// Until somebody who does not take a message is ended because others have no memory.
constexpr std::chrono::milliseconds kMinStall{1000};

std::size_t IndexOf(CallKind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

absl::Status ForwardedCalls::Enter(CallKind kind, TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (is_draining_) return MakeError(Reason::kDraining, "the front is stopping");
  const bool is_upload = kind == CallKind::kUpload;
  const std::size_t limit = limits_.max_calls[IndexOf(kind)];
  // Those that were evicted are as good as gone.
  const std::size_t count = entered_counts_[IndexOf(kind)] - (is_upload ? evicted_.size() : 0);
  if (count >= limit && !(is_upload && EvictOneLocked("", now))) {
    return MakeError(is_upload ? Reason::kTooManyStreams : Reason::kTooManyCalls,
                     Cat("the front passes on at most ", limit,
                         is_upload ? " uploads" : " calls that are no uploads"),
                     {{"limit", Cat(limit)}});
  }
  ++entered_counts_[IndexOf(kind)];
  return absl::OkStatus();
}

void ForwardedCalls::Add(const std::shared_ptr<ForwardedCall>& call) {
  std::optional<std::chrono::milliseconds> drain;
  {
    const std::lock_guard lock(mutex_);
    // A drain may have come between Enter and here.
    if (is_draining_) drain = drain_;
    calls_[call.get()] = call;
  }
  if (drain.has_value()) call->Drain(*drain);
}

void ForwardedCalls::Leave(const ForwardedCall* call) {
  // Dropped without the lock: it may be the last that holds the call.
  std::shared_ptr<ForwardedCall> left;
  const std::lock_guard lock(mutex_);
  --entered_counts_[IndexOf(call->kind())];
  evicted_.erase(call);
  if (const auto found = calls_.find(call); found != calls_.end()) {
    left = std::move(found->second);
    calls_.erase(found);
  }
}

bool ForwardedCalls::EvictIdle(std::string_view worker_name, TimePoint now) {
  const std::lock_guard lock(mutex_);
  return EvictOneLocked(worker_name, now);
}

bool ForwardedCalls::EvictOneLocked(std::string_view worker_name, TimePoint now) {
  if (evicted_.size() >= kMaxEvicted || now < next_look_) return false;
  ForwardedCall* idlest = nullptr;
  std::chrono::nanoseconds idlest_time = limits_.idle_evict;
  for (const auto& [key, call] : calls_) {
    if (!worker_name.empty() && call->worker_name() != worker_name) continue;
    const std::chrono::nanoseconds idle_time = call->IdleTime(now);
    if (idle_time < idlest_time) continue;
    idlest = call.get();
    idlest_time = idle_time;
  }
  if (idlest == nullptr) {
    // Of another worker one may be.
    if (worker_name.empty()) next_look_ = now + kEvictPause;
    return false;
  }
  if (!idlest->EvictIfIdle(now, limits_.idle_evict)) return false;
  evicted_.insert(idlest);
  ++counters_.idle_evicted;
  return true;
}

bool ForwardedCalls::EndStalled(const MessageMemory& memory, TimePoint now) {
  std::shared_ptr<ForwardedCall> longest;
  std::chrono::nanoseconds longest_time = kMinStall;
  for (const auto& call : Snapshot()) {
    const std::chrono::nanoseconds stalled_time = call->StalledTime(memory, now);
    if (stalled_time < longest_time) continue;
    longest = call;
    longest_time = stalled_time;
  }
  return longest != nullptr && longest->EndForMemory();
}

std::vector<std::shared_ptr<ForwardedCall>> ForwardedCalls::Snapshot() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ForwardedCall>> calls;
  calls.reserve(calls_.size());
  for (const auto& [key, call] : calls_) calls.push_back(call);
  return calls;
}

std::size_t ForwardedCalls::CheckTime(TimePoint now) {
  std::size_t ended_count = 0;
  for (const auto& call : Snapshot()) ended_count += call->CheckTime(now) ? 1 : 0;
  return ended_count;
}

void ForwardedCalls::Drain(std::chrono::milliseconds drain) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_draining_, true)) return;
    drain_ = drain;
  }
  for (const auto& call : Snapshot()) call->Drain(drain);
}

void ForwardedCalls::FailAll(const absl::Status& status) {
  for (const auto& call : Snapshot()) call->Fail(status);
}

std::size_t ForwardedCalls::count(CallKind kind) const {
  const std::lock_guard lock(mutex_);
  return entered_counts_[IndexOf(kind)];
}

}  // namespace kerf
