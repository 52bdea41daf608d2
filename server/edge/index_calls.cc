#include "server/edge/index_calls.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/net/grpc_status.h"
#include "server/net/request_id_of.h"

namespace kerf {
namespace {

// Of calls whose work has begun, so that what they hold has a limit however many wait for the
// index: four of the largest requests at the defaults, or as many as there are places for if they
// are short.
constexpr std::size_t kMaxBytesUnderWay = 16 << 20;
// What a call counts for at least: a short request may have a long answer.
constexpr std::size_t kMinCallBytes = 256 << 10;

}  // namespace

grpc::ServerUnaryReactor* IndexCalls::Run(grpc::CallbackServerContext* context,
                                          grpc::ByteBuffer* response, std::size_t request_bytes,
                                          Work work) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  auto call = std::make_shared<Call>();
  call->reactor = reactor;
  call->response = response;
  call->request_id = RequestIdOf(*context);
  call->began = (*clock_)();
  call->bytes = std::max(request_bytes, kMinCallBytes);
  call->work.emplace(std::move(work));
  const std::lock_guard lock(mutex_);
  ++waiting_count_;
  if (!closed_.ok()) {
    AnswerLocked(*call, closed_, nullptr);
    return reactor;
  }
  if (calls_.size() >= limits_.max_calls) {
    AnswerLocked(*call,
                 MakeError(Reason::kTooManyCalls,
                           Cat("the server answers at most ", limits_.max_calls,
                               " calls of the index at a time"),
                           {{"limit", Cat(limits_.max_calls)}}),
                 nullptr);
    return reactor;
  }
  calls_.insert(call);
  unbegun_.push_back(std::move(call));
  StartMoreLocked();
  return reactor;
}

void IndexCalls::StartMoreLocked() {
  while (!unbegun_.empty()) {
    const std::size_t bytes = bytes_under_way_ + unbegun_.front()->bytes;
    if (bytes > kMaxBytesUnderWay && bytes_under_way_ > 0) return;
    bytes_under_way_ = bytes;
    pool_->Post([this, call = std::move(unbegun_.front())] { Serve(call); });
    unbegun_.pop_front();
  }
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
  bytes_under_way_ -= call->bytes;
  StartMoreLocked();
}

std::size_t IndexCalls::CheckTime(TimePoint now) {
  const std::lock_guard lock(mutex_);
  const std::size_t waiting_before_count = waiting_count_;
  for (const std::shared_ptr<Call>& call : calls_) {
    if (now - call->began < limits_.timeout) continue;
    AnswerLocked(*call,
                 MakeError(Reason::kIndexUnavailable,
                           Cat("the index has not answered for ", limits_.timeout.count(), " ms")),
                 nullptr);
  }
  return waiting_before_count - waiting_count_;
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
  if (status.ok()) *call.response = *response;
  call.reactor->Finish(ToGrpcStatus(WithRequestId(status, call.request_id)));
}

}  // namespace kerf
