// Cuts and fingerprints pieces of many streams together on one GPU, and on the CPU whatever the GPU
// does not: the results do not say which it was.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/batch_slot.h"
#include "kernels/cuda/pipeline/piece_cuts.h"

namespace kerf::cuda {

struct GpuCutterOptions {
  // Batches on their way at once; each takes about three times batch_bytes of the device's memory,
  // and once of the host's, pinned.
  std::size_t slot_count = 4;
  SlotLimits slot{.batch_bytes = 16 << 20, .segment_count = 4096};
  // A batch that is not full leaves when its first piece has waited so long, or when the GPU has
  // nothing else to do.
  std::chrono::microseconds max_delay{500};
  // A batch that has not come back by then never will: the device is lost.
  std::chrono::milliseconds batch_timeout{2'000};
  // One batch in so many is cut by the CPU as well and compared.
  std::uint64_t audit_period = 1'000;
  // Smaller pieces are cut faster by a core of the CPU; nullopt: measured at start.
  std::optional<std::size_t> min_piece_bytes;
  // Called once, when the device is lost, from the thread that runs it. It may not wait.
  std::function<void(const absl::Status& why)> on_lost;
  // Of a test: what happens between two looks at the device.
  std::function<void()> idle;
};

struct GpuCutterCounters {
  std::uint64_t batch_count = 0;
  std::uint64_t piece_count = 0;
  std::uint64_t byte_count = 0;
  // Of the pieces, those that the CPU has cut: the GPU could not, or was lost.
  std::uint64_t cpu_piece_count = 0;
  std::uint64_t audited_batch_count = 0;
};

// Thread-safe.
class GpuCutter {
 public:
  using Done = std::function<void(PieceCuts cuts)>;

  // Takes the memory and compares the device with the CPU on a megabyte of each algorithm. With too
  // little memory it tries once more with half of it. Unavailable: the device is of no use, and
  // why.
  static absl::StatusOr<std::unique_ptr<GpuCutter>> Start(std::unique_ptr<Device> device,
                                                          GpuCutterOptions options);
  GpuCutter(const GpuCutter&) = delete;
  GpuCutter& operator=(const GpuCutter&) = delete;
  ~GpuCutter();

  // Returns when all pieces are answered; those that come later are left to the CPU. The device
  // goes with the object.
  void Close();

  // A larger piece is not taken.
  std::size_t max_piece_bytes() const { return options_.slot.batch_bytes; }
  // A smaller one had better be cut by the CPU; SIZE_MAX if the CPU is always faster.
  std::size_t min_piece_bytes() const { return *options_.min_piece_bytes; }

  // The plan of MakeBatchPlan, the same object each time, as batches need it. Null also when there
  // are very many, or a chunk may be larger than a batch.
  std::shared_ptr<const BatchPlan> PlanOf(const Profile& profile, DigestAlgorithm digest_algorithm);

  // Copies the piece, which begins where a chunk of its stream does, and calls `done` once, from
  // another thread, or from this one when the device is lost. Waits while all slots are on their
  // way; `done` may not call it, and not wait for anything.
  void Cut(const std::shared_ptr<const BatchPlan>& plan, std::span<const std::uint8_t> piece,
           bool is_end, Done done);
  // The same, but where it would wait, the device is lost or it is closed, it does nothing and says
  // false.
  bool TryCut(const std::shared_ptr<const BatchPlan>& plan, std::span<const std::uint8_t> piece,
              bool is_end, Done done);

  // Not OK: the device is lost, and why. Pieces are cut by the CPU from then on; the process should
  // be drained and begun anew.
  absl::Status health() const;

  GpuCutterCounters counters() const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Entry {
    SlotPiece piece;
    Done done;
  };
  // A slot with what it carries. Those who fill it and the thread that runs it take turns.
  struct Batch {
    std::unique_ptr<BatchSlot> slot;
    std::shared_ptr<const BatchPlan> plan;
    std::vector<Entry> entries;
    std::size_t used_bytes = 0;
    // Copies into it that are under way.
    std::size_t writer_count = 0;
    // When the first piece came.
    Clock::time_point since;
    // On its way, as far as somebody looked.
    Clock::duration waited{0};
    bool is_closed = false;
  };

  GpuCutter(std::unique_ptr<Device> device, GpuCutterOptions options);

  absl::Status TakeSlots();
  absl::Status TestItself();
  absl::Status TestPlan(const std::shared_ptr<const BatchPlan>& plan);
  absl::Status MeasureCrossover();
  // How long one piece of so many random bytes takes, alone.
  absl::StatusOr<Clock::duration> RunAlone(const std::shared_ptr<const BatchPlan>& plan,
                                           std::size_t size_bytes);

  bool HasRoom(const Batch& batch, const std::shared_ptr<const BatchPlan>& plan,
               std::size_t size_bytes) const;
  // Null: none, now.
  Batch* FindBatch(const std::shared_ptr<const BatchPlan>& plan, std::size_t size_bytes);
  // Puts the piece into the batch; `lock` is open on return.
  void Fill(std::unique_lock<std::mutex>& lock, Batch* batch, std::span<const std::uint8_t> piece,
            bool is_end, Done done);

  void Run();
  Batch* NextToStart();
  void StartOne(Batch* batch);
  void LookAtRunning();
  bool PassesAudit(const Batch& batch);
  void Answer(Batch* batch);
  void AnswerFromCpu(const Batch& batch, const Entry& entry);
  void Lose(const absl::Status& why);
  void ReplayOnCpu(Batch* batch);
  bool IsAsTheCpuHasIt(const Batch& batch) const;
  void Release(Batch* batch);

  std::unique_ptr<Device> device_;
  GpuCutterOptions options_;
  std::vector<std::unique_ptr<Batch>> batches_;

  mutable std::mutex mutex_;
  // Somebody waits for a slot.
  std::condition_variable has_slot_;
  // The device's thread waits for work.
  std::condition_variable has_work_;
  std::vector<Batch*> free_;
  // Being filled, the oldest first.
  std::deque<Batch*> filling_;
  absl::Status health_;
  std::map<std::string, std::shared_ptr<const BatchPlan>> plans_;
  GpuCutterCounters counters_;
  bool is_stopping_ = false;

  // Of the device's thread alone.
  std::deque<Batch*> running_;
  Clock::time_point last_look_;
  std::thread thread_;
};

}  // namespace kerf::cuda
