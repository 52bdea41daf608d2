#include "server/worker/upload.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/fingerprint/xxh3.h"
#include "server/audit/call_record.h"
#include "server/errors/errors.h"
#include "server/index/index.h"
#include "server/worker/answer_encoder.h"
#include "server/worker/batch_answers.h"
#include "server/worker/cut_digests.h"

namespace kerf {
namespace {

// Data is copied and cut in steps of this size while it is in the cache.
constexpr std::size_t kStepBytes = 64 * 1024;
// Answers are handed to the transport at least this often, so that the client can begin to store.
constexpr std::size_t kSendBytes = 64 * 1024;
// After so many frames it is asked whether the turn is over, whatever they are: a message may have
// a million of them, and a frame that is one step is not asked on its own.
constexpr std::size_t kFramesPerLook = 16;
// What an open stream holds beside buffers, messages and the tables of its session.
constexpr std::size_t kStreamBytes = 16 * 1024;
// Of what the index is asked: the stream's and, as it may outlive the stream, the index's own.
constexpr std::size_t kCallCopies = 2;

bool HasUnknownFields(const v1::UploadFrame& frame) {
  return !frame.GetReflection()->GetUnknownFields(frame).empty();
}

bool IsForeseen(const std::vector<LookupResult>& foreseen, std::size_t index) {
  return !foreseen.empty() && foreseen[index].verdict == Verdict::kDuplicate;
}

}  // namespace

Upload::Upload(Strand* strand)
    : context_(strand->context()),
      strand_(*strand),
      session_(context_.limits),
      buffer_memory_(context_.work_budget),
      session_memory_(context_.work_budget),
      serving_(Serve()) {}

Upload::~Upload() { AddTotals(); }

Task<absl::Status> Upload::Serve() {
  while (true) {
    while (is_blocked()) co_await strand_.NextTurn();
    std::optional<Strand::Item> item = strand_.TakeItem();
    if (!item.has_value()) {
      if (has_unanswered()) KERF_CO_RETURN_IF_ERROR(co_await AnswerAll());
      // What came meanwhile needs the buffer.
      if (strand_.has_items()) continue;
      Park();
      const Strand::Rest rest = strand_.RestUntilInput(expecting());
      if (rest == Strand::Rest::kHalfClosed) {
        KERF_CO_RETURN_IF_ERROR(session_.HalfClose());
        co_return refusal_;
      }
      if (rest == Strand::Rest::kNothing) co_await strand_.NextTurn();
      continue;
    }
    if (item->message == nullptr) {
      KERF_CO_RETURN_IF_ERROR(co_await OnDrain(item->drain));
      continue;
    }
    message_ = std::move(item->message);
    KERF_CO_RETURN_IF_ERROR(co_await ServeMessage());
    message_named_bytes_ = 0;
    is_opening_ = false;
    if (strand_.Release(std::move(message_))) co_await strand_.Yield();
  }
}

Task<absl::Status> Upload::ServeMessage() {
  for (std::size_t frame_count = 1;; ++frame_count) {
    while (is_blocked()) co_await strand_.NextTurn();
    KERF_CO_ASSIGN_OR_RETURN(const Frame* const frame, message_->Next());
    if (frame == nullptr) co_return absl::OkStatus();
    KERF_CO_RETURN_IF_ERROR(co_await OnFrame(*frame));
    if (frame_count % kFramesPerLook == 0 && strand_.is_turn_over()) co_await strand_.Yield();
  }
}

Task<absl::Status> Upload::OnFrame(const Frame& frame) {
  if (frame.control != nullptr) return OnControl(*frame.control);
  if (session_.is_draining()) return absl::OkStatus();
  KERF_RETURN_IF_ERROR(session_.AddData(frame.data_bytes));
  strand_.record().Add(audit::Count::kBytes, frame.data_bytes);
  if (frame.data_bytes == 0) return absl::OkStatus();
  data_ = {.pieces = frame.data};
  return Take();
}

Task<absl::Status> Upload::OnControl(const v1::UploadFrame& frame) {
  switch (frame.frame_case()) {
    case v1::UploadFrame::kOpen:
      return OnOpen(frame.open());
    case v1::UploadFrame::kFileBegin:
      if (session_.is_draining()) return absl::OkStatus();
      return OnFileBegin(frame.file_begin());
    case v1::UploadFrame::kFileEnd:
      if (session_.is_draining()) return absl::OkStatus();
      return OnFileEnd(frame.file_end());
    case v1::UploadFrame::kChunkDigests:
      if (session_.is_draining()) return absl::OkStatus();
      return OnChunkDigests(frame.chunk_digests());
    case v1::UploadFrame::kSharedData:
      if (session_.is_draining()) return absl::OkStatus();
      return OnSharedData(frame.shared_data());
    case v1::UploadFrame::kCommit:
      return OnCommit(frame.commit());
    case v1::UploadFrame::kReportStale:
      return OnReportStale(frame.report_stale());
    case v1::UploadFrame::kDrain:
      return OnDrain(std::chrono::milliseconds(frame.drain().drain_ms()));
    default:
      // Of a later release, whose sender knows that it may be passed over (PRO-93).
      if (HasUnknownFields(frame)) return absl::OkStatus();
      return MakeError(Reason::kMalformedMessage, "a frame without content");
  }
}

absl::Status Upload::OnFileBegin(const v1::FileBegin& begin) {
  KERF_RETURN_IF_ERROR(session_.BeginFile(begin));
  if (named_ != nullptr) {
    named_->BeginFile(session_.file_number(), begin.start_offset());
  } else {
    cutter_->BeginFile(session_.file_number(), begin.start_offset());
  }
  return absl::OkStatus();
}

Task<absl::Status> Upload::Take() {
  const absl::StatusOr<Taken> taken = TakeData();
  if (!taken.ok()) return taken.status();
  if (*taken == Taken::kAll) return absl::OkStatus();
  return TakeRest(*taken);
}

absl::StatusOr<std::size_t> Upload::TakeStep() {
  if (data_.pieces.empty()) {
    const std::span<std::uint8_t> room = cutter_->Room();
    const std::size_t count = std::min({room.size(), data_.shared_bytes, kStepBytes});
    KERF_RETURN_IF_ERROR(ReadShared(room.first(count)));
    cutter_->Grow(count);
    data_.shared_offset += count;
    data_.shared_bytes -= count;
    return count;
  }
  const Bytes rest = data_.pieces.front().subspan(data_.piece_offset);
  const std::size_t count = cutter_->Append(rest.first(std::min(rest.size(), kStepBytes)));
  data_.piece_offset += count;
  if (count == rest.size()) {
    data_.pieces = data_.pieces.subspan(1);
    data_.piece_offset = 0;
  }
  return count;
}

absl::StatusOr<Upload::Taken> Upload::TakeData() {
  if (data_.empty()) return Taken::kAll;
  if (!ReserveBuffer()) return Taken::kNoBuffer;
  while (!data_.empty()) {
    KERF_ASSIGN_OR_RETURN(const std::size_t count, TakeStep());
    const bool is_full = count == 0 && !data_.empty();
    if (!uses_gpu()) {
      CutByCpu();
    } else if (is_full) {
      return Taken::kFullForGpu;
    }
    if (is_full) return Taken::kFull;
    if (cutter_->chunks().size() >= kBatchChunks) return Taken::kBatch;
    if (!data_.empty() && strand_.is_turn_over()) return Taken::kTurnOver;
  }
  return Taken::kAll;
}

Task<absl::Status> Upload::TakeRest(Taken taken) {
  while (taken != Taken::kAll) {
    KERF_CO_RETURN_IF_ERROR(co_await MakeRoom(taken));
    KERF_CO_ASSIGN_OR_RETURN(taken, TakeData());
  }
  co_return absl::OkStatus();
}

Task<absl::Status> Upload::MakeRoom(Taken taken) {
  if (taken == Taken::kNoBuffer) {
    co_await strand_.NextTurn();
    co_return absl::OkStatus();
  }
  if (taken == Taken::kTurnOver) {
    co_await strand_.Yield();
    co_return absl::OkStatus();
  }
  bool is_to_be_compacted = taken == Taken::kFull;
  if (taken == Taken::kFullForGpu) {
    // What is left of a piece is shorter than a chunk, and waits for more.
    const std::shared_ptr<StreamCall> call = SendToGpu(cutter_->capacity_bytes() / 2);
    if (call != nullptr) KERF_CO_RETURN_IF_ERROR(co_await strand_.AnswerOf(call, 0));
    if (call == nullptr || !gpu_->Take(*cutter_)) CutByCpu();
    is_to_be_compacted = call == nullptr;
  }
  KERF_CO_RETURN_IF_ERROR(co_await AnswerChunks());
  if (is_to_be_compacted) cutter_->Compact();
  while (is_blocked()) co_await strand_.NextTurn();
  co_return absl::OkStatus();
}

Task<absl::Status> Upload::OnFileEnd(const v1::FileEnd& end) {
  if (!session_.in_file()) return session_.EndFile(end, ContentHash{});
  if (named_ != nullptr) return EndNamedFile(end);
  return uses_gpu() ? EndFileByGpu(end) : FinishFile(end);
}

Task<absl::Status> Upload::EndFileByGpu(const v1::FileEnd& end) {
  if (const auto call = SendToGpu(chunker_->max_chunk_bytes()); call != nullptr) {
    KERF_CO_RETURN_IF_ERROR(co_await strand_.AnswerOf(call, 0));
    // What is handed back is cut with the rest.
    gpu_->Take(*cutter_);
  }
  co_return co_await FinishFile(end);
}

Task<absl::Status> Upload::FinishFile(const v1::FileEnd& end) {
  if (gpu_ != nullptr) gpu_->CountPause(cutter_->uncut_bytes());
  KERF_RETURN_IF_ERROR(session_.EndFile(end, cutter_->EndFile()));
  strand_.record().Add(audit::Count::kFiles, 1);
  // Else its last chunk says so when it is answered.
  const std::span<const CutChunk> rest = cutter_->chunks();
  if (hints_ != nullptr && (rest.empty() || !rest.back().ends_file)) {
    hints_->FileEnded(session_.file_number());
  }
  KERF_RETURN_IF_ERROR(AnswerDone());
  if (hints_ != nullptr) KERF_RETURN_IF_ERROR(AccountSession());
  if (cutter_->chunks().size() < kBatchChunks) return absl::OkStatus();
  return AnswerChunks();
}

Task<absl::Status> Upload::OnCommit(const v1::Commit& commit) {
  KERF_CO_ASSIGN_OR_RETURN(CommitPlan plan, session_.PlanCommit(commit));
  const std::size_t held_count = plan.entries.size() + plan.others.size();
  if (!plan.others.empty()) {
    const std::shared_ptr<StreamCall> call = NewCall();
    call->digests = std::move(plan.others);
    KERF_CO_RETURN_IF_ERROR(co_await LookUp(call));
    NoteEpoch(*call);
    for (std::size_t index = 0; index < call->results.size(); ++index) {
      if (call->results[index].verdict == Verdict::kNew && refusal_.ok()) {
        co_return session_.UnknownDigest(call->digests[index]);
      }
    }
  }
  if (!plan.entries.empty()) {
    const std::shared_ptr<StreamCall> call = NewCall();
    const std::size_t entry_count = plan.entries.size();
    call->entries = std::move(plan.entries);
    strand_.record().AskFor(audit::Count::kCommitsAsked, entry_count);
    const absl::Status status = co_await Commit(call);
    if (IsRepositoryFull(status)) {
      refusal_.Update(status);
    } else {
      KERF_CO_RETURN_IF_ERROR(status);
      strand_.record().Add(audit::Count::kCommitted, entry_count);
    }
  }
  // Only now are they durable: the index holds them all. Where it has no room for them the store
  // does, which is what the client goes by.
  v1::UploadAnswer answer;
  v1::Committed& committed = *answer.mutable_committed();
  committed = session_.ApplyCommit(commit, held_count);
  committed.set_index_epoch(index_epoch_);
  if (hints_ != nullptr) {
    for (const auto& file : committed.files()) {
      hints_->Committed(file.file_number(), file.durable_offset());
    }
  }
  AppendAnswer(answer, &answers_);
  KERF_CO_RETURN_IF_ERROR(AnswerDone());
  co_return AccountSession();
}

Task<absl::Status> Upload::OnReportStale(const v1::ReportStale& report) {
  const std::shared_ptr<StreamCall> lookup = NewCall();
  KERF_CO_ASSIGN_OR_RETURN(std::vector<IndexEntry> entries, session_.PlanStale(report));
  if (entries.empty()) co_return absl::OkStatus();
  lookup->digests.reserve(entries.size());
  for (const IndexEntry& entry : entries) lookup->digests.push_back(entry.digest);
  KERF_CO_RETURN_IF_ERROR(co_await LookUp(lookup, entries.size() * sizeof(IndexEntry)));
  NoteEpoch(*lookup);
  if (hints_ != nullptr) hints_->DropVerdicts();
  const std::shared_ptr<StreamCall> forget = NewCall();
  forget->entries = std::move(entries);
  strand_.record().AskFor(audit::Count::kForgetsAsked, lookup->digests.size());
  KERF_CO_RETURN_IF_ERROR(co_await Forget(forget));
  strand_.record().Add(audit::Count::kForgotten, lookup->digests.size());
  for (std::size_t index = 0; index < lookup->digests.size(); ++index) {
    const LookupResult& result = lookup->results[index];
    KERF_CO_RETURN_IF_ERROR(session_.AddStale(
        lookup->digests[index], result.verdict == Verdict::kNew ? 0 : result.length_bytes));
  }
  co_return AccountSession();
}

Task<absl::Status> Upload::OnDrain(std::chrono::milliseconds drain) {
  if (session_.is_draining()) co_return absl::OkStatus();
  if (!session_.is_open()) co_return MakeError(Reason::kDraining, "the server is stopping");
  KERF_CO_RETURN_IF_ERROR(co_await AnswerChunks());
  if (cutter_ != nullptr) cutter_->AbandonFile();
  if (hints_ != nullptr) hints_->FileAbandoned();
  v1::UploadAnswer answer;
  if (context_.metrics != nullptr) context_.metrics->goaways.Add();
  *answer.mutable_go_away() = session_.BeginDrain(static_cast<std::uint32_t>(drain.count()));
  AppendAnswer(answer, &answers_);
  co_return absl::OkStatus();
}

bool Upload::has_unanswered() const {
  if (named_ != nullptr) return !named_->chunks().empty();
  if (cutter_ == nullptr) return false;
  return !cutter_->chunks().empty() ||
         (gpu_ != nullptr && cutter_->uncut_bytes() >= chunker_->max_chunk_bytes());
}

Task<absl::Status> Upload::AnswerAll() {
  while (has_unanswered()) {
    KERF_CO_RETURN_IF_ERROR(co_await AnswerChunks());
    if (gpu_ == nullptr) continue;
    // What waited for the buffer to be full waits no longer.
    const std::shared_ptr<StreamCall> call = SendToGpu(chunker_->max_chunk_bytes());
    if (call != nullptr) KERF_CO_RETURN_IF_ERROR(co_await strand_.AnswerOf(call, 0));
    if (call == nullptr || !gpu_->Take(*cutter_)) CutByCpu();
    KERF_CO_RETURN_IF_ERROR(co_await AnswerChunks());
  }
  co_return absl::OkStatus();
}

Task<absl::Status> Upload::AnswerChunks() {
  if (named_ != nullptr) return AnswerNamed();
  if (cutter_->chunks().empty()) return absl::OkStatus();
  return AnswerBatch();
}

Task<absl::Status> Upload::AnswerBatch() {
  std::vector<Digest> digests;
  strand_.clock().Enter(Stage::kHash);
  FingerprintCut(cutter_->chunks(), session_.parameters().repository.digest_algorithm, &digests);
  strand_.clock().Enter(Stage::kCut);
  std::shared_ptr<StreamCall> call = NewCall();
  Foreseen foreseen;
  if (hints_ == nullptr) {
    call->digests = std::move(digests);
    KERF_CO_RETURN_IF_ERROR(co_await LookUp(call));
    co_return Answer(call->digests, foreseen, *call);
  }
  if (hints_->Foresee(digests, &foreseen)) {
    CountLookup(&RapidTotals::lookups_foreseen);
    co_return Answer(digests, foreseen, *call);
  }
  AppendQuestions(digests, foreseen, &call->digests);
  const std::size_t held_bytes =
      digests.size() * sizeof(Digest) + foreseen.size() * (sizeof(LookupResult) + kMaxLocatorBytes);
  KERF_CO_RETURN_IF_ERROR(co_await LookUp(call, held_bytes));
  if (!foreseen.empty() && !hints_->is_foreseen_yet()) {
    // The index took its time: what was known before is asked for, too.
    foreseen.clear();
    call = NewCall();
    call->digests = digests;
    CountLookup(&RapidTotals::lookups_asked);
    KERF_CO_RETURN_IF_ERROR(co_await LookUp(call, digests.size() * sizeof(Digest)));
  }
  co_return Answer(digests, foreseen, *call);
}

void Upload::AppendQuestions(std::span<const Digest> digests, const Foreseen& foreseen,
                             std::vector<Digest>* asked) {
  for (std::size_t index = 0; index < digests.size(); ++index) {
    if (!IsForeseen(foreseen, index)) asked->push_back(digests[index]);
  }
  if (context_.asks_ahead) {
    const bool is_known = cutter_->follows_hints() || hints_->is_known_file();
    hints_->AppendAhead(is_known, digests, asked);
  }
  CountLookup(&RapidTotals::lookups_asked);
}

absl::Status Upload::Answer(std::span<const Digest> digests, Foreseen& foreseen, StreamCall& call) {
  NoteEpoch(call);
  const std::span<const CutChunk> chunks = cutter_->chunks();
  std::size_t asked_count = 0;
  BatchAnswers batch(&session_, &answers_);
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    const CutChunk& chunk = chunks[index];
    LookupResult& result =
        IsForeseen(foreseen, index) ? foreseen[index] : call.results[asked_count++];
    KERF_RETURN_IF_ERROR(batch.Add(chunk.file_number, chunk.end_offset,
                                   static_cast<std::uint32_t>(chunk.bytes.size()), digests[index],
                                   Xxh3Of64(chunk.bytes), &result));
    if (hints_ != nullptr) hints_->Answered(chunk, digests[index], result.verdict);
  }
  FinishBatch(batch, chunks.size());
  FollowHints();
  if (hints_ != nullptr && call.digests.size() > asked_count) {
    hints_->LearnAhead(std::span(call.digests).subspan(asked_count),
                       std::span(call.results).subspan(asked_count));
  }
  cutter_->ClearChunks();
  if (cutter_->uncut_bytes() == 0) cutter_->Compact();
  return FinishAnswer();
}

void Upload::FinishBatch(BatchAnswers& batch, std::size_t chunk_count) {
  batch.Finish(context_.metrics);
  strand_.record().Add(audit::Count::kChunks, chunk_count);
  strand_.record().Add(audit::Count::kNewChunks, batch.new_count());
}

absl::Status Upload::FinishAnswer() {
  KERF_RETURN_IF_ERROR(AccountSession());
  KERF_RETURN_IF_ERROR(AnswerDone());
  if (answers_.size() >= kSendBytes) SendAnswers();
  return absl::OkStatus();
}

void Upload::FollowHints() {
  if (hints_ == nullptr || cutter_->follows_hints()) return;
  // Also where the cutter has no use for it: it fetches what is to be looked up ahead.
  const Hint next = hints_->FindNext();
  if (cutter_->wants_hint()) cutter_->FollowHint(next);
}

void Upload::CountLookup(std::atomic<std::uint64_t> RapidTotals::* counter) {
  if (context_.rapid_totals == nullptr) return;
  (context_.rapid_totals->*counter).fetch_add(1, std::memory_order_relaxed);
}

absl::Status Upload::AnswerDone() {
  if (!session_.has_done()) return absl::OkStatus();
  v1::UploadAnswer answer;
  for (v1::FileDone& done : session_.TakeDone()) {
    if (hints_ != nullptr) hints_->Done(done.file_number());
    *answer.mutable_file_done() = std::move(done);
    answer.mutable_file_done()->set_index_epoch(index_epoch_);
    AppendAnswer(answer, &answers_);
  }
  return absl::OkStatus();
}

absl::Status Upload::AccountSession() {
  const std::size_t bytes =
      kStreamBytes + session_.memory_bytes() + (named_ != nullptr ? named_->memory_bytes() : 0);
  const MemoryBudget& budget = *context_.work_budget;
  const std::size_t free_bytes = session_memory_.bytes() + budget.limit_bytes() -
                                 std::min(budget.limit_bytes(), budget.used_bytes());
  // Hints give way first, and nobody else for them.
  if (hints_ != nullptr && bytes + hints_->memory_bytes() > free_bytes) hints_->Shed();
  if (session_memory_.Set(bytes + (hints_ != nullptr ? hints_->memory_bytes() : 0))) {
    strand_.set_session_bytes(session_memory_.bytes());
    return absl::OkStatus();
  }
  return MakeError(Reason::kMemoryExhausted,
                   Cat("no memory for ", session_.uncommitted_chunk_count(),
                       " uncommitted chunks of this stream: the server's streams hold ",
                       context_.work_budget->used_bytes(), " bytes"));
}

std::shared_ptr<StreamCall> Upload::NewCall() const {
  auto call = std::make_shared<StreamCall>();
  call->strand = strand_.weak_from_this();
  call->repository = session_.parameters().repository;
  call->session_epoch = session_.parameters().store_epoch;
  return call;
}

void Upload::NoteEpoch(const StreamCall& call) {
  for (const LookupResult& result : call.results) {
    index_epoch_ = std::max(index_epoch_, result.repository_epoch);
  }
}

Strand::Answer Upload::LookUp(std::shared_ptr<StreamCall> call, std::size_t held_bytes) {
  held_bytes += kCallCopies * call->digests.size() * (sizeof(Digest) + sizeof(LookupResult));
  strand_.BeginCall(Stage::kLookup);
  strand_.clock().Enter(Stage::kLookup);
  AskLookup(*context_.index, call);
  strand_.clock().Enter(Stage::kCut);
  return strand_.AnswerOf(std::move(call), held_bytes);
}

Strand::Answer Upload::Commit(std::shared_ptr<StreamCall> call) {
  const std::size_t held_bytes = kCallCopies * call->entries.size() * sizeof(IndexEntry);
  strand_.BeginCall(Stage::kCommit);
  strand_.clock().Enter(Stage::kCommit);
  AskCommit(*context_.index, call);
  strand_.clock().Enter(Stage::kCut);
  return strand_.AnswerOf(std::move(call), held_bytes);
}

Strand::Answer Upload::Forget(std::shared_ptr<StreamCall> call) {
  const std::size_t held_bytes = kCallCopies * call->entries.size() * sizeof(IndexEntry);
  strand_.BeginCall(Stage::kForget);
  strand_.clock().Enter(Stage::kForget);
  AskForget(*context_.index, call);
  strand_.clock().Enter(Stage::kCut);
  return strand_.AnswerOf(std::move(call), held_bytes);
}

Strand::Answer Upload::IsKnown(std::shared_ptr<StreamCall> call) {
  strand_.BeginCall(Stage::kLookup);
  AskKnown(*context_.repositories, call);
  return strand_.AnswerOf(std::move(call), 0);
}

std::shared_ptr<StreamCall> Upload::SendToGpu(std::size_t min_bytes) {
  std::shared_ptr<StreamCall> call = gpu_->Send(*cutter_, min_bytes);
  if (call != nullptr) strand_.BeginCall(Stage::kGpu);
  return call;
}

void Upload::CutByCpu() {
  const std::size_t before_bytes = cutter_->uncut_bytes();
  cutter_->Cut();
  if (gpu_ != nullptr) gpu_->CountPause(before_bytes - cutter_->uncut_bytes());
}

bool Upload::is_blocked() const {
  // When the client has read, the sink calls AnswersTaken.
  return strand_.is_cancelled() ||
         strand_.sink().unsent_bytes() + answers_.size() >= context_.answer_budget_bytes;
}

bool Upload::ReserveBuffer() {
  if (buffer_memory_.bytes() == cutter_->bytes_with_buffer()) return true;
  const std::size_t capacity_bytes = cutter_->capacity_bytes();
  if (!buffer_memory_.Set(capacity_bytes)) strand_.WakeOnMemory();
  if (!buffer_memory_.Set(capacity_bytes)) return false;
  // What stays beside it is there already.
  buffer_memory_.Force(cutter_->bytes_with_buffer());
  return true;
}

void Upload::Park() {
  if (named_ != nullptr) named_->Park();
  if (cutter_ == nullptr) return;
  cutter_->Park();
  if (gpu_ != nullptr) gpu_->Park();
  buffer_memory_.Set(cutter_->memory_bytes());
}

StreamEngine::Expecting Upload::expecting() const {
  using Expecting = StreamEngine::Expecting;
  if (!session_.is_open()) return Expecting::kOpen;
  return session_.in_file() && !session_.is_draining() ? Expecting::kFile : Expecting::kAnything;
}

void Upload::SendAnswers() {
  if (!answers_.empty()) strand_.sink().Send(std::exchange(answers_, {}));
}

void Upload::AddTotals() {
  if (cutter_ == nullptr || context_.rapid_totals == nullptr) return;
  const RapidCounters counters = cutter_->rapid_counters();
  context_.rapid_totals->Add(counters, std::exchange(added_, counters));
  if (hints_ == nullptr) return;
  const std::uint64_t ahead_count = hints_->asked_ahead_count();
  context_.rapid_totals->digests_asked_ahead.fetch_add(
      ahead_count - std::exchange(added_ahead_count_, ahead_count), std::memory_order_relaxed);
}

}  // namespace kerf
