#include "server/proxy/forwarded_calls.h"

#include <optional>
#include <utility>

#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/proxy/forwarded_call.h"

namespace kerf {

absl::Status ForwardedCalls::Enter() {
  const std::lock_guard lock(mutex_);
  if (is_draining_) return MakeError(Reason::kDraining, "the front is stopping");
  if (entered_count_ >= max_calls_) {
    return MakeError(Reason::kTooManyStreams,
                     Cat("the front passes on at most ", max_calls_, " calls"),
                     {{"limit", Cat(max_calls_)}});
  }
  ++entered_count_;
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
  if (const auto found = calls_.find(call); found != calls_.end()) {
    left = std::move(found->second);
    calls_.erase(found);
  }
  --entered_count_;
}

void ForwardedCalls::GiveBack() {
  const std::lock_guard lock(mutex_);
  --entered_count_;
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

std::size_t ForwardedCalls::count() const {
  const std::lock_guard lock(mutex_);
  return entered_count_;
}

}  // namespace kerf
