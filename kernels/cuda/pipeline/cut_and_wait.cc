#include "kernels/cuda/pipeline/cut_and_wait.h"

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "kernels/cuda/pipeline/host_selection.h"

namespace kerf::cuda {
namespace {

constexpr std::chrono::microseconds kRoomPause{50};

class Waiter final : public PieceTaker {
 public:
  void OnPiece(PieceOutcome outcome) override { outcome_.set_value(outcome); }
  PieceOutcome Wait() { return outcome_.get_future().get(); }

 private:
  std::promise<PieceOutcome> outcome_;
};

}  // namespace

PieceCuts CutAndWait(GpuCutter& gpu, const std::shared_ptr<const BatchPlan>& plan,
                     std::span<const std::uint8_t> piece, bool is_end) {
  const auto waiter = std::make_shared<Waiter>();
  const bool is_for_gpu = !gpu.left_out().Has(*plan);
  bool is_sent = gpu.TryCut(plan, piece, is_end, waiter);
  while (is_for_gpu && !is_sent && gpu.health().ok()) {
    std::this_thread::sleep_for(kRoomPause);
    is_sent = gpu.TryCut(plan, piece, is_end, waiter);
  }
  const PieceOutcome outcome = is_sent ? waiter->Wait() : PieceOutcome::kLost;
  if (outcome == PieceOutcome::kCut) return std::move(waiter->cuts);
  if (outcome == PieceOutcome::kMarked) {
    return SelectOnHost(*plan, piece, is_end, waiter->candidates);
  }
  return CutPieceOnCpu(*plan->chunker, plan->digest_algorithm, piece, is_end);
}

}  // namespace kerf::cuda
