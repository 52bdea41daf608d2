#include "server/edge/index_calls.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "server/audit/call_record.h"
#include "server/errors/errors.h"
#include "server/net/grpc_status.h"
#include "server/net/request_id_of.h"

namespace kerf {
namespace {

// Of an answer that counts as nothing while it is unread: whoever holds up the others with long
// ones does not keep anybody from these, and there are only so many calls.
constexpr std::size_t kShortAnswerBytes = 16 << 10;

// Of one repository, so that others find a place while its calls wait.
std::size_t PlacesOfOne(std::size_t max_calls) {
  return std::max<std::size_t>(1, max_calls * 3 / 4);
}

}  // namespace

class IndexCalls::Reactor final : public grpc::ServerUnaryReactor {
 public:
  explicit Reactor(IndexCalls* calls) : calls_(*calls) {}

  // Of IndexCalls::unread_bytes_; before Finish.
  void SetUnreadBytes(std::size_t bytes) { unread_bytes_ = bytes; }
  void OnDone() override {
    if (unread_bytes_ > 0) calls_.OnSent(unread_bytes_);
    delete this;
  }

 private:
  IndexCalls& calls_;
  std::size_t unread_bytes_ = 0;
};

grpc::ServerUnaryReactor* IndexCalls::Run(grpc::CallbackServerContext* context,
                                          grpc::ByteBuffer* response, Request request,
                                          std::shared_ptr<audit::CallRecord> record, Work work) {
  auto* const reactor = new Reactor(this);
  auto call = std::make_shared<Call>();
  call->reactor = reactor;
  call->response = response;
  call->request_id = RequestIdOf(*context);
  call->record = std::move(record);
  call->came = (*clock_)();
  call->bytes = std::max(request.bytes, CallRooms::kMinCallBytes);
  call->repository = std::move(request.repository);
  call->work.emplace(std::move(work));
  const std::lock_guard lock(mutex_);
  ++waiting_count_;
  if (!closed_.ok() || !call->record->admission().ok()) {
    AnswerLocked(*call, closed_.ok() ? call->record->admission() : closed_, nullptr);
    return reactor;
  }
  if (const absl::Status status = TakePlaceLocked(*call); !status.ok()) {
    AnswerLocked(*call, status, nullptr);
    return reactor;
  }
  calls_.insert(call);
  unbegun_.push_back(std::move(call));
  StartMoreLocked();
  return reactor;
}

absl::Status IndexCalls::TakePlaceLocked(Call& call) {
  if (calls_.size() >= limits_.max_calls) {
    return MakeError(
        Reason::kTooManyCalls,
        Cat("the server answers at most ", limits_.max_calls, " calls of the index at a time"),
        {{"limit", Cat(limits_.max_calls)}});
  }
  const std::size_t limit = PlacesOfOne(limits_.max_calls);
  auto place = places_.Enter(call.repository, limit);
  if (!place.has_value()) {
    return MakeError(Reason::kTooManyCalls,
                     Cat("the server answers at most ", limit,
                         " calls of the index about one repository at a time"),
                     {{"limit", Cat(limit)}});
  }
  call.place = *std::move(place);
  return absl::OkStatus();
}

void IndexCalls::StartMoreLocked() {
  CallRooms::Round round(&rooms_);
  for (auto at = unbegun_.begin(); at != unbegun_.end() && !round.is_over();) {
    Call& call = **at;
    if (!round.Enter(call.repository, call.bytes)) {
      ++at;
      continue;
    }
    call.began = (*clock_)();
    pool_->Post([this, begun = std::move(*at)] { Serve(begun); });
    at = unbegun_.erase(at);
  }
}

void IndexCalls::TurnSlowLocked(TimePoint now) {
  for (const std::shared_ptr<Call>& call : calls_) {
    if (call->is_slow || !call->began.has_value()) continue;
    if (now - *call->began < limits::kSlowIndexCall) continue;
    call->is_slow = rooms_.TurnSlow(call->bytes);
  }
  StartMoreLocked();
}

Detached IndexCalls::Serve(std::shared_ptr<Call> call) {
  absl::StatusOr<grpc::ByteBuffer> response = absl::CancelledError("answered without its work");
  {
    // Goes, with all that it holds, before others begin.
    Work work = *std::move(call->work);
    if (!IsAnswered(*call)) response = co_await work;
  }
  const std::lock_guard lock(mutex_);
  AnswerLocked(*call, FromIndexStatus(response.status()), response.ok() ? &*response : nullptr);
  calls_.erase(call);
  call->place.Reset();
  rooms_.Leave(call->repository, call->bytes, call->is_slow);
  StartMoreLocked();
}

std::size_t IndexCalls::CheckTime(TimePoint now) {
  const std::lock_guard lock(mutex_);
  const std::size_t waiting_before_count = waiting_count_;
  for (const std::shared_ptr<Call>& call : calls_) {
    if (now - call->came < limits_.timeout) continue;
    AnswerLocked(*call,
                 MakeError(Reason::kIndexUnavailable,
                           Cat("the index has not answered for ", limits_.timeout.count(), " ms")),
                 nullptr);
  }
  const std::size_t answered_count = waiting_before_count - waiting_count_;
  TurnSlowLocked(now);
  return answered_count;
}

void IndexCalls::FailAll(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  closed_ = status;
  for (const std::shared_ptr<Call>& call : calls_) AnswerLocked(*call, status, nullptr);
}

std::size_t IndexCalls::waiting_count() const {
  const std::lock_guard lock(mutex_);
  return waiting_count_;
}

bool IndexCalls::IsAnswered(const Call& call) const {
  const std::lock_guard lock(mutex_);
  return call.is_answered;
}

void IndexCalls::AnswerLocked(Call& call, const absl::Status& status,
                              const grpc::ByteBuffer* response) {
  if (std::exchange(call.is_answered, true)) return;
  --waiting_count_;
  absl::Status effective = status;
  if (status.ok() && response->Length() > kShortAnswerBytes) {
    const std::size_t bytes = response->Length();
    if (unread_bytes_ + bytes <= limits_.max_unread_bytes) {
      unread_bytes_ += bytes;
      call.reactor->SetUnreadBytes(bytes);
    } else {
      effective = MakeError(Reason::kMemoryExhausted,
                            Cat("clients have not read ", unread_bytes_,
                                " bytes of answers of the index; no more are kept for them"),
                            {{"limit", Cat(limits_.max_unread_bytes)}});
    }
  }
  if (effective.ok()) *call.response = *response;
  call.record->SetOutcome(effective);
  call.reactor->Finish(ToGrpcStatus(WithRequestId(effective, call.request_id)));
}

void IndexCalls::OnSent(std::size_t unread_bytes) {
  const std::lock_guard lock(mutex_);
  unread_bytes_ -= unread_bytes;
}

}  // namespace kerf
