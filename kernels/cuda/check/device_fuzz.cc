#include "kernels/cuda/check/device_fuzz.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/cuda/check/fuzz_cases.h"
#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/pipeline/cpu_comparison.h"
#include "kernels/cuda/pipeline/cut_and_wait.h"
#include "kernels/cuda/pipeline/gpu_cutter.h"
#include "kernels/cuda/pipeline/kernel_loading.h"
#include "kernels/profile.h"

namespace kerf::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// On their way beside each other.
constexpr std::size_t kSlots = 2;
// Of a round of streams.
constexpr std::size_t kStreams = 8;

struct LaidOutBatch {
  std::shared_ptr<const BatchPlan> plan;
  std::vector<SlotPiece> pieces;
};

class Fuzz {
 public:
  Fuzz(const FuzzOptions& options, FuzzCounters& counters)
      : options_(options),
        counters_(counters),
        data_(std::min<std::size_t>(options.slot.batch_bytes, 4 << 20)) {}

  absl::Status TakeDevice(const OpenDevice& open) {
    KERF_ASSIGN_OR_RETURN(device_, OpenLoaded(open));
    for (auto& slot : slots_) {
      KERF_ASSIGN_OR_RETURN(slot, BatchSlot::Make(*device_, options_.slot));
    }
    KERF_ASSIGN_OR_RETURN(auto other, open());
    GpuCutterOptions options;
    options.slot = options_.slot;
    options.batch_timeout = options_.batch_timeout;
    // What it would find is found here.
    options.audit_period = 0;
    options.min_piece_bytes = 0;
    KERF_ASSIGN_OR_RETURN(cutter_, GpuCutter::Start(std::move(other), options));
    return absl::OkStatus();
  }

  absl::Status Round(std::uint64_t seed) {
    Random random(seed);
    KERF_RETURN_IF_ERROR(random.OneIn(4) ? RunStreams(random) : RunBatches(random));
    ++counters_.round_count;
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<const BatchPlan> AnyPlanThatRuns(Random& random, std::size_t max_bytes) const {
    while (true) {
      auto plan = AnyPlan(random, max_bytes);
      if (!cutter_->left_out().Has(*plan)) return plan;
    }
  }

  LaidOutBatch LayOut(Random& random, BatchSlot& slot) {
    LaidOutBatch batch{AnyPlanThatRuns(random, kMaxMaxBytes), {}};
    const std::size_t most_pieces = random.Between(1, options_.slot.piece_count);
    const std::size_t most_bytes = AnySize(random, options_.slot.batch_bytes);
    // Many small files; or each as large as it may be.
    const bool are_small = random.OneIn(4);
    std::size_t offset = 0;
    while (batch.pieces.size() < most_pieces) {
      const std::size_t size_bytes =
          AnySize(random, std::min<std::size_t>(most_bytes - offset, are_small ? 2000 : SIZE_MAX));
      batch.pieces.push_back({static_cast<std::uint32_t>(offset),
                              static_cast<std::uint32_t>(size_bytes), random.OneIn(2)});
      data_.Fill(random, slot.bytes().subspan(offset, size_bytes));
      const std::size_t gap = random.OneIn(4) ? random.Below(100) * kPieceAlignmentBytes : 0;
      offset +=
          (size_bytes + kPieceAlignmentBytes - 1) / kPieceAlignmentBytes * kPieceAlignmentBytes +
          gap;
      if (offset > most_bytes) break;
    }
    return batch;
  }

  absl::Status WaitFor(BatchSlot& slot) const {
    const auto deadline = Clock::now() + options_.batch_timeout;
    while (true) {
      KERF_ASSIGN_OR_RETURN(const bool is_done, slot.IsDone());
      if (is_done) return absl::OkStatus();
      if (Clock::now() > deadline) {
        return absl::DeadlineExceededError(
            Cat("a batch has not come back for ", options_.batch_timeout.count(), " ms"));
      }
    }
  }

  absl::Status RunBatches(Random& random) {
    std::array<LaidOutBatch, kSlots> batches;
    for (std::size_t index = 0; index < kSlots; ++index) {
      batches[index] = LayOut(random, *slots_[index]);
    }
    for (std::size_t index = 0; index < kSlots; ++index) {
      KERF_RETURN_IF_ERROR(slots_[index]->Start(batches[index].plan, batches[index].pieces));
    }
    std::vector<ComparedPiece> compared;
    for (std::size_t index = 0; index < kSlots; ++index) {
      const BatchSlot& slot = *slots_[index];
      KERF_RETURN_IF_ERROR(WaitFor(*slots_[index]));
      for (std::size_t number = 0; number < batches[index].pieces.size(); ++number) {
        const SlotPiece& piece = batches[index].pieces[number];
        Count(piece.size_bytes);
        ComparedPiece each{batches[index].plan,
                           slot.bytes().subspan(piece.offset, piece.size_bytes),
                           piece.is_end,
                           {}};
        if (slot.TakeCuts(number, each.cuts)) {
          compared.push_back(std::move(each));
        } else {
          ++counters_.cpu_piece_count;
        }
      }
    }
    return StatusOf(DifferenceOfAny(compared));
  }

  // The whole stream in pieces of any size: what is left over begins the next one.
  ComparedPiece CutStream(std::shared_ptr<const BatchPlan> plan,
                          std::span<const std::uint8_t> stream, Random random) {
    ComparedPiece all{std::move(plan), stream, true, {}};
    std::size_t piece_bytes = 0;
    while (true) {
      const std::size_t most = std::min(stream.size(), cutter_->max_piece_bytes());
      piece_bytes = std::min(most, piece_bytes + AnySize(random, most));
      const bool is_end = piece_bytes == stream.size();
      const PieceCuts cuts = CutAndWait(*cutter_, all.plan, stream.first(piece_bytes), is_end);
      all.cuts.chunks.insert(all.cuts.chunks.end(), cuts.chunks.begin(), cuts.chunks.end());
      const std::size_t cut_bytes = std::min(cuts.size_bytes(), stream.size());
      stream = stream.subspan(cut_bytes);
      piece_bytes -= std::min(cut_bytes, piece_bytes);
      // A device that goes wrong may well leave something at the end, or all of it.
      if (is_end || (cut_bytes == 0 && piece_bytes == most)) return all;
    }
  }

  absl::Status RunStreams(Random& random) {
    std::vector<std::vector<std::uint8_t>> streams(kStreams);
    std::vector<std::shared_ptr<const BatchPlan>> plans;
    for (auto& stream : streams) {
      stream.resize(AnySize(random, options_.slot.batch_bytes));
      data_.Fill(random, stream);
      // Some share their plan, and so their batches.
      const bool is_shared = !plans.empty() && random.OneIn(2);
      auto plan = is_shared ? plans[random.Below(plans.size())]
                            : AnyPlanThatRuns(random, cutter_->max_piece_bytes());
      plans.push_back(std::move(plan));
    }
    const std::uint64_t before = cutter_->counters().given_up_piece_count;
    std::vector<ComparedPiece> compared(kStreams);
    std::vector<std::thread> threads;
    threads.reserve(kStreams);
    for (std::size_t index = 0; index < kStreams; ++index) {
      threads.emplace_back([&, index, own = Random(random.Next())] {
        compared[index] = CutStream(plans[index], streams[index], own);
      });
    }
    for (std::thread& thread : threads) thread.join();
    KERF_RETURN_IF_ERROR(cutter_->health());
    for (const auto& stream : streams) Count(stream.size());
    counters_.cpu_piece_count += cutter_->counters().given_up_piece_count - before;
    return StatusOf(DifferenceOfAny(compared));
  }

  void Count(std::size_t size_bytes) {
    ++counters_.piece_count;
    counters_.byte_count += size_bytes;
  }

  static absl::Status StatusOf(const std::string& difference) {
    return difference.empty() ? absl::OkStatus() : absl::DataLossError(difference);
  }

  const FuzzOptions& options_;
  FuzzCounters& counters_;
  const FuzzData data_;
  std::unique_ptr<Device> device_;
  std::array<std::unique_ptr<BatchSlot>, kSlots> slots_;
  std::unique_ptr<GpuCutter> cutter_;
};

}  // namespace

absl::Status RunDeviceFuzz(const OpenDevice& open, const FuzzOptions& options,
                           FuzzCounters& counters) {
  counters = {};
  Fuzz fuzz(options, counters);
  KERF_RETURN_IF_ERROR(fuzz.TakeDevice(open));
  const auto deadline = Clock::now() + options.max_time;
  while (counters.round_count < options.max_round_count && Clock::now() < deadline) {
    const std::uint64_t seed = options.seed + counters.round_count;
    if (const absl::Status status = fuzz.Round(seed); !status.ok()) {
      return Annotate(status, Cat("round ", counters.round_count, ", made of seed ", seed));
    }
  }
  return absl::OkStatus();
}

}  // namespace kerf::cuda
