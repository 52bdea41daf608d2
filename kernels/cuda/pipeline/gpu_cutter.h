// Cuts and fingerprints pieces of many streams together on one GPU.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
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
#include "kernels/cuda/pipeline/call_watch.h"
#include "kernels/cuda/pipeline/crossovers.h"
#include "kernels/cuda/pipeline/gpu_counters.h"
#include "kernels/cuda/pipeline/kernel_loading.h"
#include "kernels/cuda/pipeline/left_out_plans.h"
#include "kernels/cuda/pipeline/look_clock.h"
#include "kernels/cuda/pipeline/piece_cuts.h"

namespace kerf::cuda {

// A call queues something or asks for something: a driver that is well has done in microseconds,
// one that makes a graph for the first time in some tens of milliseconds.
inline constexpr std::chrono::milliseconds kCallTimeout{30'000};

struct GpuCutterOptions {
  // Batches on their way at once; each takes SlotDeviceBytes of the device's memory, which is some
  // 2.3 times batch_bytes, and half of that of the host's, pinned.
  std::size_t slot_count = 4;
  SlotLimits slot{.batch_bytes = 16 << 20, .piece_count = 4096};
  // A batch that is not full leaves when its first piece has waited so long, or when the GPU has
  // nothing else to do.
  std::chrono::microseconds max_delay{500};
  // A batch that has not come back by then never will: the device is lost.
  std::chrono::milliseconds batch_timeout{2'000};
  // So for a call of the driver that has not returned. nullopt: kCallTimeout, or batch_timeout if
  // that is longer.
  std::optional<std::chrono::milliseconds> call_timeout;
  // One batch in so many is cut by the CPU as well and compared, before it is answered; 0: none.
  std::uint64_t audit_period = 1'000;
  // How long its kernels may take to be ready, and what is called where that takes long.
  LoadLimits load;
  std::function<void()> on_slow_load;
  // Smaller pieces are cut faster by a core of the CPU; nullopt: measured at start, for each digest
  // and for several lengths of chunks.
  std::optional<std::size_t> min_piece_bytes;
  // Called once, when the device is lost, from the thread that runs it. It may not wait.
  std::function<void(const absl::Status& why)> on_lost;
  // Of a test: what happens between two looks at the device.
  std::function<void()> idle;
};

// Thread-safe. The thread that runs the device never cuts anything itself: what the GPU does not
// cut goes back to who has sent it.
class GpuCutter {
 public:
  // Loads the kernels, takes the memory, and holds the device against the CPU. With too little
  // memory it tries once more with half of it. What the device cannot run is left out. Unavailable:
  // the device is of no use, and why.
  static absl::StatusOr<std::unique_ptr<GpuCutter>> Start(std::unique_ptr<Device> device,
                                                          GpuCutterOptions options);
  GpuCutter(const GpuCutter&) = delete;
  GpuCutter& operator=(const GpuCutter&) = delete;
  // Nobody may be in TryCut.
  ~GpuCutter();

  // Returns when all pieces are answered; those that come later are not taken. The device goes with
  // the object.
  void Close();

  const DeviceInfo& device_info() const { return device_info_; }
  // A larger piece is not taken.
  std::size_t max_piece_bytes() const { return options_.slot.batch_bytes; }
  // A smaller one had better be cut by the CPU; SIZE_MAX if the CPU is always faster. Of a plan,
  // and the least of all plans.
  std::size_t min_piece_bytes(const BatchPlan& plan) const { return crossovers_.Of(plan); }
  std::size_t min_piece_bytes() const { return crossovers_.least(); }

  // What the CPU has to cut, because the device cannot run it.
  const LeftOutPlans& left_out() const { return left_out_; }

  // Copies the piece, which begins where a chunk of its stream does, and has `taker` told what
  // became of it: once, from another thread. False, and nothing is done: all slots are on their
  // way, the device is lost, or it is closed, or the plan is left out. Pieces share a batch if
  // their plans are one object.
  bool TryCut(const std::shared_ptr<const BatchPlan>& plan, std::span<const std::uint8_t> piece,
              bool is_end, const std::shared_ptr<PieceTaker>& taker);

  // Taken and not answered yet.
  std::size_t pending_bytes() const { return pending_bytes_.load(std::memory_order_relaxed); }
  bool is_lost() const { return is_lost_.load(std::memory_order_relaxed); }
  // Not OK: the device is lost, and why. It takes nothing more, and pieces that were on their way
  // have been handed back, or will be at once.
  absl::Status health() const;

  GpuCounters counters() const;

 private:
  using Clock = std::chrono::steady_clock;

  // A slot with what it carries. Those who fill it, the thread that runs it and the one that audits
  // it take turns.
  struct Batch {
    std::unique_ptr<BatchSlot> slot;
    std::shared_ptr<const BatchPlan> plan;
    std::vector<SlotPiece> pieces;
    // Of each piece.
    std::vector<std::shared_ptr<PieceTaker>> takers;
    std::size_t used_bytes = 0;
    // Copies into it that are under way.
    std::size_t writer_count = 0;
    // When the first piece came.
    Clock::time_point since;
    // On its way, as far as somebody looked.
    Clock::duration waited{0};
    bool is_closed = false;
    // What the audit has found.
    std::string difference;
  };
  struct PieceAnswer {
    std::shared_ptr<PieceTaker> taker;
    PieceOutcome outcome;
  };

  GpuCutter(std::unique_ptr<Device> device, GpuCutterOptions options);

  absl::Status TakeSlots();
  absl::Status TestItself();

  bool HasRoom(const Batch& batch, const std::shared_ptr<const BatchPlan>& plan,
               std::size_t size_bytes) const;
  // Null: none, now.
  Batch* FindBatch(const std::shared_ptr<const BatchPlan>& plan, std::size_t size_bytes);

  // Of the device's thread. What calls the device is false when the call was given up: another
  // thread has become the device's then, and this one ends at once.
  void Run();
  Batch* NextToStart();
  Batch* NextAudited();
  bool StartOne(Batch* batch);
  bool LookAtRunning();
  void HasCome(Batch* batch);
  void Judge(Batch* batch);
  void Answer(Batch* batch);
  static PieceOutcome TakePiece(const Batch& batch, std::size_t piece, PieceTaker& taker);
  void HandBack(Batch* batch);
  void SendAnswers(Batch* batch, const GpuCounters& added);
  void Lose(const absl::Status& why);

  // Of the thread that looks whether calls return. It becomes the device's when one does not.
  void Watch();
  static void KeepBatchesForEver(std::vector<std::unique_ptr<Batch>> batches);

  // Of the auditing thread.
  void Audit();
  static std::string DifferenceFromCpu(const Batch& batch);

  std::unique_ptr<Device> device_;
  const DeviceInfo device_info_;
  GpuCutterOptions options_;
  LeftOutPlans left_out_;
  Crossovers crossovers_;
  std::vector<std::unique_ptr<Batch>> batches_;
  std::atomic<std::size_t> pending_bytes_{0};
  std::atomic<bool> is_lost_{false};

  mutable std::mutex mutex_;
  // The device's thread waits for work, the other one for something to audit.
  std::condition_variable has_work_;
  std::condition_variable has_audit_;
  std::vector<Batch*> free_;
  // Being filled, the oldest first.
  std::deque<Batch*> filling_;
  // To be audited, and audited; how many are in one of the two or in between.
  std::deque<Batch*> to_audit_;
  std::deque<Batch*> audited_;
  std::size_t audit_count_ = 0;
  absl::Status health_;
  GpuCounters counters_;
  bool is_stopping_ = false;
  bool audits_no_more_ = false;
  // Of Run, whichever thread runs it.
  std::condition_variable ending_;
  bool has_ended_ = false;

  // Of the device's thread alone.
  std::deque<Batch*> running_;
  std::vector<PieceAnswer> answers_;
  std::uint64_t batch_number_ = 0;
  LookClock look_clock_;
  // Outlives a call that does not return.
  const std::shared_ptr<CallWatch> calls_ = std::make_shared<CallWatch>();
  std::thread thread_;
  std::thread watching_thread_;
  std::thread audit_thread_;
};

}  // namespace kerf::cuda
