#include "kernels/cuda/bench/gpu_bench.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "base/random.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/cuda/bench/measuring.h"
#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/batch_slot.h"
#include "kernels/cuda/pipeline/cpu_comparison.h"
#include "kernels/cuda/pipeline/kernel_loading.h"
#include "kernels/cuda/pipeline/left_out_plans.h"
#include "kernels/cuda/pipeline/piece_cuts.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/testing/inputs.h"

namespace kerf::cuda {
namespace {

using Plan = std::shared_ptr<const BatchPlan>;

constexpr DigestAlgorithm kDigests[] = {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256,
                                        DigestAlgorithm::kXxh3_128};
// Batches on their way at once, as kerfd has them.
constexpr std::size_t kSlots = 4;

struct NamedPlan {
  std::string profile;
  std::string digest;
  Plan plan;
};

// None where the CPU cuts for such digests; an error where it does for any.
absl::StatusOr<std::optional<NamedPlan>> MakePlan(const std::string& profile,
                                                  DigestAlgorithm digest) {
  KERF_ASSIGN_OR_RETURN(const Profile parsed, ParseProfile(profile));
  if (MakeBatchPlan(parsed, kDigests[0]) == nullptr) {
    return absl::InvalidArgumentError(Cat("there are no kernels for the profile ", profile));
  }
  Plan plan = MakeBatchPlan(parsed, digest);
  if (plan == nullptr) return std::nullopt;
  return NamedPlan{profile, std::string(DigestAlgorithmName(digest)), std::move(plan)};
}

// What batches are of.
struct BatchData {
  std::string_view kind;
  std::uint32_t stream_count;
};
constexpr BatchData kRandom{"random", 1};
constexpr BatchData kVaried[] = {{"text", 1}, {"random", 3}};

// Whether its marks are made in strips.
bool HasStrips(const BatchPlan& plan) {
  return !std::holds_alternative<PeakRule>(plan.marks) &&
         !std::holds_alternative<ExtremeMarkRule>(plan.marks);
}

class Bench {
 public:
  Bench(const OpenDevice& open, const GpuBenchOptions& options, const std::atomic<bool>& cancelled,
        const std::function<void(const GpuFigure&)>& visit)
      : open_(open), options_(options), cancelled_(cancelled), visit_(visit) {}

  absl::Status Run() {
    for (const std::string& profile : options_.profiles) {
      for (const DigestAlgorithm digest : kDigests) {
        KERF_ASSIGN_OR_RETURN(std::optional<NamedPlan> plan, MakePlan(profile, digest));
        if (plan.has_value()) plans_.push_back(*std::move(plan));
      }
    }
    KERF_RETURN_IF_ERROR(MeasureCopies());
    for (const std::size_t size_bytes : options_.kernel_bytes) {
      KERF_RETURN_IF_ERROR(MeasureKernels(size_bytes));
    }
    for (const std::size_t size_bytes : options_.batch_bytes) {
      KERF_RETURN_IF_ERROR(MeasureBatches(size_bytes, kRandom));
      if (size_bytes != options_.varied_batch_bytes) continue;
      for (const BatchData& data : kVaried) {
        KERF_RETURN_IF_ERROR(MeasureBatches(size_bytes, data));
      }
    }
    return MeasureCpu();
  }

  const LeftOutPlans& left_out() const { return left_out_; }

 private:
  // A figure of `repeat`.
  template <class Repeat>
  absl::Status Measure(GpuFigure figure, Repeat&& repeat) {
    if (cancelled_) return absl::CancelledError("interrupted");
    KERF_ASSIGN_OR_RETURN(figure.seconds,
                          SecondsOfOne(options_.rounds, options_.round_time, repeat));
    if (figure.what == "copy-in") {
      copy_bytes_per_second_ = std::max(copy_bytes_per_second_, figure.bytes_per_second());
    }
    if (figure.what == "end-to-end" && copy_bytes_per_second_ > 0) {
      figure.share_of_copy = figure.bytes_per_second() / copy_bytes_per_second_;
    }
    visit_(figure);
    return absl::OkStatus();
  }

  absl::Status MeasureCopies() {
    if (options_.copy_bytes.empty()) return absl::OkStatus();
    const std::size_t most =
        *std::max_element(options_.copy_bytes.begin(), options_.copy_bytes.end());
    KERF_ASSIGN_OR_RETURN(const auto device, open_());
    KERF_ASSIGN_OR_RETURN(const QueueId in_queue, device->MakeQueue());
    KERF_ASSIGN_OR_RETURN(const QueueId out_queue, device->MakeQueue());
    KERF_ASSIGN_OR_RETURN(std::uint8_t* const to, device->Allocate(most));
    KERF_ASSIGN_OR_RETURN(std::uint8_t* const from, device->Allocate(most));
    KERF_ASSIGN_OR_RETURN(const auto in, device->AllocatePinned(most));
    KERF_ASSIGN_OR_RETURN(const auto out, device->AllocatePinned(most));
    // Copied there and back it is the same.
    Random(options_.seed).Fill(in);
    KERF_RETURN_IF_ERROR(device->CopyIn(in_queue, from, in));
    KERF_RETURN_IF_ERROR(device->CopyOut(in_queue, out, from));
    KERF_RETURN_IF_ERROR(WaitForQueue(*device, in_queue, options_.timeout));
    if (!std::equal(in.begin(), in.end(), out.begin())) {
      return absl::DataLossError("what was copied to the device and back is not what it was");
    }
    const auto copy = [&](std::size_t in_bytes, std::size_t out_bytes) {
      return [&, in_bytes, out_bytes](std::size_t count) {
        for (; count > 0; --count) {
          if (in_bytes > 0) {
            KERF_RETURN_IF_ERROR(device->CopyIn(in_queue, to, in.first(in_bytes)));
          }
          if (out_bytes > 0) {
            KERF_RETURN_IF_ERROR(device->CopyOut(out_queue, out.first(out_bytes), from));
          }
        }
        KERF_RETURN_IF_ERROR(WaitForQueue(*device, in_queue, options_.timeout));
        return WaitForQueue(*device, out_queue, options_.timeout);
      };
    };
    for (const std::size_t size : options_.copy_bytes) {
      GpuFigure figure;
      figure.size_bytes = size;
      figure.what = "copy-in";
      KERF_RETURN_IF_ERROR(Measure(figure, copy(size, 0)));
      figure.what = "copy-out";
      KERF_RETURN_IF_ERROR(Measure(figure, copy(0, size)));
      figure.what = "copy-both";
      figure.size_bytes = 2 * size;
      KERF_RETURN_IF_ERROR(Measure(figure, copy(size, size)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<BatchSlot>> MakeSlot(Device& device, std::size_t size_bytes,
                                                      const BatchData& data) const {
    KERF_ASSIGN_OR_RETURN(auto slot, BatchSlot::Make(device, {size_bytes, data.stream_count}));
    const std::vector<std::uint8_t> bytes = MakeInput(data.kind, options_.seed, size_bytes);
    std::copy(bytes.begin(), bytes.end(), slot->bytes().begin());
    return slot;
  }

  // Of streams that end with the batch, all of one length; what is left over is nobody's.
  static std::vector<SlotPiece> PiecesOf(const BatchSlot& slot) {
    const std::size_t stream_count = slot.limits().piece_count;
    const std::size_t size_bytes =
        slot.bytes().size() / stream_count / kPieceAlignmentBytes * kPieceAlignmentBytes;
    std::vector<SlotPiece> pieces;
    for (std::size_t number = 0; number < stream_count; ++number) {
      pieces.push_back({static_cast<std::uint32_t>(number * size_bytes),
                        static_cast<std::uint32_t>(size_bytes), true});
    }
    return pieces;
  }

  absl::Status WaitForSlot(BatchSlot& slot) const {
    const auto deadline = MeasuringClock::now() + options_.timeout;
    while (true) {
      KERF_ASSIGN_OR_RETURN(const bool is_done, slot.IsDone());
      if (is_done) return absl::OkStatus();
      if (MeasuringClock::now() > deadline) {
        return absl::DeadlineExceededError(
            Cat("a batch has not come back for ", options_.timeout.count(), " ms"));
      }
    }
  }

  // What came back is what the CPU makes of it. False: the device gives some of it to the CPU.
  static absl::StatusOr<bool> IsRight(const BatchSlot& slot, const NamedPlan& plan) {
    const std::vector<SlotPiece> pieces = PiecesOf(slot);
    for (std::size_t index = 0; index < pieces.size(); ++index) {
      const SlotPiece& it = pieces[index];
      ComparedPiece piece{plan.plan, slot.bytes().subspan(it.offset, it.size_bytes), true, {}};
      if (!slot.TakeCuts(index, piece.cuts)) return false;
      const std::string difference = DifferenceOf(piece);
      if (!difference.empty()) return absl::DataLossError(difference);
    }
    return true;
  }

  // Of random bytes.
  static absl::Status CheckSlot(const BatchSlot& slot, const NamedPlan& plan) {
    KERF_ASSIGN_OR_RETURN(const bool is_cut, IsRight(slot, plan));
    if (is_cut) return absl::OkStatus();
    return absl::DataLossError("the device gives random bytes to the CPU");
  }

  absl::Status RunPieces(BatchSlot& slot, const NamedPlan& plan) const {
    const absl::Status started = slot.Start(plan.plan, PiecesOf(slot));
    if (!started.ok() && !absl::IsFailedPrecondition(started)) return started;
    KERF_RETURN_IF_ERROR(WaitForSlot(slot));
    return started;
  }

  absl::Status RunAndCheck(BatchSlot& slot, const NamedPlan& plan) const {
    KERF_RETURN_IF_ERROR(RunPieces(slot, plan));
    return CheckSlot(slot, plan);
  }

  // The same of a plan that is to be measured. False: the device cannot run it.
  absl::StatusOr<bool> Try(BatchSlot& slot, const NamedPlan& plan) {
    if (left_out_.Has(*plan.plan)) return false;
    const absl::Status ran = RunAndCheck(slot, plan);
    if (ran.ok()) return true;
    if (!absl::IsFailedPrecondition(ran)) return ran;
    left_out_.Add(*plan.plan, MessageOf(ran));
    return false;
  }

  // Kernels alone: what they work on was copied before.
  absl::Status MeasureKernels(std::size_t size_bytes) {
    KERF_ASSIGN_OR_RETURN(const auto device, OpenLoaded(open_));
    KERF_ASSIGN_OR_RETURN(const auto slot, MakeSlot(*device, size_bytes, kRandom));
    std::set<DigestAlgorithm> measured_digests;
    for (const NamedPlan& plan : plans_) {
      KERF_ASSIGN_OR_RETURN(const bool is_run, Try(*slot, plan));
      if (!is_run) continue;
      // Marks and cuts are the same for every fingerprint.
      if (plan.plan->digest_algorithm == kDigests[0]) {
        KERF_RETURN_IF_ERROR(MeasureMarksAndCuts(*device, *slot, plan));
      }
      // Fingerprints hardly depend on what rule has cut. Those that the host makes are measured
      // with the rest of its part, from end to end.
      if (plan.plan->selection == Selection::kDevice &&
          measured_digests.insert(plan.plan->digest_algorithm).second) {
        KERF_RETURN_IF_ERROR(
            MeasureSteps(*device, *slot, plan, "digests", {.digests = true}, kDefaultStripBytes));
      }
    }
    return absl::OkStatus();
  }

  absl::Status MeasureMarksAndCuts(Device& device, BatchSlot& slot, const NamedPlan& plan) {
    const bool has_strips = HasStrips(*plan.plan);
    for (const std::uint32_t strip_bytes : options_.strip_bytes) {
      // Another strip, the same marks: seen by what is cut.
      KERF_RETURN_IF_ERROR(slot.Repeat(StepsOf(*plan.plan), strip_bytes, 1));
      KERF_RETURN_IF_ERROR(slot.Fetch());
      KERF_RETURN_IF_ERROR(WaitForSlot(slot));
      KERF_RETURN_IF_ERROR(CheckSlot(slot, plan));
      KERF_RETURN_IF_ERROR(MeasureSteps(device, slot, plan, "marks", {.marks = true}, strip_bytes));
      if (!has_strips) break;
    }
    KERF_RETURN_IF_ERROR(MeasureSteps(device, slot, plan, "cuts",
                                      {.candidates = true, .cuts = true}, kDefaultStripBytes));
    return MeasureSteps(device, slot, plan, "marks+cuts",
                        {.marks = true, .candidates = true, .cuts = true}, kDefaultStripBytes);
  }

  absl::Status MeasureSteps(Device& device, BatchSlot& slot, const NamedPlan& plan,
                            std::string_view what, BatchSteps steps, std::uint32_t strip_bytes) {
    GpuFigure figure;
    figure.what = what;
    figure.profile = plan.profile;
    if (steps.digests) figure.digest = plan.digest;
    figure.size_bytes = slot.bytes().size();
    const bool has_strips = HasStrips(*plan.plan);
    if (steps.marks && has_strips) figure.strip_bytes = strip_bytes;
    return Measure(figure, [&](std::size_t count) {
      KERF_RETURN_IF_ERROR(slot.Repeat(steps, strip_bytes, count));
      return WaitForQueue(device, slot.queue(), options_.timeout);
    });
  }

  // From pinned memory to chunks and fingerprints there.
  absl::Status MeasureBatches(std::size_t size_bytes, const BatchData& data) {
    KERF_ASSIGN_OR_RETURN(const auto device, OpenLoaded(open_));
    std::vector<std::unique_ptr<BatchSlot>> slots;
    while (slots.size() < kSlots) {
      KERF_ASSIGN_OR_RETURN(slots.emplace_back(), MakeSlot(*device, size_bytes, data));
    }
    for (const NamedPlan& plan : plans_) {
      KERF_ASSIGN_OR_RETURN(const bool is_run, TryAll(slots, plan, data));
      if (is_run) KERF_RETURN_IF_ERROR(MeasurePlan(slots, plan, data));
    }
    return absl::OkStatus();
  }

  // Whether the device can run the plan and cuts such data with it, in each slot.
  absl::StatusOr<bool> TryAll(const std::vector<std::unique_ptr<BatchSlot>>& slots,
                              const NamedPlan& plan, const BatchData& data) {
    if (data.kind == kRandom.kind) {
      KERF_ASSIGN_OR_RETURN(const bool is_run, Try(*slots.front(), plan));
      if (!is_run) return false;
    }
    if (left_out_.Has(*plan.plan)) return false;
    for (const auto& slot : slots) {
      KERF_RETURN_IF_ERROR(RunPieces(*slot, plan));
      KERF_ASSIGN_OR_RETURN(const bool is_cut, IsRight(*slot, plan));
      if (is_cut) continue;
      if (data.kind != kRandom.kind) return false;
      return absl::DataLossError("the device gives random bytes to the CPU");
    }
    return true;
  }

  absl::Status MeasurePlan(const std::vector<std::unique_ptr<BatchSlot>>& slots,
                           const NamedPlan& plan, const BatchData& data) {
    GpuFigure figure;
    figure.profile = plan.profile;
    figure.digest = plan.digest;
    figure.data = data.kind;
    figure.stream_count = data.stream_count;
    figure.size_bytes = slots.front()->bytes().size();
    figure.what = "latency";
    const auto run_one = [&](std::size_t count) {
      for (; count > 0; --count) {
        KERF_RETURN_IF_ERROR(RunPieces(*slots.front(), plan));
        KERF_RETURN_IF_ERROR(DoHostsPart(*slots.front(), *plan.plan));
      }
      return absl::OkStatus();
    };
    KERF_RETURN_IF_ERROR(Measure(figure, run_one));
    figure.what = "end-to-end";
    // One time is a batch of every slot.
    figure.size_bytes *= kSlots;
    const auto run_all = [&](std::size_t count) {
      return RunBesideEachOther(slots, plan.plan, count * kSlots);
    };
    return Measure(figure, run_all);
  }

  // What belongs to the way from bytes to fingerprints and is left to the CPU: here by one thread.
  static absl::Status DoHostsPart(const BatchSlot& slot, const BatchPlan& plan) {
    if (plan.selection == Selection::kDevice) return absl::OkStatus();
    PieceCuts cuts;
    for (std::size_t piece = 0; piece < slot.limits().piece_count; ++piece) {
      if (!slot.TakeCuts(piece, cuts)) {
        return absl::DataLossError("the device gives to the CPU what it has cut before");
      }
    }
    return absl::OkStatus();
  }

  // So many batches; a slot takes the next one when it is done with its last.
  absl::Status RunBesideEachOther(const std::vector<std::unique_ptr<BatchSlot>>& slots,
                                  const Plan& plan, std::size_t batch_count) const {
    const std::vector<SlotPiece> pieces = PiecesOf(*slots.front());
    const auto deadline = MeasuringClock::now() + options_.timeout;
    std::vector<bool> is_running(slots.size());
    std::size_t left = batch_count;
    std::size_t running = 0;
    do {
      for (std::size_t index = 0; index < slots.size(); ++index) {
        if (is_running[index]) {
          KERF_ASSIGN_OR_RETURN(const bool is_done, slots[index]->IsDone());
          if (!is_done) continue;
          KERF_RETURN_IF_ERROR(DoHostsPart(*slots[index], *plan));
          is_running[index] = false;
          --running;
        }
        if (left == 0) continue;
        KERF_RETURN_IF_ERROR(slots[index]->Start(plan, pieces));
        is_running[index] = true;
        ++running;
        --left;
      }
      if (MeasuringClock::now() > deadline) {
        return absl::DeadlineExceededError("batches do not come back");
      }
    } while (running > 0);
    return absl::OkStatus();
  }

  absl::Status MeasureCpu() {
    if (options_.batch_bytes.empty()) return absl::OkStatus();
    std::vector<std::uint8_t> bytes(options_.batch_bytes.back());
    Random(options_.seed).Fill(bytes);
    for (const NamedPlan& plan : plans_) {
      GpuFigure figure;
      figure.what = "cpu";
      figure.profile = plan.profile;
      figure.digest = plan.digest;
      figure.size_bytes = bytes.size();
      const auto cut = [&](std::size_t count) {
        for (; count > 0; --count) {
          const PieceCuts cuts =
              CutPieceOnCpu(*plan.plan->chunker, plan.plan->digest_algorithm, bytes, true);
          if (cuts.size_bytes() != bytes.size()) return absl::InternalError("the CPU is broken");
        }
        return absl::OkStatus();
      };
      KERF_RETURN_IF_ERROR(Measure(figure, cut));
    }
    return absl::OkStatus();
  }

  const OpenDevice& open_;
  const GpuBenchOptions& options_;
  const std::atomic<bool>& cancelled_;
  const std::function<void(const GpuFigure&)>& visit_;
  std::vector<NamedPlan> plans_;
  LeftOutPlans left_out_;
  double copy_bytes_per_second_ = 0;
};

}  // namespace

absl::StatusOr<LeftOutPlans> RunGpuBench(const OpenDevice& open, const GpuBenchOptions& options,
                                         const std::atomic<bool>& cancelled,
                                         const std::function<void(const GpuFigure&)>& visit) {
  Bench bench(open, options, cancelled, visit);
  KERF_RETURN_IF_ERROR(bench.Run());
  return bench.left_out();
}

}  // namespace kerf::cuda
