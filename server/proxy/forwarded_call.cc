#include "server/proxy/forwarded_call.h"

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "kerf/v1/chunking.pb.h"
#include "server/errors/errors.h"
#include "server/front/grpc_status.h"
#include "server/front/request_id_of.h"
#include "server/logging/logging.h"
#include "server/proxy/forwarded_calls.h"

namespace kerf {
namespace {

constexpr std::string_view kUploadMethod = "/kerf.v1.ChunkingService/Upload";
// Of any other call: a worker waits half as long for its index.
constexpr std::chrono::seconds kMaxCallTime{120};

std::string_view ViewOf(const grpc::string_ref& text) { return {text.data(), text.size()}; }

// What belongs to one connection, or is made anew by gRPC.
bool IsHopByHop(std::string_view key) {
  return key.starts_with(':') || key.starts_with("grpc-") || key == "user-agent" ||
         key == "content-type" || key == "te" || key == "host" || key == "connection" ||
         key == "upgrade" || key == "transfer-encoding";
}

// gRPC takes whatever comes over the wire, and ends the process that sends such a thing on.
bool IsLegal(std::string_view key, std::string_view value) {
  const grpc_slice key_slice = grpc_slice_from_static_buffer(key.data(), key.size());
  if (grpc_header_key_is_legal(key_slice) == 0) return false;
  return grpc_is_binary_header(key_slice) != 0 ||
         grpc_header_nonbin_value_is_legal(
             grpc_slice_from_static_buffer(value.data(), value.size())) != 0;
}

bool IsForwarded(const grpc::string_ref& key, const grpc::string_ref& value) {
  return !IsHopByHop(ViewOf(key)) && IsLegal(ViewOf(key), ViewOf(value));
}

// Whether `status` is what gRPC itself says of a call that did not come through, and not the
// worker's own word: that has details, or belongs to a deadline or limit of the call.
bool IsLost(const grpc::Status& status) {
  if (!status.error_details().empty()) return false;
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::CANCELLED;
}

}  // namespace

ForwardedCall* ForwardedCall::Start(const Options& options,
                                    grpc::GenericCallbackServerContext* context,
                                    routing::Route route) {
  std::shared_ptr<ForwardedCall> call(new ForwardedCall(options, context, std::move(route)));
  call->self_ = call;
  if (IsLogged(LogLevel::kDebug)) {
    Log(LogLevel::kDebug, "call passed on",
        {{"method", context->method()},
         {"request_id", call->request_id_},
         {"peer", context->peer()},
         {"worker", call->route_.name}});
  }
  call->StartWorkerSide();
  options.registry->Add(call);
  const std::lock_guard lock(call->mutex_);
  call->PumpToWorkerLocked();
  return call.get();
}

ForwardedCall::ForwardedCall(const Options& options, grpc::GenericCallbackServerContext* context,
                             routing::Route route)
    : options_(options),
      context_(context),
      is_upload_(context->method() == kUploadMethod),
      request_id_(RequestIdOf(*context)),
      route_(std::move(route)),
      stub_(route_.permit.worker()->TakeChannel()) {}

void ForwardedCall::StartWorkerSide() {
  worker_context_.AddMetadata(kRequestIdMetadata, request_id_);
  for (const auto& [key, value] : context_->client_metadata()) {
    if (!IsForwarded(key, value) || ViewOf(key) == kRequestIdMetadata) continue;
    worker_context_.AddMetadata(std::string(ViewOf(key)), std::string(ViewOf(value)));
  }
  auto deadline = context_->deadline();
  // Else one that never says what it wants keeps its place; an upload has time limits of its own.
  if (!is_upload_) deadline = std::min(deadline, std::chrono::system_clock::now() + kMaxCallTime);
  if (deadline != std::chrono::system_clock::time_point::max()) {
    worker_context_.set_deadline(deadline);
  }
  stub_.PrepareBidiStreamingCall(&worker_context_, context_->method(), {}, &worker_side_);
  const std::lock_guard lock(mutex_);
  // Writes begin where the client's messages come: the hold goes when nothing is read any more.
  worker_side_.AddHold();
  PumpToClientLocked();
  worker_side_.StartCall();
}

void ForwardedCall::PumpToWorkerLocked() {
  Direction& way = to_worker_;
  if (way.write_ended) return;
  if (!way.is_writing && drain_request_.has_value() && !way.read_ended) {
    way.current.Swap(&*drain_request_);
    drain_request_.reset();
    way.is_writing = true;
    worker_side_.StartWrite(&way.current);
  }
  if (!way.is_writing && way.has_next) {
    way.current.Swap(&way.next);
    way.has_next = false;
    way.is_writing = true;
    options_.metrics->to_worker_bytes.Add(way.current.Length());
    worker_side_.StartWrite(&way.current);
  }
  if (!way.is_reading && !way.has_next && !way.read_ended && !is_finished_) {
    way.is_reading = true;
    StartRead(&way.next);
  }
  if (!way.is_writing && !way.has_next && way.read_ended) {
    way.write_ended = true;
    worker_side_.StartWritesDone();
  }
}

void ForwardedCall::PumpToClientLocked() {
  Direction& way = to_client_;
  if (!way.is_writing && way.has_next && !is_finished_) {
    way.current.Swap(&way.next);
    way.has_next = false;
    way.is_writing = true;
    client_write_began_ = (*options_.clock)();
    options_.metrics->to_client_bytes.Add(way.current.Length());
    StartWrite(&way.current);
  }
  ReadFromWorkerLocked();
  if (worker_status_.has_value() && !way.is_writing && !way.has_next) {
    FinishLocked(*worker_status_, worker_counted_as_);
  }
}

void ForwardedCall::ReadFromWorkerLocked() {
  Direction& way = to_client_;
  if (way.is_reading || way.has_next || way.read_ended) return;
  way.is_reading = true;
  worker_side_.StartRead(&way.next);
}

void ForwardedCall::OnReadDone(bool ok) {
  const std::lock_guard lock(mutex_);
  to_worker_.is_reading = false;
  to_worker_.has_next = ok;
  to_worker_.read_ended = !ok;
  PumpToWorkerLocked();
}

void ForwardedCall::OnWorkerWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  to_worker_.is_writing = false;
  to_worker_.current.Clear();
  // Why it failed comes as the worker's status.
  if (!ok) to_worker_.write_ended = true;
  PumpToWorkerLocked();
}

void ForwardedCall::OnWorkerMetadata(bool ok) {
  const std::lock_guard lock(mutex_);
  if (!ok || is_finished_) return;
  for (const auto& [key, value] : worker_context_.GetServerInitialMetadata()) {
    if (!IsForwarded(key, value)) continue;
    context_->AddInitialMetadata(std::string(ViewOf(key)), std::string(ViewOf(value)));
  }
}

void ForwardedCall::OnWorkerReadDone(bool ok) {
  const std::lock_guard lock(mutex_);
  to_client_.is_reading = false;
  // After the end of the client's side the rest is read and dropped.
  to_client_.has_next = ok && !is_finished_;
  to_client_.read_ended = !ok;
  if (!ok) {
    to_worker_.write_ended = true;
    worker_side_.RemoveHold();
  }
  PumpToClientLocked();
}

void ForwardedCall::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  to_client_.is_writing = false;
  to_client_.current.Clear();
  if (!ok) worker_context_.TryCancel();
  PumpToClientLocked();
}

grpc::Status ForwardedCall::Translate(const grpc::Status& status, absl::Status* counted_as) const {
  if (!IsLost(status)) return status;
  options_.workers->Doubt(*route_.permit.worker());
  const absl::Status lost =
      MakeError(Reason::kWorkerUnreachable,
                Cat("worker ", route_.name, " at ", route_.permit.worker()->address(),
                    " cannot be reached: ", status.error_message()),
                {{"worker", route_.name}});
  Log(LogLevel::kInfo, Cat("call ended: ", MessageOf(lost)),
      {{"method", context_->method()},
       {"request_id", request_id_},
       {"peer", context_->peer()},
       {"reason", ReasonNameOf(lost)},
       {"worker", route_.name}});
  *counted_as = lost;
  return ToGrpcStatus(WithRequestId(lost, request_id_));
}

void ForwardedCall::OnWorkerDone(const grpc::Status& status) {
  std::shared_ptr<ForwardedCall> self;
  const std::lock_guard lock(mutex_);
  is_worker_done_ = true;
  to_worker_.write_ended = true;
  if (!is_finished_) {
    worker_status_ = Translate(status, &worker_counted_as_);
    for (const auto& [key, value] : worker_context_.GetServerTrailingMetadata()) {
      if (!IsForwarded(key, value)) continue;
      context_->AddTrailingMetadata(std::string(ViewOf(key)), std::string(ViewOf(value)));
    }
    PumpToClientLocked();
  }
  self = TakeSelfLocked();
}

void ForwardedCall::FinishLocked(const grpc::Status& status, const absl::Status& counted_as) {
  if (std::exchange(is_finished_, true)) return;
  options_.metrics->ended.Count(counted_as);
  finished_at_ = (*options_.clock)();
  if (!is_worker_done_) worker_context_.TryCancel();
  // To its end, which comes soon now.
  to_client_.has_next = false;
  ReadFromWorkerLocked();
  Finish(status);
}

void ForwardedCall::Fail(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  FinishLocked(ToGrpcStatus(WithRequestId(status, request_id_)), status);
}

void ForwardedCall::Drain(std::chrono::milliseconds drain) {
  const std::lock_guard lock(mutex_);
  // A client that has said its last word is nearly done; other calls are short.
  if (!is_upload_ || is_finished_ || to_worker_.read_ended) return;
  v1::UploadRequest request;
  request.add_frames()->mutable_drain()->set_drain_ms(static_cast<std::uint32_t>(drain.count()));
  const grpc::Slice slice(request.SerializeAsString());
  drain_request_ = grpc::ByteBuffer(&slice, 1);
  PumpToWorkerLocked();
}

bool ForwardedCall::CheckTime(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (is_client_done_) return false;
  if (is_finished_) {
    // The status waits behind a message that the client still does not read.
    if (now - finished_at_ >= options_.write_stall) context_->TryCancel();
    return false;
  }
  if (!to_client_.is_writing || now - client_write_began_ < options_.write_stall) return false;
  const absl::Status stalled = MakeError(
      Reason::kReadStalled,
      Cat("the client has not read its answers for ", options_.write_stall.count(), " ms"));
  FinishLocked(ToGrpcStatus(WithRequestId(stalled, request_id_)), stalled);
  return true;
}

void ForwardedCall::OnCancel() {
  const std::lock_guard lock(mutex_);
  FinishLocked(grpc::Status::CANCELLED, absl::CancelledError());
}

void ForwardedCall::OnDone() {
  std::shared_ptr<ForwardedCall> self;
  options_.registry->Leave(this);
  const std::lock_guard lock(mutex_);
  is_client_done_ = true;
  self = TakeSelfLocked();
}

std::shared_ptr<ForwardedCall> ForwardedCall::TakeSelfLocked() {
  return is_client_done_ && is_worker_done_ ? std::move(self_) : nullptr;
}

}  // namespace kerf
