// What a stream asks of the index and the GPUs, and how it waits for the answers.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "kernels/cuda/pipeline/host_selection.h"
#include "server/worker/stream_engine.h"

namespace kerf {
namespace {

// Of pieces that a stream sends to a GPU: when so many were given up the rest of it is likely to
// be.
constexpr int kMaxGivenUpInARow = 2;

}  // namespace

std::shared_ptr<StreamCall> StreamEngine::NewCall() const {
  auto call = std::make_shared<StreamCall>();
  call->repository = session_->parameters().repository;
  call->session_epoch = session_->parameters().store_epoch;
  return call;
}

absl::Status StreamEngine::LookUp(std::shared_ptr<StreamCall> call, Then then) {
  call_ = std::move(call);
  call_->results.assign(call_->digests.size(), LookupResult{});
  context_->index->Lookup(call_->repository, call_->session_epoch, call_->digests, call_->results,
                          Answered(Stage::kLookup));
  clock_.Enter(Stage::kCut);
  return Await(then);
}

absl::Status StreamEngine::Commit(std::shared_ptr<StreamCall> call, Then then) {
  call_ = std::move(call);
  context_->index->Commit(call_->repository, call_->session_epoch, call_->entries,
                          /*replace=*/false, Answered(Stage::kCommit));
  clock_.Enter(Stage::kCut);
  return Await(then);
}

absl::Status StreamEngine::Forget(std::shared_ptr<StreamCall> call, Then then) {
  call_ = std::move(call);
  context_->index->Forget(call_->repository, call_->entries, Answered(Stage::kForget));
  clock_.Enter(Stage::kCut);
  return Await(then);
}

// One object for all pieces of a stream, of which a GPU has one at most.
class StreamEngine::GpuPiece final : public cuda::PieceTaker {
 public:
  // `metrics` as of EngineContext.
  GpuPiece(std::weak_ptr<StreamEngine> engine, StreamMetrics* metrics)
      : engine_(std::move(engine)), metrics_(metrics) {}

  void OnPiece(cuda::PieceOutcome outcome) override {
    outcome_ = outcome;
    if (metrics_ != nullptr) {
      metrics_->Observe(Stage::kGpu, StageClock::Clock::now() - call_.asked_at);
    }
    Answer(engine_, call_);
  }
  void OnBatch(const cuda::BatchTimes& times) override {
    if (metrics_ == nullptr) return;
    metrics_->Observe(Stage::kCopyIn, times.copy_in);
    metrics_->Observe(Stage::kMark, times.mark);
    metrics_->Observe(Stage::kSelect, times.select);
    if (times.digest.has_value()) metrics_->Observe(Stage::kGpuHash, *times.digest);
    metrics_->Observe(Stage::kCopyOut, times.copy_out);
  }
  cuda::PieceOutcome outcome() const { return outcome_; }
  // Of what was sent.
  std::size_t size_bytes() const { return size_bytes_; }
  // To be sent again.
  static std::shared_ptr<StreamCall> CallOf(const std::shared_ptr<GpuPiece>& piece,
                                            std::size_t size_bytes) {
    piece->size_bytes_ = size_bytes;
    piece->call_.phase.store(StreamCall::Phase::kAsked);
    return {piece, &piece->call_};
  }

 private:
  const std::weak_ptr<StreamEngine> engine_;
  StreamMetrics* const metrics_;
  StreamCall call_;
  std::size_t size_bytes_ = 0;
  cuda::PieceOutcome outcome_ = cuda::PieceOutcome::kLost;
};

bool StreamEngine::UsesGpu() const {
  return gpu_plan_ != nullptr && gpu_pause_bytes_ == 0 && context_->gpus->is_usable();
}

bool StreamEngine::SendToGpu(std::size_t min_bytes) {
  if (!UsesGpu()) return false;
  Bytes uncut = cutter_->uncut();
  uncut = uncut.first(std::min(uncut.size(), context_->gpus->max_piece_bytes()));
  if (uncut.size() < std::max(min_bytes, context_->gpus->min_piece_bytes())) return false;
  if (gpu_piece_ == nullptr) {
    gpu_piece_ = std::make_shared<GpuPiece>(weak_from_this(), context_->metrics);
  }
  call_ = GpuPiece::CallOf(gpu_piece_, uncut.size());
  call_->asked_at = clock_.Enter(Stage::kCut);
  awaited_stage_.store(Stage::kGpu);
  const bool is_sent = context_->gpus->TryCut(gpu_plan_, uncut, /*is_end=*/false, gpu_piece_);
  if (!is_sent) call_ = nullptr;
  return is_sent;
}

bool StreamEngine::TakeGpuPiece() {
  switch (gpu_piece_->outcome()) {
    case cuda::PieceOutcome::kCut:
      given_up_in_a_row_ = 0;
      cutter_->Take(gpu_piece_->cuts);
      return true;
    case cuda::PieceOutcome::kMarked:
      given_up_in_a_row_ = 0;
      cutter_->Take(cuda::SelectOnHost(*gpu_plan_, cutter_->uncut().first(gpu_piece_->size_bytes()),
                                       /*is_end=*/false, gpu_piece_->candidates));
      return true;
    case cuda::PieceOutcome::kGivenUp:
      if (++given_up_in_a_row_ < kMaxGivenUpInARow) return false;
      given_up_in_a_row_ = 0;
      gpu_pause_bytes_ = context_->gpu_pause_bytes;
      return false;
    case cuda::PieceOutcome::kLost:
      break;
  }
  return false;
}

absl::Status StreamEngine::TakeGpuCuts(StreamCall&) {
  if (!TakeGpuPiece()) CutByCpu();
  return AnswerChunks();
}

absl::Status StreamEngine::TakeLastGpuCuts(StreamCall&) {
  TakeGpuPiece();
  return FinishFile(*std::exchange(file_end_, nullptr));
}

void StreamEngine::CutByCpu() {
  const std::size_t before_bytes = cutter_->uncut_bytes();
  cutter_->Cut();
  CountPause(before_bytes - cutter_->uncut_bytes());
}

void StreamEngine::CountPause(std::size_t cut_bytes) {
  gpu_pause_bytes_ -= std::min(gpu_pause_bytes_, cut_bytes);
}

std::function<void(const absl::Status&)> StreamEngine::Answered(Stage stage) {
  call_->asked_at = clock_.Enter(stage);
  // The index may take its time before it comes back.
  awaited_stage_.store(stage);
  awaits_index_.store(true);
  return [weak = weak_from_this(), call = call_, stage,
          metrics = context_->metrics](const absl::Status& status) {
    if (metrics != nullptr) {
      metrics->Observe(stage, StageClock::Clock::now() - call->asked_at);
      if (!status.ok()) metrics->failures[static_cast<std::size_t>(stage)].Add();
    }
    call->status = status;
    Answer(weak, *call);
  };
}

void StreamEngine::Answer(const std::weak_ptr<StreamEngine>& engine, StreamCall& call) {
  if (call.phase.exchange(StreamCall::Phase::kAnswered) != StreamCall::Phase::kAwaited) return;
  if (const std::shared_ptr<StreamEngine> self = engine.lock()) self->Wake();
}

StreamEngine::Waiting StreamEngine::waiting() const {
  if (awaits_index_.load()) {
    switch (awaited_stage_.load()) {
      case Stage::kGpu:
        return Waiting::kGpu;
      case Stage::kCommit:
        return Waiting::kCommit;
      case Stage::kForget:
        return Waiting::kForget;
      default:
        return Waiting::kLookup;
    }
  }
  // Between files it may be told of memory that it wants no longer.
  if (awaits_memory_.load() && expecting() == Expecting::kNothing) return Waiting::kMemory;
  return state_.load() == State::kIdle ? Waiting::kNothing : Waiting::kThread;
}

absl::Status StreamEngine::Await(Then then) {
  then_ = then;
  awaits_index_.store(true);
  StreamCall::Phase phase = StreamCall::Phase::kAsked;
  if (!call_->phase.compare_exchange_strong(phase, StreamCall::Phase::kAwaited)) return Continue();
  // It is held no longer than the index takes, and little beside the buffer that waits with it.
  call_memory_.Force(call_->digests.size() * (sizeof(Digest) + sizeof(LookupResult)) +
                     call_->chunk_digests.size() * sizeof(Digest) +
                     call_->foreseen.size() * (sizeof(LookupResult) + kMaxLocatorBytes) +
                     call_->entries.size() * sizeof(IndexEntry));
  return absl::OkStatus();
}

absl::Status StreamEngine::Continue() {
  if (call_ == nullptr || call_->phase.load() != StreamCall::Phase::kAnswered) {
    return absl::OkStatus();
  }
  const std::shared_ptr<StreamCall> call = std::exchange(call_, nullptr);
  awaits_index_.store(false);
  call_memory_.Set(0);
  KERF_RETURN_IF_ERROR(call->status);
  return (this->*then_)(*call);
}

}  // namespace kerf
