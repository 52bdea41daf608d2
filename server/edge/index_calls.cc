#include "server/edge/index_calls.h"

#include <utility>

#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/net/grpc_status.h"
#include "server/net/request_id_of.h"

namespace kerf {

grpc::ServerUnaryReactor* IndexCalls::Run(grpc::CallbackServerContext* context,
                                          grpc::ByteBuffer* response, Work work) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  auto call = std::make_shared<Call>();
  call->reactor = reactor;
  call->response = response;
  call->request_id = RequestIdOf(*context);
  call->began = (*clock_)();
  {
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
  }
  pool_->Post([this, call = std::move(call), work = std::move(work)] {
    grpc::ByteBuffer result;
    absl::Status status;
    if (!IsAnswered(*call)) status = FromIndexStatus(work(&result));
    const std::lock_guard lock(mutex_);
    AnswerLocked(*call, status, &result);
    calls_.erase(call);
  });
  return reactor;
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
