#include "server/worker/gpu_pieces.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/pipeline/host_selection.h"
#include "server/worker/stream_metrics.h"

namespace kerf {
namespace {

using Clock = StageClock::Clock;

// When so many pieces in a row were given up the rest of the stream is likely to be.
constexpr int kMaxGivenUpInARow = 2;

}  // namespace

// One object for all pieces of a stream, of which a GPU has one at most.
class GpuPieces::Piece final : public cuda::PieceTaker {
 public:
  // `metrics` as of EngineContext.
  Piece(std::weak_ptr<Strand> strand, StreamMetrics* metrics) : metrics_(metrics) {
    call_.strand = std::move(strand);
  }

  void OnPiece(cuda::PieceOutcome outcome) override {
    outcome_ = outcome;
    if (metrics_ != nullptr) metrics_->Observe(Stage::kGpu, Clock::now() - sent_at_);
    call_.Answer();
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
  static std::shared_ptr<StreamCall> CallOf(const std::shared_ptr<Piece>& piece,
                                            std::size_t size_bytes) {
    piece->size_bytes_ = size_bytes;
    if (piece->metrics_ != nullptr) piece->sent_at_ = Clock::now();
    piece->call_.phase.store(StreamCall::Phase::kAsked);
    return {piece, &piece->call_};
  }

 private:
  StreamMetrics* const metrics_;
  StreamCall call_;
  Clock::time_point sent_at_;
  std::size_t size_bytes_ = 0;
  cuda::PieceOutcome outcome_ = cuda::PieceOutcome::kLost;
};

GpuPieces::GpuPieces(const EngineContext* context, std::weak_ptr<Strand> strand,
                     std::shared_ptr<const cuda::BatchPlan> plan)
    : context_(context), strand_(std::move(strand)), plan_(std::move(plan)) {}

GpuPieces::~GpuPieces() = default;

std::shared_ptr<StreamCall> GpuPieces::Send(const CutBuffer& cutter, std::size_t min_bytes) {
  if (!is_used()) return nullptr;
  Bytes uncut = cutter.uncut();
  uncut = uncut.first(std::min(uncut.size(), context_->gpus->max_piece_bytes()));
  if (uncut.size() < std::max(min_bytes, context_->gpus->min_piece_bytes(*plan_))) return nullptr;
  if (piece_ == nullptr) piece_ = std::make_shared<Piece>(strand_, context_->metrics);
  std::shared_ptr<StreamCall> call = Piece::CallOf(piece_, uncut.size());
  if (!context_->gpus->TryCut(plan_, uncut, /*is_end=*/false, piece_)) return nullptr;
  return call;
}

bool GpuPieces::Take(CutBuffer& cutter) {
  switch (piece_->outcome()) {
    case cuda::PieceOutcome::kCut:
      given_up_in_a_row_ = 0;
      cutter.Take(piece_->cuts);
      return true;
    case cuda::PieceOutcome::kMarked:
      given_up_in_a_row_ = 0;
      cutter.Take(cuda::SelectOnHost(*plan_, cutter.uncut().first(piece_->size_bytes()),
                                     /*is_end=*/false, piece_->candidates));
      return true;
    case cuda::PieceOutcome::kGivenUp:
      if (++given_up_in_a_row_ < kMaxGivenUpInARow) return false;
      given_up_in_a_row_ = 0;
      pause_bytes_ = context_->gpu_pause_bytes;
      return false;
    case cuda::PieceOutcome::kLost:
      break;
  }
  return false;
}

void GpuPieces::CountPause(std::size_t cut_bytes) {
  pause_bytes_ -= std::min(pause_bytes_, cut_bytes);
}

}  // namespace kerf
