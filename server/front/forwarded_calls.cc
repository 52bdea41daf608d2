#include "server/front/forwarded_calls.h"

#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/front/forwarded_call.h"

namespace kerf {
namespace {

using routing::CallKind;

// Until somebody who does not take a message is ended because others have no memory.
constexpr std::chrono::milliseconds kMinStall{1000};

constexpr std::size_t IndexOf(CallKind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

absl::Status ForwardedCalls::Enter(CallKind kind, TimePoint now) {
  // Uploads are the streams, which may be idle.
  static_assert(IndexOf(CallKind::kUpload) == Calls::kStreams);
  switch (calls_.Enter(IndexOf(kind), now)) {
    case Calls::Entry::kEntered:
      return absl::OkStatus();
    case Calls::Entry::kDraining:
      return MakeError(Reason::kDraining, "the front is stopping");
    case Calls::Entry::kFull:
      break;
  }
  const bool is_upload = kind == CallKind::kUpload;
  const std::size_t limit = calls_.limits().max_calls[IndexOf(kind)];
  return MakeError(is_upload ? Reason::kTooManyStreams : Reason::kTooManyCalls,
                   Cat("the front passes on at most ", limit,
                       is_upload ? " uploads" : " calls that are no uploads"),
                   {{"limit", Cat(limit)}});
}

void ForwardedCalls::Add(const std::shared_ptr<ForwardedCall>& call) { calls_.Add(call); }

void ForwardedCalls::Leave(const ForwardedCall* call) { calls_.Leave(call, IndexOf(call->kind())); }

bool ForwardedCalls::EvictIdle(std::string_view worker_name, TimePoint now) {
  return calls_.EvictIdle(
      now, [&](const ForwardedCall& call) { return call.worker_name() == worker_name; });
}

bool ForwardedCalls::EndStalled(const MessageMemory& memory, TimePoint now) {
  std::shared_ptr<ForwardedCall> longest;
  std::chrono::nanoseconds longest_time = kMinStall;
  for (const auto& call : calls_.Snapshot()) {
    const std::chrono::nanoseconds stalled_time = call->StalledTime(memory, now);
    if (stalled_time < longest_time) continue;
    longest = call;
    longest_time = stalled_time;
  }
  return longest != nullptr && longest->EndForMemory();
}

std::size_t ForwardedCalls::CheckTime(TimePoint now) { return calls_.CheckTime(now); }

void ForwardedCalls::Drain(std::chrono::milliseconds drain) { calls_.Drain(drain); }

void ForwardedCalls::FailAll(const absl::Status& status) { calls_.FailAll(status); }

std::size_t ForwardedCalls::FailUploadsTo(std::string_view worker_name,
                                          const absl::Status& status) {
  std::size_t ended_count = 0;
  for (const auto& call : calls_.Snapshot()) {
    if (call->kind() != CallKind::kUpload || call->worker_name() != worker_name) continue;
    call->Fail(status);
    ++ended_count;
  }
  return ended_count;
}

std::size_t ForwardedCalls::count(CallKind kind) const { return calls_.count(IndexOf(kind)); }

}  // namespace kerf
