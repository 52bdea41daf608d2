#include "server/front/forwarded_call.h"

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/limits.h"
#include "base/strings.h"
#include "kerf/v1/chunking.pb.h"
#include "server/access/method.h"
#include "server/errors/errors.h"
#include "server/front/forwarded_calls.h"
#include "server/listener/client_peer.h"
#include "server/logging/logging.h"
#include "server/logging/rated_log.h"
#include "server/net/grpc_deadline.h"
#include "server/net/grpc_status.h"
#include "server/net/request_id_of.h"
#include "server/net/stall_log.h"

namespace kerf {
namespace {

// Of a message that its worker does not take: longer than busy workers are.
constexpr std::chrono::seconds kStuckAfter{30};
constexpr std::string_view kUploadMethod = "/kerf.v1.ChunkingService/Upload";

std::string_view ViewOf(const grpc::string_ref& text) { return {text.data(), text.size()}; }

// What belongs to one connection, or is made anew by gRPC.
bool IsHopByHop(std::string_view key) {
  return key.starts_with(':') || key.starts_with("grpc-") || key == "user-agent" ||
         key == "content-type" || key == "te" || key == "host" || key == "connection" ||
         key == "upgrade" || key == "transfer-encoding" || key == routing::kFrontMetadata;
}

// What is said to this front alone, or by it. A token that it has not looked at is for a worker to
// look at.
bool IsOwn(std::string_view key, bool is_token_passed_on) {
  return key == kRequestIdMetadata || key == kPeerMetadata || key == kSeenMetadata ||
         key == access::kIdentityMetadata ||
         (key == access::kAuthorizationMetadata && !is_token_passed_on);
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

// Whether it is the worker's own word that it has no index, or the path to it is broken: another
// worker may do better.
bool IsWorkersFault(const grpc::Status& status) {
  return IsLost(status) ||
         ReasonNameIn(status.error_details()) == InfoOf(Reason::kIndexUnavailable).name;
}

// Whether it is the worker's own word that it stops, of which its health may say nothing yet.
bool IsDraining(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         ReasonNameIn(status.error_details()) == InfoOf(Reason::kDraining).name;
}

}  // namespace

bool ForwardedCall::Direction::Count() {
  const bool is_reading_ahead = is_reading && is_writing;
  return held.Set((has_next ? next.Length() : 0) + (is_writing ? current.Length() : 0),
                  is_reading_ahead ? held.AheadBytes(last_bytes) : 0);
}

bool ForwardedCall::Direction::TryRead() {
  if (is_reading || has_next || read_ended) return false;
  is_reading = !is_writing || held.TryKeepAhead(held.AheadBytes(last_bytes));
  return is_reading;
}

void ForwardedCall::Direction::TakeNext(TimePoint now) {
  current.Swap(&next);
  has_next = false;
  is_writing = true;
  write_began = now;
}

routing::CallKind ForwardedCall::KindOf(const grpc::GenericCallbackServerContext& context) {
  return context.method() == kUploadMethod ? routing::CallKind::kUpload : routing::CallKind::kOther;
}

ForwardedCall* ForwardedCall::Start(const Options& options,
                                    grpc::GenericCallbackServerContext* context,
                                    access::Identity caller, routing::Route route) {
  std::shared_ptr<ForwardedCall> call(
      new ForwardedCall(options, context, std::move(caller), std::move(route)));
  call->self_ = call;
  if (IsLogged(LogLevel::kDebug)) {
    Log(LogLevel::kDebug, "call passed on",
        {{"method", context->method()},
         {"request_id", call->request_id_},
         {"peer", PeerOf(*context)},
         {"worker", call->worker_name_}});
  }
  call->StartWorkerSide();
  options.registry->Add(call);
  const std::lock_guard lock(call->mutex_);
  call->PumpToWorkerLocked();
  return call.get();
}

ForwardedCall::ForwardedCall(const Options& options, grpc::GenericCallbackServerContext* context,
                             access::Identity caller, routing::Route route)
    : options_(options),
      context_(context),
      kind_(KindOf(*context)),
      request_id_(RequestIdOf(*context)),
      caller_(std::move(caller)),
      worker_name_(std::move(route.name)),
      worker_(route.permit.worker()),
      stub_(TakeChannel()),
      permit_(std::move(route.permit)),
      to_worker_(options.requests, kind_ == routing::CallKind::kUpload),
      to_client_(options.answers, kind_ == routing::CallKind::kUpload),
      last_moved_((*options.clock)()) {}

std::shared_ptr<grpc::Channel> ForwardedCall::TakeChannel() {
  const bool has_token = context_->client_metadata().count(access::kAuthorizationMetadata) > 0;
  // Whom this front knows it names itself.
  if (!has_token || caller_.proof != access::Proof::kNone || !CameInPrivate()) {
    return worker_->TakeChannel();
  }
  std::shared_ptr<grpc::Channel> channel = worker_->TakeTokenChannel();
  is_token_passed_on_ = channel != nullptr;
  if (is_token_passed_on_) return channel;
  LogRated(LogLevel::kWarning, "token that others could read",
           "a token is not passed on, as others could read it: the worker is spoken to in the "
           "clear, or its unix socket is of a user who is neither root nor this front's. Give the "
           "front --worker-tls-ca or --access, or run both as one user",
           {{"request_id", request_id_}, {"worker", worker_->address()}});
  return worker_->TakeChannel();
}

bool ForwardedCall::CameInPrivate() const {
  const bool is_private = options_.is_tcp_private || PeerOf(*context_).starts_with("unix:");
  // Over a better path to the worker nobody would see any more how it came.
  if (!is_private) {
    LogRated(LogLevel::kWarning, "token in the clear",
             "a token that came in the clear is not passed on: others may have read it, and it has "
             "to be changed",
             {{"request_id", request_id_}, {"peer", PeerOf(*context_)}});
  }
  return is_private;
}

void ForwardedCall::StartWorkerSide() {
  const bool is_caller_known = caller_.proof != access::Proof::kNone;
  worker_context_.AddMetadata(kRequestIdMetadata, request_id_);
  for (const auto& [key, value] : context_->client_metadata()) {
    if (IsOwn(ViewOf(key), is_token_passed_on_) || !IsForwarded(key, value)) continue;
    worker_context_.AddMetadata(std::string(ViewOf(key)), std::string(ViewOf(value)));
  }
  worker_context_.AddMetadata(routing::kFrontMetadata, "1");
  if (is_caller_known) {
    worker_context_.AddMetadata(access::kIdentityMetadata, access::EncodeIdentity(caller_));
  }
  gpr_timespec deadline = gpr_convert_clock_type(context_->raw_deadline(), GPR_CLOCK_MONOTONIC);
  // Else one that never says what it wants keeps its place; an upload has time limits of its own.
  if (kind_ != routing::CallKind::kUpload) {
    deadline = gpr_time_min(deadline, DeadlineIn(limits::kMaxForwardedTime));
  }
  if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) != 0) {
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
    way.write_began = (*options_.clock)();
    worker_side_.StartWrite(&way.current);
  }
  if (!way.is_writing && way.has_next) {
    way.TakeNext((*options_.clock)());
    options_.metrics->to_worker_bytes.Add(way.current.Length());
    worker_side_.StartWrite(&way.current);
  }
  if (!is_finished_ && way.TryRead()) StartRead(&way.next);
  // The end of a call that was cancelled is no end of the client's words.
  if (!is_finished_ && !way.is_writing && !way.has_next && way.read_ended) {
    way.write_ended = true;
    worker_side_.StartWritesDone();
  }
}

void ForwardedCall::PumpToClientLocked() {
  Direction& way = to_client_;
  if (!way.is_writing && way.has_next && !is_finished_) {
    way.TakeNext((*options_.clock)());
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
  // After the end of the client's side the rest is read and dropped.
  if (is_finished_ && !way.is_reading && !way.read_ended) {
    way.is_reading = true;
  } else if (is_finished_ || !way.TryRead()) {
    return;
  }
  worker_side_.StartRead(&way.next);
}

void ForwardedCall::OnReadDone(bool ok) {
  bool has_room = true;
  {
    const std::lock_guard lock(mutex_);
    if (!ok && context_->IsCancelled())
      FinishLocked(grpc::Status::CANCELLED, absl::CancelledError());
    has_room = TakeReadLocked(to_worker_, ok);
    if (ok && to_worker_.last_bytes > 0) worker_spoke_last_ = false;
    PumpToWorkerLocked();
  }
  if (!has_room) MakeRoom(*options_.requests);
}

bool ForwardedCall::TakeReadLocked(Direction& way, bool ok) {
  way.is_reading = false;
  way.read_ended = !ok;
  way.has_next = ok && !is_finished_;
  if (!ok) return true;
  way.last_bytes = way.next.Length();
  step_count_ += way.last_bytes > 0 ? 1 : 0;
  if (!way.has_next) way.next.Clear();
  last_moved_ = (*options_.clock)();
  return way.Count();
}

void ForwardedCall::EndWriteLocked(Direction& way) {
  way.is_writing = false;
  step_count_ += way.current.Length() > 0 ? 1 : 0;
  way.current.Clear();
  way.Count();
}

void ForwardedCall::MakeRoom(const MessageMemory& memory) {
  if (!options_.registry->EndStalled(memory, (*options_.clock)())) EndForMemory();
}

void ForwardedCall::OnWorkerWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  EndWriteLocked(to_worker_);
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
  bool has_room = true;
  {
    const std::lock_guard lock(mutex_);
    has_room = TakeReadLocked(to_client_, ok);
    if (ok && to_client_.last_bytes > 0) worker_spoke_last_ = true;
    if (!ok) {
      to_worker_.write_ended = true;
      worker_side_.RemoveHold();
    }
    PumpToClientLocked();
  }
  if (!has_room) MakeRoom(*options_.answers);
}

void ForwardedCall::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  EndWriteLocked(to_client_);
  if (!ok) worker_context_.TryCancel();
  PumpToClientLocked();
}

grpc::Status ForwardedCall::Translate(const grpc::Status& status, absl::Status* counted_as) const {
  if (IsDraining(status)) options_.workers->Doubt(*worker_);
  if (!IsLost(status)) return status;
  options_.workers->Doubt(*worker_);
  const absl::Status lost = MakeError(Reason::kWorkerUnreachable,
                                      Cat("worker ", worker_name_, " at ", worker_->address(),
                                          " cannot be reached: ", status.error_message()),
                                      {{"worker", worker_name_}});
  LogRated(LogLevel::kInfo, Cat("call ended: ", ReasonNameOf(lost)),
           Cat("call ended: ", MessageOf(lost)),
           {{"method", context_->method()},
            {"request_id", request_id_},
            {"peer", PeerOf(*context_)},
            {"reason", ReasonNameOf(lost)},
            {"worker", worker_name_}});
  *counted_as = lost;
  return ToGrpcStatus(WithRequestId(lost, request_id_));
}

void ForwardedCall::OnWorkerDone(const grpc::Status& status) {
  std::shared_ptr<ForwardedCall> self;
  const std::lock_guard lock(mutex_);
  is_worker_done_ = true;
  to_worker_.write_ended = true;
  if (!is_finished_) {
    options_.workers->Record(*worker_, !IsWorkersFault(status));
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
  if (const auto news = stall_watch_.End(finished_at_); news.has_value()) {
    options_.metrics->stalls.Count(*news);
  }
  if (!is_worker_done_) worker_context_.TryCancel();
  permit_ = {};
  for (Direction* const way : {&to_worker_, &to_client_}) {
    if (std::exchange(way->has_next, false)) way->next.Clear();
    way->Count();
  }
  // To its end, which comes soon now.
  ReadFromWorkerLocked();
  Finish(status);
}

void ForwardedCall::EndForOthersLocked(const absl::Status& status) {
  is_ended_for_others_ = true;
  LogRated(LogLevel::kInfo, Cat("call ended: ", ReasonNameOf(status)),
           Cat("call ended: ", MessageOf(status)),
           {{"method", context_->method()},
            {"request_id", request_id_},
            {"peer", PeerOf(*context_)},
            {"reason", ReasonNameOf(status)},
            {"worker", worker_name_}});
  FinishLocked(ToGrpcStatus(WithRequestId(status, request_id_)), status);
}

bool ForwardedCall::IsIdleLocked() const {
  return kind_ == routing::CallKind::kUpload && !is_finished_ && worker_spoke_last_ &&
         !to_worker_.is_writing && !to_worker_.has_next && !to_worker_.read_ended &&
         !to_client_.is_writing && !to_client_.has_next && !worker_status_.has_value();
}

std::chrono::nanoseconds ForwardedCall::IdleTime(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return IsIdleLocked() ? now - last_moved_ : std::chrono::nanoseconds(0);
}

bool ForwardedCall::EvictIfIdle(TimePoint now, std::chrono::nanoseconds idle_time) {
  const std::lock_guard lock(mutex_);
  // A message may have come since somebody chose this call.
  if (!IsIdleLocked() || now - last_moved_ < idle_time) return false;
  const auto idle_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - last_moved_).count();
  EndForOthersLocked(MakeError(Reason::kIdleEvicted,
                               Cat("the front is full, and this stream had been idle for ", idle_ms,
                                   " ms; what it has committed is kept: open another one")));
  return true;
}

std::chrono::nanoseconds ForwardedCall::StalledTime(const MessageMemory& memory,
                                                    TimePoint now) const {
  const std::lock_guard lock(mutex_);
  const Direction& way = to_worker_.held.memory() == &memory ? to_worker_ : to_client_;
  if (is_finished_ || !way.is_writing || !way.held.is_beyond_share()) {
    return std::chrono::nanoseconds(0);
  }
  return now - way.write_began;
}

bool ForwardedCall::EndForMemory() {
  const std::lock_guard lock(mutex_);
  if (is_finished_) return false;
  options_.registry->CountEndForMemory();
  EndForOthersLocked(
      MakeError(Reason::kMemoryExhausted,
                Cat("the front has no memory for messages that ",
                    to_client_.held.is_beyond_share() ? "the client" : Cat("worker ", worker_name_),
                    " does not take; what was committed is kept"),
                {{"worker", worker_name_}}));
  return true;
}

void ForwardedCall::Fail(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  FinishLocked(ToGrpcStatus(WithRequestId(status, request_id_)), status);
}

void ForwardedCall::Drain(std::chrono::milliseconds drain) {
  const std::lock_guard lock(mutex_);
  // A client that has said its last word is nearly done; other calls are short.
  if (kind_ != routing::CallKind::kUpload || is_finished_ || to_worker_.read_ended) return;
  v1::UploadRequest request;
  request.add_frames()->mutable_drain()->set_drain_ms(static_cast<std::uint32_t>(drain.count()));
  const grpc::Slice slice(request.SerializeAsString());
  drain_request_ = grpc::ByteBuffer(&slice, 1);
  PumpToWorkerLocked();
}

// Never for memory: what finds none for the next message still writes the last one.
WaitPlace ForwardedCall::FindPlaceLocked() const {
  if (to_client_.is_writing) return WaitPlace::kClientReading;
  if (to_worker_.is_writing) return WaitPlace::kWorkerReading;
  if (IsIdleLocked()) return WaitPlace::kNone;
  const bool has_client_spoken = step_count_ > 0 || to_worker_.read_ended;
  return has_client_spoken ? WaitPlace::kWorkerAnswer : WaitPlace::kClientData;
}

void ForwardedCall::LookForStallLocked(TimePoint now) {
  const auto news = stall_watch_.Look(FindPlaceLocked(), step_count_, now, options_.stall_warn);
  if (!news.has_value()) return;
  options_.metrics->stalls.Count(*news);
  const LogField fields[] = {{"method", context_->method()},
                             {"request_id", request_id_},
                             {"peer", PeerOf(*context_)},
                             {"worker", worker_name_}};
  LogStall(*news, fields);
}

bool ForwardedCall::CheckTime(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (is_client_done_) return false;
  if (is_finished_) {
    // The status waits behind a message that the client still does not read.
    const auto patience = is_ended_for_others_ ? limits::kEvictedGrace : options_.write_stall;
    if (now - finished_at_ >= patience) context_->TryCancel();
    return false;
  }
  if (CheckCallerLocked()) return true;
  LookForStallLocked(now);
  if (!to_client_.is_writing || now - to_client_.write_began < options_.write_stall) return false;
  const absl::Status stalled = MakeError(
      Reason::kReadStalled,
      Cat("the client has not read its answers for ", options_.write_stall.count(), " ms"));
  FinishLocked(ToGrpcStatus(WithRequestId(stalled, request_id_)), stalled);
  return true;
}

bool ForwardedCall::CheckCallerLocked() {
  const absl::Status status = options_.gate->Check(caller_, access::NeedOf(context_->method()),
                                                   /*repository=*/std::nullopt);
  if (status.ok()) return false;
  EndForOthersLocked(status);
  return true;
}

bool ForwardedCall::IsStuckLocked(TimePoint now) const {
  return kind_ == routing::CallKind::kUpload && !is_finished_ && to_worker_.is_writing &&
         now - to_worker_.write_began >= kStuckAfter;
}

void ForwardedCall::OnCancel() {
  const std::lock_guard lock(mutex_);
  // A client that gives up a worker which is there, and takes nothing.
  if (IsStuckLocked((*options_.clock)())) options_.workers->Record(*worker_, false);
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
