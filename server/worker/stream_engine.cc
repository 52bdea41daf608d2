#include "server/worker/stream_engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/fingerprint/xxh3.h"
#include "kernels/registry.h"
#include "server/errors/errors.h"
#include "server/worker/answer_encoder.h"
#include "server/worker/cut_digests.h"

namespace kerf {
namespace {

// Input that one turn works through before other streams get the thread.
constexpr std::size_t kTurnBytes = 4u << 20;
// Chunks of one lookup.
constexpr std::size_t kBatchChunks = 1024;
// Data is copied and cut in steps of this size while it is in the cache.
constexpr std::size_t kStepBytes = 64 * 1024;
// Answers are handed to the transport at least this often, so that the client can begin to store.
constexpr std::size_t kSendBytes = 64 * 1024;
// A piece for the GPU: much enough for the streams that are busy to fill its batches.
constexpr std::size_t kGpuPieceBytes = 2u << 20;
// What an open stream holds beside buffers, messages and the tables of its session.
constexpr std::size_t kStreamBytes = 16 * 1024;

// Space of AnswerLookedUp, kept by the thread and not by each of thousands of streams.
std::vector<ChunkAnswer>& ThreadAnswers() {
  static thread_local std::vector<ChunkAnswer> answers;
  return answers;
}

}  // namespace

std::shared_ptr<StreamEngine> StreamEngine::Create(const EngineContext* context,
                                                   std::string session_id,
                                                   std::shared_ptr<StreamSink> sink) {
  return std::shared_ptr<StreamEngine>(
      new StreamEngine(context, std::move(session_id), std::move(sink)));
}

StreamEngine::StreamEngine(const EngineContext* context, std::string session_id,
                           std::shared_ptr<StreamSink> sink)
    : context_(context),
      session_id_(std::move(session_id)),
      clock_(context->metrics),
      sink_(std::move(sink)),
      session_(std::make_unique<Session>(context->limits)),
      buffer_memory_(context->work_budget),
      session_memory_(context->work_budget),
      call_memory_(context->work_budget) {}

StreamEngine::~StreamEngine() { context_->input_budget->Release(queued_bytes_.load()); }

void StreamEngine::Push(std::unique_ptr<FrameSource> message) {
  if (cancelled_.load()) return;
  const std::size_t size_bytes = message->size_bytes();
  if (context_->metrics != nullptr) context_->metrics->ingest_bytes.Add(size_bytes);
  context_->input_budget->ForceReserve(size_bytes);
  queued_bytes_.fetch_add(size_bytes);
  {
    // With the lock, or OnDry, which has just seen an empty queue, might have the last word.
    const std::lock_guard lock(mutex_);
    expecting_.store(Expecting::kNothing, std::memory_order_release);
    queue_.push_back({std::move(message)});
  }
  Wake();
}

void StreamEngine::HalfClose() {
  {
    const std::lock_guard lock(mutex_);
    half_closed_ = true;
  }
  Wake();
}

void StreamEngine::Drain(std::chrono::milliseconds drain) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({nullptr, drain});
  }
  Wake();
}

void StreamEngine::Fail(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.has_value()) failure_ = status;
  }
  Wake();
}

void StreamEngine::Cancel() {
  cancelled_.store(true);
  Wake();
}

bool StreamEngine::wants_input() const {
  const std::size_t queued_bytes = queued_bytes_.load();
  return queued_bytes == 0 ||
         (queued_bytes < context_->input_budget_bytes && !context_->input_budget->is_exhausted());
}

void StreamEngine::Wake() {
  State state = state_.load();
  while (true) {
    State next = State::kScheduled;
    if (state == State::kScheduled || state == State::kRunAgain) return;
    if (state == State::kRunning) next = State::kRunAgain;
    if (!state_.compare_exchange_weak(state, next)) continue;
    if (next == State::kScheduled) {
      clock_.Schedule();
      context_->pool->Post([self = shared_from_this()] { self->Run(); });
    }
    return;
  }
}

void StreamEngine::Run() {
  state_.store(State::kRunning);
  clock_.Begin();
  const bool is_asleep = is_waiting() && call_->phase.load() != StreamCall::Phase::kAnswered;
  const bool again = Turn();
  AddTotals();
  clock_.Flush();
  if (!is_asleep) turn_count_.fetch_add(1, std::memory_order_relaxed);
  State expected = State::kRunning;
  if (!again && state_.compare_exchange_strong(expected, State::kIdle)) return;
  state_.store(State::kScheduled);
  clock_.Schedule();
  context_->pool->Post([self = shared_from_this()] { self->Run(); });
}

bool StreamEngine::Turn() {
  if (cancelled_.load()) {
    DropEverything();
    return false;
  }
  if (ended_) return false;
  std::optional<absl::Status> failure;
  {
    const std::lock_guard lock(mutex_);
    failure = failure_;
  }
  if (failure.has_value()) {
    End(*failure);
    return false;
  }
  bool again = false;
  if (absl::Status status = WorkThroughInput(&again); !status.ok()) End(FromIndexStatus(status));
  if (ended_) return false;
  SendAnswers();
  return again;
}

absl::Status StreamEngine::WorkThroughInput(bool* again) {
  std::size_t turn_bytes = 0;
  while (turn_bytes < kTurnBytes) {
    KERF_RETURN_IF_ERROR(Continue());
    // When the client has read, the sink calls AnswersTaken.
    if (is_waiting() || IsOutputFull() || cancelled_.load()) return absl::OkStatus();
    if (message_ == nullptr) {
      Item item;
      if (!TakeItem(&item)) return OnDry();
      if (item.message == nullptr) {
        KERF_RETURN_IF_ERROR(OnDrain(item.drain));
        continue;
      }
      message_ = std::move(item.message);
    }
    if (data_ != nullptr) {
      KERF_ASSIGN_OR_RETURN(const bool taken, OnData());
      if (!taken) return absl::OkStatus();
    }
    if (data_ != nullptr) continue;
    KERF_ASSIGN_OR_RETURN(const Frame* const frame, message_->Next());
    if (frame == nullptr) {
      turn_bytes += message_->size_bytes();
      ReleaseMessage();
    } else {
      KERF_RETURN_IF_ERROR(OnFrame(*frame));
    }
  }
  *again = true;
  return absl::OkStatus();
}

bool StreamEngine::TakeItem(Item* item) {
  const std::lock_guard lock(mutex_);
  if (queue_.empty()) return false;
  *item = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void StreamEngine::ReleaseMessage() {
  data_ = nullptr;
  if (message_ == nullptr) return;
  const std::size_t size_bytes = message_->size_bytes();
  message_.reset();
  queued_bytes_.fetch_sub(size_bytes);
  context_->input_budget->Release(size_bytes);
  if (wants_input()) sink_->ResumeInput();
}

absl::Status StreamEngine::OnFrame(const Frame& frame) {
  if (frame.control != nullptr) return OnControl(*frame.control);
  if (session_->is_draining()) return absl::OkStatus();
  KERF_RETURN_IF_ERROR(session_->AddData(frame.data_bytes));
  data_ = &frame;
  data_piece_ = data_piece_offset_ = 0;
  return absl::OkStatus();
}

absl::Status StreamEngine::OnControl(const v1::UploadFrame& frame) {
  switch (frame.frame_case()) {
    case v1::UploadFrame::kOpen:
      return OnOpen(frame.open());
    case v1::UploadFrame::kFileBegin:
      return session_->is_draining() ? absl::OkStatus() : OnFileBegin(frame.file_begin());
    case v1::UploadFrame::kFileEnd:
      return session_->is_draining() ? absl::OkStatus() : OnFileEnd(frame.file_end());
    case v1::UploadFrame::kCommit:
      return OnCommit(frame.commit());
    case v1::UploadFrame::kReportStale:
      return OnReportStale(frame.report_stale());
    case v1::UploadFrame::kDrain:
      return OnDrain(std::chrono::milliseconds(frame.drain().drain_ms()));
    default:
      return MakeError(Reason::kMalformedMessage, "a frame without content that kerf.v1 knows");
  }
}

absl::Status StreamEngine::OnOpen(const v1::Open& open) {
  KERF_RETURN_IF_ERROR(session_->Open(open));
  const UploadProfile& profile = session_->parameters().profile;
  const RepositoryId& repository = session_->parameters().repository;
  KERF_RETURN_IF_ERROR(CheckCriterion(context_->hints.get(), repository, profile));
  chunker_ = MakeChunker(profile.rule);
  if (context_->gpus != nullptr && !profile.criterion.has_value()) {
    gpu_plan_ = context_->gpus->PlanOf(profile.rule, repository.digest_algorithm);
  }
  KERF_ASSIGN_OR_RETURN(const std::size_t capacity_bytes, CutBufferBytes());
  std::optional<HintedCutting> hinted;
  if (context_->hints != nullptr && HintScope(repository, profile).is_useful()) {
    hints_ = std::make_unique<FileHints>(context_->hints, repository, profile, context_->now);
    // A GPU that scans everything is quicker than hints.
    if (gpu_plan_ == nullptr && IsWorthFollowing(profile)) {
      hinted = {profile, repository.digest_algorithm, hints_->source()};
    }
  }
  cutter_ = std::make_unique<CutBuffer>(chunker_.get(), capacity_bytes, context_->buffers, hinted);
  v1::UploadAnswer answer;
  v1::Opened& opened = *answer.mutable_opened();
  opened.set_session_id(session_id_);
  opened.mutable_limits()->set_max_message_bytes(context_->limits.max_message_bytes);
  opened.mutable_limits()->set_max_uncommitted_chunks(context_->limits.max_uncommitted_chunks);
  opened.mutable_limits()->set_max_uncommitted_files(context_->limits.max_uncommitted_files);
  opened.mutable_limits()->set_max_commit_entries(context_->limits.max_commit_entries);
  opened.set_worker(context_->worker_name);
  opened.set_backend(std::string(gpu_plan_ != nullptr ? kGpuBackend : ChosenBackend(profile.rule)));
  opened.set_profile(FormatUploadProfile(profile));
  AppendAnswer(answer, &answers_);
  return AccountSession();
}

absl::StatusOr<std::size_t> StreamEngine::CutBufferBytes() const {
  std::size_t capacity_bytes =
      std::max(context_->buffers->buffer_bytes(), 2 * chunker_->max_chunk_bytes());
  if (gpu_plan_ != nullptr) {
    capacity_bytes =
        std::max(capacity_bytes, std::min({kGpuPieceBytes, context_->max_cut_buffer_bytes,
                                           context_->gpus->max_piece_bytes()}));
  }
  if (capacity_bytes > context_->max_cut_buffer_bytes) {
    return MakeError(Reason::kProfileTooLarge,
                     Cat("chunks of up to ", chunker_->max_chunk_bytes(),
                         " bytes need a buffer of ", capacity_bytes,
                         "; this server gives a stream at most ", context_->max_cut_buffer_bytes));
  }
  // A stream that waits would hold a place; one that is refused can go elsewhere.
  MemoryBudget& budget = *context_->work_budget;
  if (!budget.HasRoomFor(capacity_bytes)) {
    return MakeError(Reason::kMemoryExhausted,
                     Cat("the server's streams hold ", budget.used_bytes(), " of ",
                         budget.limit_bytes(), " bytes; come back later"));
  }
  return capacity_bytes;
}

absl::Status StreamEngine::OnFileBegin(const v1::FileBegin& begin) {
  KERF_RETURN_IF_ERROR(session_->BeginFile(begin));
  cutter_->BeginFile(session_->file_number(), begin.start_offset());
  return absl::OkStatus();
}

absl::StatusOr<bool> StreamEngine::OnData() {
  if (data_->data_bytes > 0 && !ReserveBuffer()) return false;
  while (data_piece_ < data_->data.size()) {
    const Bytes rest = data_->data[data_piece_].subspan(data_piece_offset_);
    const std::size_t taken = cutter_->Append(rest.first(std::min(rest.size(), kStepBytes)));
    data_piece_offset_ += taken;
    if (taken == rest.size()) {
      ++data_piece_;
      data_piece_offset_ = 0;
    }
    const bool full = taken == 0 && !rest.empty();
    if (!UsesGpu()) {
      CutByCpu();
    } else if (full) {
      // What is left of a piece is shorter than a chunk, and waits for more.
      if (SendToGpu(cutter_->capacity_bytes() / 2)) {
        KERF_RETURN_IF_ERROR(Await(&StreamEngine::TakeGpuCuts));
        return true;
      }
      CutByCpu();
    }
    if (!full && cutter_->chunks().size() < kBatchChunks) continue;
    KERF_RETURN_IF_ERROR(AnswerChunks());
    if (full && !is_waiting()) cutter_->Compact();
    // The caller comes back when the index has answered, or the client has read.
    if (is_waiting() || IsOutputFull()) return true;
  }
  data_ = nullptr;
  return true;
}

absl::Status StreamEngine::OnFileEnd(const v1::FileEnd& end) {
  if (!session_->in_file()) return session_->EndFile(end, ContentHash{});
  if (SendToGpu(chunker_->max_chunk_bytes())) {
    // It is there until the next frame is asked for.
    file_end_ = &end;
    return Await(&StreamEngine::TakeLastGpuCuts);
  }
  return FinishFile(end);
}

absl::Status StreamEngine::FinishFile(const v1::FileEnd& end) {
  CountPause(cutter_->uncut_bytes());
  KERF_RETURN_IF_ERROR(session_->EndFile(end, cutter_->EndFile()));
  // Else its last chunk says so when it is answered.
  const std::span<const CutChunk> rest = cutter_->chunks();
  if (hints_ != nullptr && (rest.empty() || !rest.back().ends_file)) {
    hints_->FileEnded(session_->file_number());
  }
  KERF_RETURN_IF_ERROR(AnswerDone());
  if (hints_ != nullptr) KERF_RETURN_IF_ERROR(AccountSession());
  return cutter_->chunks().size() < kBatchChunks ? absl::OkStatus() : AnswerChunks();
}

absl::Status StreamEngine::OnCommit(const v1::Commit& commit) {
  KERF_ASSIGN_OR_RETURN(commit_plan_, session_->PlanCommit(commit));
  // It is there until the next frame is asked for.
  commit_ = &commit;
  std::shared_ptr<StreamCall> call = NewCall();
  if (commit_plan_.others.empty()) return CommitEntries(*call);
  call->digests = commit_plan_.others;
  return LookUp(std::move(call), &StreamEngine::CommitKnown);
}

absl::Status StreamEngine::CommitKnown(StreamCall& call) {
  for (std::size_t index = 0; index < call.results.size(); ++index) {
    if (call.results[index].verdict == Verdict::kNew) {
      return session_->UnknownDigest(call.digests[index]);
    }
  }
  return CommitEntries(call);
}

absl::Status StreamEngine::CommitEntries(StreamCall& call) {
  if (commit_plan_.entries.empty()) return AnswerCommit(call);
  std::shared_ptr<StreamCall> next = NewCall();
  next->entries = std::move(commit_plan_.entries);
  return Commit(std::move(next), &StreamEngine::AnswerCommit);
}

absl::Status StreamEngine::AnswerCommit(StreamCall& call) {
  v1::UploadAnswer answer;
  v1::Committed& committed = *answer.mutable_committed();
  committed = session_->ApplyCommit(*commit_, call.entries.size() + commit_plan_.others.size());
  if (hints_ != nullptr) {
    for (const auto& file : committed.files()) {
      hints_->Committed(file.file_number(), file.durable_offset());
    }
  }
  commit_ = nullptr;
  commit_plan_ = CommitPlan();
  AppendAnswer(answer, &answers_);
  KERF_RETURN_IF_ERROR(AnswerDone());
  return AccountSession();
}

absl::Status StreamEngine::OnReportStale(const v1::ReportStale& report) {
  std::shared_ptr<StreamCall> call = NewCall();
  KERF_ASSIGN_OR_RETURN(call->entries, session_->PlanStale(report));
  if (call->entries.empty()) return absl::OkStatus();
  call->digests.reserve(call->entries.size());
  for (const IndexEntry& entry : call->entries) call->digests.push_back(entry.digest);
  return LookUp(std::move(call), &StreamEngine::ForgetStale);
}

absl::Status StreamEngine::ForgetStale(StreamCall& call) {
  if (hints_ != nullptr) hints_->DropVerdicts();
  std::shared_ptr<StreamCall> next = NewCall();
  next->digests = std::move(call.digests);
  next->results = std::move(call.results);
  next->entries = std::move(call.entries);
  return Forget(std::move(next), &StreamEngine::AddStale);
}

absl::Status StreamEngine::AddStale(StreamCall& call) {
  for (std::size_t index = 0; index < call.digests.size(); ++index) {
    const LookupResult& result = call.results[index];
    KERF_RETURN_IF_ERROR(session_->AddStale(
        call.digests[index], result.verdict == Verdict::kNew ? 0 : result.length_bytes));
  }
  return AccountSession();
}

absl::Status StreamEngine::OnDrain(std::chrono::milliseconds drain) {
  if (session_->is_draining()) return absl::OkStatus();
  if (!session_->is_open()) return MakeError(Reason::kDraining, "the server is stopping");
  KERF_RETURN_IF_ERROR(AnswerChunks());
  if (is_waiting()) {
    // Comes again when the chunks are answered.
    const std::lock_guard lock(mutex_);
    queue_.push_front({nullptr, drain});
    return absl::OkStatus();
  }
  cutter_->AbandonFile();
  if (hints_ != nullptr) hints_->FileAbandoned();
  v1::UploadAnswer answer;
  if (context_->metrics != nullptr) context_->metrics->goaways.Add();
  *answer.mutable_go_away() = session_->BeginDrain(static_cast<std::uint32_t>(drain.count()));
  AppendAnswer(answer, &answers_);
  return absl::OkStatus();
}

absl::Status StreamEngine::OnDry() {
  KERF_RETURN_IF_ERROR(AnswerChunks());
  if (is_waiting()) return absl::OkStatus();
  if (gpu_plan_ != nullptr) {
    // What waited for the buffer to be full waits no longer. Nobody comes again if the GPU has
    // answered already.
    if (SendToGpu(chunker_->max_chunk_bytes())) {
      KERF_RETURN_IF_ERROR(Await(&StreamEngine::TakeGpuCuts));
    } else {
      CutByCpu();
      KERF_RETURN_IF_ERROR(AnswerChunks());
    }
    if (is_waiting()) return absl::OkStatus();
  }
  const bool in_file = session_->in_file() && !session_->is_draining();
  if (cutter_ != nullptr) {
    // A stream that waits for its client holds at most the beginning of a chunk, or of two where it
    // follows hints.
    cutter_->Park();
    gpu_piece_ = nullptr;
    buffer_memory_.Set(cutter_->memory_bytes());
  }
  bool half_closed = false;
  {
    const std::lock_guard lock(mutex_);
    if (!queue_.empty()) return absl::OkStatus();
    half_closed = half_closed_;
    expecting_.store(!session_->is_open() ? Expecting::kOpen
                     : in_file            ? Expecting::kFile
                                          : Expecting::kAnything,
                     std::memory_order_release);
  }
  if (half_closed) End(session_->HalfClose());
  return absl::OkStatus();
}

absl::Status StreamEngine::AnswerChunks() {
  if (cutter_ == nullptr || cutter_->chunks().empty()) return absl::OkStatus();
  std::shared_ptr<StreamCall> call = NewCall();
  const DigestAlgorithm algorithm = call->repository.digest_algorithm;
  clock_.Enter(Stage::kHash);
  FingerprintCut(cutter_->chunks(), algorithm, &call->chunk_digests);
  clock_.Enter(Stage::kCut);
  if (hints_ == nullptr) {
    call->digests = call->chunk_digests;
    return LookUp(std::move(call), &StreamEngine::AnswerLookedUp);
  }
  if (hints_->Foresee(call->chunk_digests, &call->foreseen)) {
    CountLookup(&RapidTotals::lookups_foreseen);
    return AnswerLookedUp(*call);
  }
  for (std::size_t index = 0; index < call->chunk_digests.size(); ++index) {
    if (!call->is_foreseen(index)) call->digests.push_back(call->chunk_digests[index]);
  }
  if (context_->asks_ahead) {
    const bool is_known = cutter_->follows_hints() || hints_->is_known_file();
    hints_->AppendAhead(is_known, call->chunk_digests, &call->digests);
  }
  CountLookup(&RapidTotals::lookups_asked);
  return LookUp(std::move(call), &StreamEngine::AnswerLookedUp);
}

absl::Status StreamEngine::AnswerLookedUp(StreamCall& call) {
  if (!call.digests.empty() && !call.foreseen.empty() && !hints_->is_foreseen_yet()) {
    // The index took its time.
    std::shared_ptr<StreamCall> again = NewCall();
    again->digests = call.chunk_digests;
    again->chunk_digests = std::move(call.chunk_digests);
    CountLookup(&RapidTotals::lookups_asked);
    return LookUp(std::move(again), &StreamEngine::AnswerLookedUp);
  }
  const std::span<const CutChunk> chunks = cutter_->chunks();
  const std::size_t digest_bytes =
      DigestSizeBytes(session_->parameters().repository.digest_algorithm);
  std::vector<ChunkAnswer>& answered = ThreadAnswers();
  answered.clear();
  std::uint64_t file_number = chunks.front().file_number;
  std::size_t asked_count = 0;
  ChunkTally tally;
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    const CutChunk& chunk = chunks[index];
    const Digest& digest = call.chunk_digests[index];
    LookupResult& result =
        call.is_foreseen(index) ? call.foreseen[index] : call.results[asked_count++];
    // Never the same chunk, whatever the digest says.
    if (result.length_bytes != chunk.bytes.size()) result = LookupResult{};
    KERF_RETURN_IF_ERROR(session_->AddChunk({chunk.file_number, chunk.end_offset,
                                             static_cast<std::uint32_t>(chunk.bytes.size()), digest,
                                             result.verdict}));
    if (hints_ != nullptr) hints_->Answered(chunk, digest, result.verdict);
    tally.Add(result.verdict, chunk.bytes.size());
    if (chunk.file_number != file_number) {
      AppendChunks(file_number, answered, digest_bytes, &answers_);
      answered.clear();
      file_number = chunk.file_number;
    }
    answered.push_back(
        {chunk.end_offset, &digest, result.verdict, result.locator, Xxh3Of64(chunk.bytes)});
  }
  AppendChunks(file_number, answered, digest_bytes, &answers_);
  if (context_->metrics != nullptr) tally.FlushTo(*context_->metrics);
  FollowHints();
  if (hints_ != nullptr && call.digests.size() > asked_count) {
    hints_->LearnAhead(std::span(call.digests).subspan(asked_count),
                       std::span(call.results).subspan(asked_count));
  }
  cutter_->ClearChunks();
  if (cutter_->uncut_bytes() == 0) cutter_->Compact();
  KERF_RETURN_IF_ERROR(AccountSession());
  KERF_RETURN_IF_ERROR(AnswerDone());
  if (answers_.size() >= kSendBytes) SendAnswers();
  return absl::OkStatus();
}

void StreamEngine::FollowHints() {
  if (hints_ == nullptr || cutter_->follows_hints()) return;
  // Also where the cutter has no use for it: it fetches what is to be looked up ahead.
  const Hint next = hints_->FindNext();
  if (cutter_->wants_hint()) cutter_->FollowHint(next);
}

void StreamEngine::CountLookup(std::atomic<std::uint64_t> RapidTotals::* counter) {
  if (context_->rapid_totals == nullptr) return;
  (context_->rapid_totals->*counter).fetch_add(1, std::memory_order_relaxed);
}

absl::Status StreamEngine::AnswerDone() {
  if (!session_->has_done()) return absl::OkStatus();
  v1::UploadAnswer answer;
  for (v1::FileDone& done : session_->TakeDone()) {
    if (hints_ != nullptr) hints_->Done(done.file_number());
    *answer.mutable_file_done() = std::move(done);
    AppendAnswer(answer, &answers_);
  }
  return absl::OkStatus();
}

absl::Status StreamEngine::AccountSession() {
  const std::size_t bytes = kStreamBytes + session_->memory_bytes();
  const MemoryBudget& budget = *context_->work_budget;
  const std::size_t free_bytes = session_memory_.bytes() + budget.limit_bytes() -
                                 std::min(budget.limit_bytes(), budget.used_bytes());
  // Hints give way first, and nobody else for them.
  if (hints_ != nullptr && bytes + hints_->memory_bytes() > free_bytes) hints_->Shed();
  if (session_memory_.Set(bytes + (hints_ != nullptr ? hints_->memory_bytes() : 0))) {
    session_bytes_.store(session_memory_.bytes(), std::memory_order_relaxed);
    return absl::OkStatus();
  }
  return MakeError(Reason::kMemoryExhausted,
                   Cat("no memory for ", session_->uncommitted_chunk_count(),
                       " uncommitted chunks of this stream: the server's streams hold ",
                       context_->work_budget->used_bytes(), " bytes"));
}

void StreamEngine::SendAnswers() {
  if (!answers_.empty()) sink_->Send(std::exchange(answers_, {}));
}

bool StreamEngine::IsOutputFull() const {
  return sink_->unsent_bytes() + answers_.size() >= context_->answer_budget_bytes;
}

bool StreamEngine::ReserveBuffer() {
  if (buffer_memory_.bytes() == cutter_->bytes_with_buffer()) return true;
  const std::size_t capacity_bytes = cutter_->capacity_bytes();
  if (!buffer_memory_.Set(capacity_bytes) && !awaits_memory_.exchange(true)) {
    context_->work_budget->WakeOnRelease([weak = weak_from_this()] {
      const std::shared_ptr<StreamEngine> self = weak.lock();
      if (self == nullptr) return;
      self->awaits_memory_.store(false);
      self->Wake();
    });
  }
  if (!buffer_memory_.Set(capacity_bytes)) return false;
  // What stays beside it is there already.
  buffer_memory_.Force(cutter_->bytes_with_buffer());
  return true;
}

void StreamEngine::End(const absl::Status& status) {
  if (std::exchange(ended_, true)) return;
  SendAnswers();
  AddTotals();
  sink_->Finish(status);
  DropEverything();
}

void StreamEngine::AddTotals() {
  if (cutter_ == nullptr || context_->rapid_totals == nullptr) return;
  const RapidCounters counters = cutter_->rapid_counters();
  context_->rapid_totals->Add(counters, std::exchange(added_, counters));
  if (hints_ == nullptr) return;
  const std::uint64_t ahead_count = hints_->asked_ahead_count();
  context_->rapid_totals->digests_asked_ahead.fetch_add(
      ahead_count - std::exchange(added_ahead_count_, ahead_count), std::memory_order_relaxed);
}

void StreamEngine::DropEverything() {
  ended_ = true;
  expecting_.store(Expecting::kNothing, std::memory_order_release);
  std::deque<Item> queue;
  {
    const std::lock_guard lock(mutex_);
    queue.swap(queue_);
  }
  data_ = nullptr;
  message_.reset();
  queue.clear();
  context_->input_budget->Release(queued_bytes_.exchange(0));
  // The index may still write into what it was asked.
  if (call_ != nullptr) call_->phase.store(StreamCall::Phase::kDropped);
  call_ = nullptr;
  commit_ = nullptr;
  file_end_ = nullptr;
  gpu_piece_ = nullptr;
  awaits_index_.store(false);
  call_memory_.Set(0);
  AddTotals();
  cutter_.reset();
  hints_.reset();
  chunker_.reset();
  buffer_memory_.Set(0);
  session_ = nullptr;
  session_memory_.Set(0);
  session_bytes_.store(0, std::memory_order_relaxed);
  answers_.clear();
  sink_.reset();
}

}  // namespace kerf
