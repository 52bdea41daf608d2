// The GPUs of a process, as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/gpu_counters.h"
#include "kernels/cuda/pipeline/gpu_cutter.h"
#include "kernels/cuda/pipeline/piece_cuts.h"

namespace kerf::cuda {

// What there is to say of one.
struct GpuState {
  std::uint32_t number = 0;
  std::string name;
  std::uint64_t memory_bytes = 0;
  // Not OK: it is lost, and why.
  absl::Status health;
  GpuCounters counters;
  std::uint64_t pending_bytes = 0;
  // What the CPU cuts in its place, and why (LeftOutPlans::Text); empty: nothing.
  std::string left_out;
};

// Each piece goes to the GPU that has the least to do. One that is lost gets no more, and takes
// none of the others with it. Thread-safe.
class GpuSet {
 public:
  struct Member {
    // As the system counts them.
    std::uint32_t number = 0;
    std::unique_ptr<GpuCutter> gpu;
  };

  // 1 to kMaxGpus of them.
  explicit GpuSet(std::vector<Member> members);
  GpuSet(const GpuSet&) = delete;
  GpuSet& operator=(const GpuSet&) = delete;

  static constexpr std::size_t kMaxGpus = 64;

  // As GpuCutter::Close, of all of them.
  void Close();

  // Whether there is one that is not lost and faster than the CPU at anything.
  bool is_usable() const;
  // What is smaller had better be cut by the CPU; of a plan, and whatever the plan is.
  std::size_t min_piece_bytes(const BatchPlan& plan) const;
  std::size_t min_piece_bytes() const { return min_piece_bytes_; }
  // A larger piece may not be taken by all of them.
  std::size_t max_piece_bytes() const { return max_piece_bytes_; }

  // The plan of MakeBatchPlan, the same object as long as somebody has it. Null also where a chunk
  // may be larger than a piece, and when no GPU is of use for it.
  std::shared_ptr<const BatchPlan> PlanOf(const Profile& profile, DigestAlgorithm digest_algorithm);

  // As GpuCutter::TryCut, on one of them.
  bool TryCut(const std::shared_ptr<const BatchPlan>& plan, std::span<const std::uint8_t> piece,
              bool is_end, const std::shared_ptr<PieceTaker>& taker);

  // Of all, in the order of their numbers.
  std::vector<GpuState> states() const;
  std::size_t lost_count() const;

 private:
  // Not lost, faster than the CPU at the piece, able to run the plan, if that is not null, not in
  // the bits of `tried`, and with the least to do; nullptr: none.
  const Member* LeastBusy(const BatchPlan* plan, std::size_t piece_bytes,
                          std::uint64_t tried) const;
  std::shared_ptr<const BatchPlan> FindPlan(const Profile& profile,
                                            DigestAlgorithm digest_algorithm);

  const std::vector<Member> members_;
  std::size_t min_piece_bytes_;
  std::size_t max_piece_bytes_;

  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const BatchPlan>> plans_;
};

}  // namespace kerf::cuda
