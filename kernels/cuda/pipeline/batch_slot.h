// The memory of one batch, on both sides, and its way through the device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/blake3_batch.h"
#include "kernels/cuda/kernel/digest_words.h"
#include "kernels/cuda/kernel/selection.h"
#include "kernels/cuda/kernel/sha256_batch.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/batch_times.h"
#include "kernels/cuda/pipeline/piece_cuts.h"
#include "kernels/cuda/pipeline/queue_marks.h"

namespace kerf::cuda {

struct SlotLimits {
  // Of the pieces of a batch, each rounded up to kPieceAlignmentBytes. A multiple of
  // kBatchAlignmentBytes.
  std::size_t batch_bytes = 0;
  std::size_t piece_count = 0;
};

// Device memory of a slot.
struct SlotMemory {
  // One copy brings all that goes in: BatchHeader, gear table, pieces, bytes.
  std::uint8_t* in = nullptr;
  MarkMemory marks;
  SelectionArgs selection{};
  Blake3Workspace blake3{};
  Sha256Workspace sha256{};
  DigestWords* digests = nullptr;
};

// What a slot takes of the device's memory.
std::size_t SlotDeviceBytes(const SlotLimits& limits);

// A piece of the batch: where it lies in bytes().
struct SlotPiece {
  std::uint32_t offset = 0;
  std::uint32_t size_bytes = 0;
  bool is_end = false;
};

// What a batch goes through on the device.
struct BatchSteps {
  // K1; K2; K3 to K5; K6. Each needs what those before it have left in the slot.
  bool marks = false;
  bool candidates = false;
  bool cuts = false;
  bool digests = false;
  // The moment behind each is noted.
  bool are_noted = false;

  friend bool operator==(const BatchSteps&, const BatchSteps&) = default;
};

// All that a batch of the plan needs, without moments.
BatchSteps StepsOf(const BatchPlan& plan);

// A thread's share of the marks: as the size of the batch has it (StripMarks::Args).
inline constexpr std::uint32_t kDefaultStripBytes = 0;

// Not thread-safe, but that others may fill bytes() between batches.
class BatchSlot {
 public:
  // ResourceExhausted: the device, or the host, has too little memory. `device` outlives it.
  static absl::StatusOr<std::unique_ptr<BatchSlot>> Make(Device& device, const SlotLimits& limits);

  const SlotLimits& limits() const { return limits_; }
  // The batch, in pinned memory; it stays as it is until others are filled in.
  std::span<std::uint8_t> bytes() const { return bytes_; }

  // Sends pieces, which lie in bytes() in this order, on their way; at least one. An error: the
  // device is lost; but FailedPrecondition: it cannot run the plan, and is well. Nothing comes back
  // then; before the next Start IsDone has to be true.
  absl::Status Start(const std::shared_ptr<const BatchPlan>& plan,
                     std::span<const SlotPiece> pieces);
  // Whether it has come back. Internal also if what came back makes no sense.
  absl::StatusOr<bool> IsDone();

  // After IsDone, of the last Start; none: behind a Repeat, or the device cannot tell.
  const std::optional<BatchTimes>& times() const { return times_; }

  // What came back, until the next Start, in place of what is in `cuts`; with Selection::kHost the
  // caller's thread selects and fingerprints. False: the device gives the piece to the CPU.
  bool TakeCuts(std::size_t piece, PieceCuts& cuts) const;
  // With Selection::kHost: what SelectOnHost is to be given, in place of what is in `candidates`.
  // False: as above.
  bool TakeCandidates(std::size_t piece, std::vector<std::uint32_t>& candidates) const;

  // Drops what it keeps of the plans that it has run. Not while a batch is on its way.
  absl::Status ForgetPlans();

  // For those who measure: after IsDone, `steps` again so many times, one behind the other, on what
  // the device has of the batch. Done when queue() is.
  absl::Status Repeat(const BatchSteps& steps, std::uint32_t strip_bytes, std::size_t count);
  // When that is done: IsDone and TakeCuts are about what it made.
  absl::Status Fetch();
  QueueId queue() const { return queue_; }

 private:
  enum class Stage : std::uint8_t { kIdle, kSelecting, kFetching, kDone };
  // In the order in which they come.
  enum Moment : std::uint8_t { kBegun, kCopiedIn, kMarked, kSelected, kDigested, kCopiedOut };
  static constexpr std::size_t kMomentCount = kCopiedOut + 1;
  struct Recorded {
    std::shared_ptr<const BatchPlan> plan;
    GraphId graph{};
  };
  struct Repeated {
    std::shared_ptr<const BatchPlan> plan;
    BatchSteps steps;
    std::uint32_t strip_bytes = 0;
    GraphId graph{};
  };

  BatchSlot(Device& device, const SlotLimits& limits) : device_(device), limits_(limits) {}

  absl::Status TakeMemory();
  absl::Status ClearCandidates();
  absl::Status Launch(const BatchPlan& plan, const BatchSteps& steps, std::uint32_t strip_bytes);
  absl::StatusOr<GraphId> Record(const BatchPlan& plan, const BatchSteps& steps,
                                 std::uint32_t strip_bytes);
  absl::Status RunPlan(const std::shared_ptr<const BatchPlan>& plan);
  absl::Status FetchRest();
  // Asks for what belongs to `offset` of what comes back.
  absl::Status CopyBack(std::size_t offset, std::size_t size_bytes, const std::uint8_t* from);
  void TakeBack();
  absl::Status Note(Moment moment) { return device_.Note(queue_, moments_[moment]); }
  absl::Status TakeTimes();
  absl::StatusOr<BatchTimes> TimesOfBatch();
  std::uint32_t FirstNodeOf(std::size_t piece) const;
  std::span<const std::uint32_t> CandidatesOf(std::size_t piece) const;
  absl::Status CheckCuts() const;
  absl::Status CheckCandidates() const;

  Device& device_;
  const SlotLimits limits_;
  QueueId queue_{};
  std::array<MomentId, kMomentCount> moments_{};
  // As in SlotMemory.
  std::span<std::uint8_t> in_;
  std::span<std::uint8_t> bytes_;
  SlotMemory memory_;
  // Where the device writes what comes back, and the same when it has come: what is looked at does
  // not change any more, whatever the device does.
  std::span<std::uint8_t> out_;
  std::unique_ptr<std::uint8_t[]> back_;
  // Of out_: what is on its way.
  std::vector<std::span<std::uint8_t>> coming_back_;
  // The last one that was run first.
  std::vector<Recorded> recorded_;
  std::optional<Repeated> repeated_;

  Stage stage_ = Stage::kIdle;
  std::shared_ptr<const BatchPlan> plan_;
  std::vector<SlotPiece> pieces_;
  // What is on its way has noted its moments.
  bool is_noted_ = false;
  std::optional<BatchTimes> times_;
};

}  // namespace kerf::cuda
