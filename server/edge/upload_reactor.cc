#include "server/edge/upload_reactor.h"

#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "base/limits.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "kernels/profile.h"
#include "server/audit/call_record.h"
#include "server/edge/received_message.h"
#include "server/edge/stream_registry.h"
#include "server/errors/errors.h"
#include "server/listener/client_peer.h"
#include "server/logging/logging.h"
#include "server/logging/rated_log.h"
#include "server/net/grpc_status.h"
#include "server/net/stall_log.h"

namespace kerf {
namespace {

// Of one write: small enough that a slow reader still finishes one within the stall timeout.
constexpr std::size_t kMaxWriteBytes = 256 * 1024;

// Of a quota's time, that one message should owe by what it names: a quarter of what a stream may
// wait for its turn, so that several streams of one quota have theirs.
constexpr std::chrono::seconds kNamedTime{8};

// What one message owes the lowest quota there is. A client that waits for the next one's answer
// takes the server for dead no sooner than it is told of the quota.
constexpr std::uint64_t kLeastBytesPerSecond = 65'536;
constexpr std::chrono::seconds kLongestOwed(limits::kMaxMessageBytes / kLeastBytesPerSecond);
static_assert(kLongestOwed + limits::kMaxPaced + limits::kWatchdogInterval < limits::kAnswerLimit);
// Of a message that names one chunk.
static_assert(kMaxMaxBytes <= limits::kMaxMessageBytes);

// Of the threads: callers have their turns, however many streams each has.
std::uint64_t ShareOf(const access::Identity& caller) {
  if (caller.name.empty()) return ThreadPool::kNobodysShare;
  return absl::HashOf(caller.name) | 1;
}

}  // namespace

UploadReactor* UploadReactor::Start(const Options& options, grpc::CallbackServerContext* context,
                                    Call call) {
  std::shared_ptr<UploadReactor> stream(new UploadReactor(options, context, std::move(call)));
  stream->self_ = stream;
  stream->engine_ = StreamEngine::Create(options.engine, stream->session_id_, stream,
                                         ShareOf(stream->caller_), stream->record_);
  if (IsLogged(LogLevel::kDebug)) {
    Log(LogLevel::kDebug, "stream begins",
        {{"session", stream->session_id_},
         {"request_id", stream->request_id_},
         {"peer", PeerOf(*context)},
         {"identity", stream->caller_.name}});
  }
  options.registry->Add(stream);
  const std::lock_guard lock(stream->mutex_);
  stream->StartReadLocked();
  return stream.get();
}

UploadReactor::UploadReactor(const Options& options, grpc::CallbackServerContext* context,
                             Call call)
    : options_(options),
      context_(context),
      session_id_(std::move(call.session_id)),
      request_id_(std::move(call.request_id)),
      caller_(std::move(call.caller)),
      record_(std::move(call.record)),
      started_at_((*options.clock)()),
      open_since_(started_at_),
      last_moved_(started_at_),
      seen_since_(started_at_),
      seen_turn_since_(seen_since_),
      place_(std::move(call.place)) {}

void UploadReactor::StartReadLocked() {
  if (is_reading_ || read_ended_ || is_finished_ || final_status_.has_value()) return;
  if (!IsInPaceLocked()) return;
  is_reading_ = true;
  StartRead(&read_buffer_);
}

bool UploadReactor::IsInPaceLocked() {
  if (options_.quotas->TryRead(caller_, repository_, last_read_bytes_)) {
    counted_bytes_ = last_read_bytes_;
    is_repository_counted_ = !repository_.empty();
    paced_since_.reset();
    return true;
  }
  if (!paced_since_.has_value()) {
    options_.quotas->CountExceeded(QuotaKind::kBytes);
    paced_since_ = (*options_.clock)();
  }
  return false;
}

void UploadReactor::CorrectPaceLocked(std::size_t read_bytes) {
  const double more = static_cast<double>(read_bytes) - static_cast<double>(counted_bytes_);
  const std::string_view counted = is_repository_counted_ ? std::string_view(repository_) : "";
  options_.quotas->Correct(caller_, counted, more);
  if (!is_repository_counted_) {
    early_bytes_ += read_bytes;
    // It has become known while the message came.
    if (!repository_.empty()) {
      options_.quotas->CorrectRepository(repository_, static_cast<double>(early_bytes_));
      early_bytes_ = 0;
    }
  }
  counted_bytes_ = 0;
}

std::optional<TimePoint> UploadReactor::paced_since() const {
  const std::lock_guard lock(mutex_);
  return paced_since_;
}

void UploadReactor::ResumePaced() {
  const std::lock_guard lock(mutex_);
  if (paced_since_.has_value()) StartReadLocked();
}

void UploadReactor::OnReadDone(bool ok) {
  if (!ok) {
    {
      const std::lock_guard lock(mutex_);
      is_reading_ = false;
      read_ended_ = true;
      CorrectPaceLocked(0);
    }
    engine_->HalfClose();
    return;
  }
  auto message = std::make_unique<ReceivedMessage>();
  const bool taken = message->Take(&read_buffer_);
  read_buffer_.Clear();
  {
    // Before the engine can be done with it.
    const std::lock_guard lock(mutex_);
    last_moved_ = (*options_.clock)();
    read_count_ += message->size_bytes() > 0 ? 1 : 0;
    CorrectPaceLocked(message->size_bytes());
    last_read_bytes_ = message->size_bytes();
    owed_bytes_ = message->size_bytes();
  }
  const std::size_t limit = options_.engine->limits.max_message_bytes;
  if (!taken) {
    engine_->Fail(MakeError(Reason::kInternal, "a message whose bytes cannot be read"));
  } else if (message->size_bytes() > limit) {
    engine_->Fail(MakeError(
        Reason::kMessageTooLarge,
        Cat("a message of ", message->size_bytes(), " bytes; at most ", limit, " are taken"),
        {{"limit", Cat(limit)}}));
  } else if (message->size_bytes() > 0) {
    engine_->Push(std::move(message));
  }
  const std::lock_guard lock(mutex_);
  is_reading_ = false;
  // Else the engine calls ResumeInput.
  if (engine_->wants_input()) StartReadLocked();
}

void UploadReactor::ResumeInput() {
  const std::lock_guard lock(mutex_);
  StartReadLocked();
}

absl::Status UploadReactor::MayStoreIn(std::string_view repository) {
  KERF_RETURN_IF_ERROR(options_.gate->Check(caller_, access::Need::kWrite, repository));
  KERF_ASSIGN_OR_RETURN(Places::Hold place, options_.quotas->EnterStreamOf(repository));
  const std::lock_guard lock(mutex_);
  repository_ = repository;
  repository_place_ = std::move(place);
  options_.quotas->CorrectRepository(repository, static_cast<double>(early_bytes_));
  early_bytes_ = 0;
  return absl::OkStatus();
}

std::uint64_t UploadReactor::NameableBytes() const {
  const std::lock_guard lock(mutex_);
  const auto rate = options_.quotas->BytesPerSecond(caller_, repository_);
  return rate.has_value() ? *rate * kNamedTime.count() : UINT64_MAX;
}

void UploadReactor::CountNamed(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  owed_bytes_ += bytes;
  options_.quotas->Correct(caller_, repository_, static_cast<double>(bytes));
}

void UploadReactor::Send(std::string encoded_answers) {
  const std::lock_guard lock(mutex_);
  if (is_finished_) return;
  unsent_bytes_ += encoded_answers.size();
  unsent_.push_back(std::move(encoded_answers));
  if (!is_writing_) StartWriteLocked();
}

std::size_t UploadReactor::unsent_bytes() const {
  const std::lock_guard lock(mutex_);
  return unsent_bytes_;
}

void UploadReactor::StartWriteLocked() {
  std::vector<grpc::Slice> slices;
  std::size_t size_bytes = 0;
  while (!unsent_.empty() &&
         (slices.empty() || size_bytes + unsent_.front().size() <= kMaxWriteBytes)) {
    size_bytes += unsent_.front().size();
    slices.emplace_back(unsent_.front());
    unsent_.pop_front();
  }
  unsent_bytes_ -= size_bytes;
  write_buffer_ = grpc::ByteBuffer(slices.data(), slices.size());
  is_writing_ = true;
  last_moved_ = write_began_ = (*options_.clock)();
  StartWrite(&write_buffer_);
}

void UploadReactor::OnWriteDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    ++write_count_;
    write_buffer_.Clear();
    if (is_finished_) return;
    if (!ok) {
      FinishLocked(absl::CancelledError("the client is gone"));
    } else if (!unsent_.empty()) {
      StartWriteLocked();
    } else if (final_status_.has_value()) {
      FinishLocked(*final_status_);
    }
  }
  engine_->AnswersTaken();
}

void UploadReactor::Finish(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (is_finished_ || final_status_.has_value()) return;
  final_status_ = status;
  // Nothing more is read.
  paced_since_.reset();
  if (!is_writing_ && unsent_.empty()) FinishLocked(status);
}

void UploadReactor::FinishLocked(const absl::Status& status) {
  if (std::exchange(is_finished_, true)) return;
  finished_at_ = (*options_.clock)();
  options_.registry->ended().Count(status);
  record_->SetOutcome(status);
  unsent_.clear();
  unsent_bytes_ = 0;
  LogEnd(status);
  if (const auto news = stall_watch_.End(finished_at_); news.has_value()) {
    options_.registry->stalls().Count(*news);
  }
  engine_->Cancel();
  ServerBidiReactor::Finish(ToGrpcStatus(WithRequestId(status, request_id_)));
}

void UploadReactor::LogEnd(const absl::Status& status) const {
  const LogLevel level = status.code() == absl::StatusCode::kInternal ? LogLevel::kError
                         : status.ok() || absl::IsCancelled(status)   ? LogLevel::kDebug
                                                                      : LogLevel::kInfo;
  if (!IsLogged(level)) return;
  const std::vector<LogField> fields = {
      {"session", session_id_},    {"request_id", request_id_},
      {"peer", PeerOf(*context_)}, {"repository", record_->repository()},
      {"agent", record_->agent()}, {"reason", ReasonNameOf(status)}};
  if (status.ok()) return Log(level, "stream ended", fields);
  LogRated(level, Cat("stream ended: ", ReasonNameOf(status)),
           Cat("stream ended: ", MessageOf(status)), fields);
}

void UploadReactor::OnCancel() {
  const std::lock_guard lock(mutex_);
  if (!is_finished_) FinishLocked(absl::CancelledError("the client has cancelled"));
}

void UploadReactor::OnDone() {
  {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
    // The engine may have the stream for longer.
    place_.Reset();
    repository_place_.Reset();
  }
  engine_->Cancel();
  options_.registry->Leave(this);
  const std::shared_ptr<UploadReactor> last = std::move(self_);
}

bool UploadReactor::CheckTime(TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (is_finished_) {
    // The status waits behind a write that the client still does not read.
    const std::chrono::nanoseconds patience = is_evicted_ || turned_away_for_.has_value()
                                                  ? limits::kEvictedGrace
                                                  : options_.timeouts->write_stall;
    if (!is_done_ && now - finished_at_ >= patience) context_->TryCancel();
    return false;
  }
  LookForStallLocked(now);
  return CheckCallerLocked(now) || CheckWriteLocked(now) || CheckPaceLocked(now) ||
         CheckInputLocked(now) || CheckWorkLocked(now);
}

bool UploadReactor::IsBetweenFilesLocked() const {
  return !is_finished_ && !final_status_.has_value() && !is_writing_ && unsent_.empty() &&
         !paced_since_.has_value() && engine_->expecting() == StreamEngine::Expecting::kAnything;
}

std::chrono::nanoseconds UploadReactor::IdleTime(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return IdleTimeLocked(now);
}

std::chrono::nanoseconds UploadReactor::IdleTimeLocked(TimePoint now) const {
  if (!IsBetweenFilesLocked()) return std::chrono::nanoseconds(0);
  return now - last_moved_;
}

bool UploadReactor::EvictIfIdle(TimePoint now, std::chrono::nanoseconds idle_time) {
  const std::lock_guard lock(mutex_);
  // A message may have come since somebody chose this stream.
  if (!IsBetweenFilesLocked() || IdleTimeLocked(now) < idle_time) return false;
  is_evicted_ = true;
  const auto idle_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(IdleTimeLocked(now)).count();
  FinishLocked(MakeError(Reason::kIdleEvicted,
                         Cat("the server is full, and this stream had been idle for ", idle_ms,
                             " ms; what it has committed is kept: open another one")));
  return true;
}

bool UploadReactor::CheckWriteLocked(TimePoint now) {
  if (!is_writing_ || now - write_began_ < options_.timeouts->write_stall) return false;
  FinishLocked(MakeError(Reason::kReadStalled, Cat("the client has not read its answers for ",
                                                   options_.timeouts->write_stall.count(), " ms")));
  return true;
}

bool UploadReactor::CheckPaceLocked(TimePoint now) {
  if (!paced_since_.has_value() || now - *paced_since_ < options_.timeouts->paced) return false;
  // What it owes itself is no wait for others.
  const double rate = static_cast<double>(
      options_.quotas->BytesPerSecond(caller_, repository_).value_or(UINT64_MAX));
  const std::chrono::duration<double> owed(static_cast<double>(owed_bytes_) / rate);
  if (now - *paced_since_ < options_.timeouts->paced + owed) return false;
  // Others of the same quota are before it. Its client would take it for dead if it waited on.
  FinishLocked(
      QuotaExceeded(caller_.name,
                    Cat("bytes a second, of the caller or of the repository: this stream has "
                        "not had its turn for ",
                        options_.timeouts->paced.count(), " ms"),
                    limits::kRetryLater));
  return true;
}

bool UploadReactor::CheckInputLocked(TimePoint now) {
  using Expecting = StreamEngine::Expecting;
  const Expecting expecting = engine_->expecting();
  // It is not the client who keeps it waiting.
  if (paced_since_.has_value()) open_since_ = seen_since_ = now;
  if (expecting != seen_expecting_ || read_count_ != seen_read_count_) {
    seen_expecting_ = expecting;
    seen_read_count_ = read_count_;
    seen_since_ = now;
    return false;
  }
  const std::chrono::nanoseconds waited = now - seen_since_;
  const StreamTimeouts& timeouts = *options_.timeouts;
  if (is_timed_out_) return false;
  // Counted from the start: messages without a frame may come for ever.
  if (expecting == Expecting::kOpen && now - open_since_ >= timeouts.open) {
    is_timed_out_ = true;
    engine_->Fail(MakeError(Reason::kOpenTimeout,
                            Cat("no Open frame within ", timeouts.open.count(), " ms")));
  } else if (expecting == Expecting::kFile && waited >= timeouts.idle) {
    is_timed_out_ = true;
    engine_->Fail(MakeError(Reason::kIdleTimeout,
                            Cat("no data in mid-file for ", timeouts.idle.count(), " ms")));
  }
  return is_timed_out_;
}

bool UploadReactor::CheckWorkLocked(TimePoint now) {
  const std::uint64_t turn_count = engine_->turn_count();
  if (!engine_->is_busy() || turn_count != seen_turn_count_) {
    seen_turn_count_ = turn_count;
    seen_turn_since_ = now;
    return false;
  }
  const std::chrono::milliseconds limit = options_.timeouts->index;
  if (now - seen_turn_since_ < limit) return false;
  // Its strand may never come back: it cannot be asked to end the stream.
  const StreamEngine::Waiting waiting = engine_->waiting();
  if (waiting == StreamEngine::Waiting::kThread) {
    FinishLocked(MakeError(Reason::kTooManyStreams,
                           Cat("this stream has waited for a thread for ", limit.count(),
                               " ms: the server's are busy with others")));
  } else if (waiting == StreamEngine::Waiting::kGpu) {
    // A GPU's driver may never come back from a call, and nobody can end that.
    FinishLocked(MakeError(
        Reason::kTooManyStreams,
        Cat("a GPU of this server has told nothing of a piece for ", limit.count(), " ms")));
  } else {
    FinishLocked(MakeError(Reason::kIndexUnavailable,
                           Cat("the index has not answered for ", limit.count(), " ms")));
  }
  return true;
}

bool UploadReactor::CheckCallerLocked(TimePoint now) {
  if (turned_away_for_.has_value()) {
    // It waits for its index, or for a client who does not read: neither keeps him here.
    if (now - turned_away_at_ < limits::kEvictedGrace) return false;
    FinishLocked(*turned_away_for_);
    return true;
  }
  if (repository_.empty() || options_.gate->is_open()) return false;
  const absl::Status status = options_.gate->Check(caller_, access::Need::kWrite, repository_);
  if (status.ok()) return false;
  turned_away_for_ = status;
  turned_away_at_ = now;
  engine_->Fail(status);
  return true;
}

WaitPlace UploadReactor::FindPlaceLocked() const {
  switch (engine_->waiting()) {
    case StreamEngine::Waiting::kThread:
      return WaitPlace::kThread;
    case StreamEngine::Waiting::kMemory:
      return WaitPlace::kMemory;
    case StreamEngine::Waiting::kGpu:
      return WaitPlace::kGpu;
    case StreamEngine::Waiting::kLookup:
      return WaitPlace::kLookup;
    case StreamEngine::Waiting::kCommit:
      return WaitPlace::kCommit;
    case StreamEngine::Waiting::kForget:
      return WaitPlace::kForget;
    case StreamEngine::Waiting::kNothing:
      break;
  }
  if (is_writing_) return WaitPlace::kClientReading;
  if (paced_since_.has_value()) return WaitPlace::kQuota;
  using Expecting = StreamEngine::Expecting;
  const Expecting expecting = engine_->expecting();
  const bool wants_data = expecting == Expecting::kOpen || expecting == Expecting::kFile;
  return wants_data ? WaitPlace::kClientData : WaitPlace::kNone;
}

void UploadReactor::LookForStallLocked(TimePoint now) {
  const std::uint64_t progress = engine_->turn_count() + read_count_ + write_count_;
  const auto news =
      stall_watch_.Look(FindPlaceLocked(), progress, now, options_.timeouts->stall_warn);
  if (!news.has_value()) return;
  options_.registry->stalls().Count(*news);
  const LogField fields[] = {
      {"session", session_id_}, {"request_id", request_id_}, {"peer", PeerOf(*context_)}};
  LogStall(*news, fields);
}

}  // namespace kerf
