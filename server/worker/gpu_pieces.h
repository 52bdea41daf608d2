// The pieces that a stream has cut by GPUs, one after another.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/cuda/pipeline/gpu_set.h"
#include "server/worker/cut_buffer.h"
#include "server/worker/stream_call.h"
#include "server/worker/stream_engine.h"

namespace kerf {

// The strand's.
class GpuPieces {
 public:
  // A GPU is there. `context` outlives it.
  GpuPieces(const EngineContext* context, std::weak_ptr<Strand> strand,
            std::shared_ptr<const cuda::BatchPlan> plan);
  GpuPieces(const GpuPieces&) = delete;
  GpuPieces& operator=(const GpuPieces&) = delete;
  ~GpuPieces();

  // Whether what comes is for a GPU.
  bool is_used() const { return pause_bytes_ == 0 && context_->gpus->is_usable(); }

  // Sends what the cutter has not cut, if that is so much, and a GPU takes it now. The call is
  // answered when the GPU is done with it; Take is next. Null: none has it.
  std::shared_ptr<StreamCall> Send(const CutBuffer& cutter, std::size_t min_bytes);
  // False: the piece was handed back.
  bool Take(CutBuffer& cutter);
  // So much was cut by the CPU.
  void CountPause(std::size_t cut_bytes);
  // The stream waits for its client: holds nothing meanwhile.
  void Park() { piece_ = nullptr; }

 private:
  class Piece;

  const EngineContext* const context_;
  const std::weak_ptr<Strand> strand_;
  const std::shared_ptr<const cuda::BatchPlan> plan_;
  // Null until the first one is sent.
  std::shared_ptr<Piece> piece_;
  int given_up_in_a_row_ = 0;
  // Cut by the CPU before a GPU gets the next piece.
  std::size_t pause_bytes_ = 0;
};

}  // namespace kerf
