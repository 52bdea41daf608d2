#include "kernels/cuda/pipeline/gpu_cutter.h"

#include <sys/prctl.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/cuda/pipeline/cpu_comparison.h"
#include "kernels/cuda/pipeline/self_test.h"

namespace kerf::cuda {
namespace {

// Between two looks at a device that works.
constexpr std::chrono::microseconds kPollPause{20};
// Between two looks at its calls.
constexpr std::chrono::milliseconds kWatchPause{100};
// How much later than asked for the system may end such a pause: by itself it takes 50 us.
constexpr unsigned long kTimerSlackNanoseconds = 1'000;

std::size_t Aligned(std::size_t size_bytes) {
  return (size_bytes + kPieceAlignmentBytes - 1) / kPieceAlignmentBytes * kPieceAlignmentBytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuCutter>> GpuCutter::Start(std::unique_ptr<Device> device,
                                                            GpuCutterOptions options) {
  const std::string name = device->info().name;
  auto loaded = LoadKernels(std::move(device), options.load, options.on_slow_load);
  if (!loaded.ok()) {
    return absl::UnavailableError(ToAbsl(Cat(name, ": ", MessageOf(loaded.status()))));
  }
  std::unique_ptr<GpuCutter> cutter(new GpuCutter(*std::move(loaded), std::move(options)));
  absl::Status status = cutter->TakeSlots();
  if (status.ok()) status = cutter->TestItself();
  if (!status.ok()) {
    const bool is_well = absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
    if (!is_well) cutter->health_ = status;
    return absl::UnavailableError(ToAbsl(Cat(cutter->device_info_.name, ": ", MessageOf(status))));
  }
  cutter->thread_ = std::thread([raw = cutter.get()] { raw->Run(); });
  cutter->watching_thread_ = std::thread([raw = cutter.get()] { raw->Watch(); });
  if (cutter->options_.audit_period > 0) {
    cutter->audit_thread_ = std::thread([raw = cutter.get()] { raw->Audit(); });
  }
  return cutter;
}

GpuCutter::GpuCutter(std::unique_ptr<Device> device, GpuCutterOptions options)
    : device_(std::move(device)), device_info_(device_->info()), options_(std::move(options)) {
  KERF_CHECK(options_.slot_count > 0);
}

GpuCutter::~GpuCutter() {
  Close();
  if (calls_->is_given_up()) KeepBatchesForEver(std::move(batches_));
  if (!health().ok()) KeepForEver(std::move(device_));
}

// A call that returns after all goes on with its batch.
void GpuCutter::KeepBatchesForEver(std::vector<std::unique_ptr<Batch>> batches) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::vector<std::unique_ptr<Batch>>>;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(batches));
}

void GpuCutter::Close() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  has_work_.notify_all();
  {
    std::unique_lock lock(mutex_);
    ending_.wait(lock, [this] { return has_ended_; });
  }
  watching_thread_.join();
  if (calls_->is_given_up()) {
    thread_.detach();
  } else {
    thread_.join();
  }
  if (!audit_thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    audits_no_more_ = true;
  }
  has_audit_.notify_all();
  audit_thread_.join();
}

absl::Status GpuCutter::TakeSlots() {
  bool has_tried_less = false;
  while (batches_.size() < options_.slot_count) {
    auto slot = BatchSlot::Make(*device_, options_.slot);
    if (slot.ok()) {
      batches_.push_back(std::make_unique<Batch>());
      batches_.back()->slot = *std::move(slot);
      continue;
    }
    // What was taken stays taken: fewer slots are what there is room for.
    if (!absl::IsResourceExhausted(slot.status())) return slot.status();
    if (!batches_.empty()) break;
    if (std::exchange(has_tried_less, true)) return slot.status();
    options_.slot.batch_bytes =
        std::max(kBatchAlignmentBytes,
                 options_.slot.batch_bytes / 2 / kBatchAlignmentBytes * kBatchAlignmentBytes);
  }
  for (const auto& batch : batches_) free_.push_back(batch.get());
  return absl::OkStatus();
}

absl::Status GpuCutter::TestItself() {
  BatchSlot& slot = *batches_.front()->slot;
  KERF_ASSIGN_OR_RETURN(left_out_, TestDevice(slot, options_.batch_timeout));
  if (options_.min_piece_bytes.has_value()) {
    crossovers_ = Crossovers(*options_.min_piece_bytes);
  } else {
    KERF_ASSIGN_OR_RETURN(crossovers_, MeasureCrossovers(slot, left_out_, options_.batch_timeout));
  }
  // Nobody may ever ask for those.
  return slot.ForgetPlans();
}

bool GpuCutter::HasRoom(const Batch& batch, const std::shared_ptr<const BatchPlan>& plan,
                        std::size_t size_bytes) const {
  return !batch.is_closed && batch.plan == plan &&
         batch.pieces.size() < options_.slot.piece_count &&
         batch.used_bytes + size_bytes <= options_.slot.batch_bytes;
}

GpuCutter::Batch* GpuCutter::FindBatch(const std::shared_ptr<const BatchPlan>& plan,
                                       std::size_t size_bytes) {
  if (!health_.ok() || is_stopping_) return nullptr;
  for (Batch* const batch : filling_) {
    if (HasRoom(*batch, plan, size_bytes)) return batch;
    // Full for this one: it need not wait for more.
    if (batch->plan == plan) batch->is_closed = true;
  }
  if (free_.empty()) return nullptr;
  Batch* const batch = free_.back();
  free_.pop_back();
  batch->plan = plan;
  batch->since = Clock::now();
  filling_.push_back(batch);
  return batch;
}

bool GpuCutter::TryCut(const std::shared_ptr<const BatchPlan>& plan,
                       std::span<const std::uint8_t> piece, bool is_end,
                       const std::shared_ptr<PieceTaker>& taker) {
  KERF_CHECK(piece.size() <= max_piece_bytes());
  if (left_out_.Has(*plan)) return false;
  std::unique_lock lock(mutex_);
  Batch* const batch = FindBatch(plan, piece.size());
  if (batch == nullptr) {
    ++counters_.refused_piece_count;
    return false;
  }
  ++counters_.piece_count;
  counters_.byte_count += piece.size();
  const SlotPiece place{static_cast<std::uint32_t>(batch->used_bytes),
                        static_cast<std::uint32_t>(piece.size()), is_end};
  const std::size_t taken_bytes = Aligned(piece.size());
  batch->pieces.push_back(place);
  batch->takers.push_back(taker);
  batch->used_bytes += taken_bytes;
  pending_bytes_.fetch_add(taken_bytes, std::memory_order_relaxed);
  ++batch->writer_count;
  // Others copy at the same time, to other places.
  lock.unlock();
  std::copy(piece.begin(), piece.end(),
            batch->slot->bytes().subspan(place.offset, place.size_bytes).begin());
  lock.lock();
  --batch->writer_count;
  lock.unlock();
  has_work_.notify_one();
  return true;
}

absl::Status GpuCutter::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

GpuCounters GpuCutter::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

// The oldest that nobody writes to, if it is full, or old, or the device has nothing else to do.
GpuCutter::Batch* GpuCutter::NextToStart() {
  const auto now = Clock::now();
  for (auto at = filling_.begin(); at != filling_.end(); ++at) {
    Batch* const batch = *at;
    const bool is_due = batch->is_closed || running_.empty() || is_stopping_ || !health_.ok() ||
                        free_.empty() || now - batch->since >= options_.max_delay;
    if (!is_due) continue;
    // Nobody else comes in; it goes when those who copy are done.
    batch->is_closed = true;
    if (batch->writer_count > 0) continue;
    filling_.erase(at);
    return batch;
  }
  return nullptr;
}

GpuCutter::Batch* GpuCutter::NextAudited() {
  if (audited_.empty()) return nullptr;
  Batch* const batch = audited_.front();
  audited_.pop_front();
  --audit_count_;
  return batch;
}

void GpuCutter::Run() {
  prctl(PR_SET_TIMERSLACK, kTimerSlackNanoseconds);
  std::unique_lock lock(mutex_);
  while (true) {
    Batch* const next = NextToStart();
    Batch* const audited = NextAudited();
    if (next == nullptr && audited == nullptr && running_.empty()) {
      if (is_stopping_ && filling_.empty() && audit_count_ == 0) {
        has_ended_ = true;
        ending_.notify_all();
        return;
      }
      // Whoever copies or audits something says when it is done.
      has_work_.wait(lock);
      continue;
    }
    lock.unlock();
    if (audited != nullptr) Judge(audited);
    if (next != nullptr && !StartOne(next)) return;
    if (!LookAtRunning()) return;
    if (next == nullptr && !running_.empty()) {
      if (options_.idle) {
        options_.idle();
      } else {
        std::this_thread::sleep_for(kPollPause);
      }
    }
    lock.lock();
  }
}

bool GpuCutter::StartOne(Batch* batch) {
  if (is_lost()) {
    HandBack(batch);
    return true;
  }
  running_.push_back(batch);
  batch->waited = Clock::duration(0);
  // What the call needs is this thread's own: the batch may be handed back while it is held.
  const std::shared_ptr<CallWatch> calls = calls_;
  const std::shared_ptr<const BatchPlan> plan = batch->plan;
  const std::vector<SlotPiece> pieces = batch->pieces;
  calls->Begin();
  const absl::Status status = batch->slot->Start(plan, pieces);
  if (!calls->End()) return false;
  if (!status.ok()) Lose(status);
  return true;
}

bool GpuCutter::LookAtRunning() {
  const std::shared_ptr<CallWatch> calls = calls_;
  const auto step = look_clock_.Look();
  for (std::size_t index = 0; index < running_.size();) {
    Batch* const batch = running_[index];
    calls->Begin();
    const absl::StatusOr<bool> is_done = batch->slot->IsDone();
    if (!calls->End()) return false;
    if (!is_done.ok()) {
      Lose(is_done.status());
      return true;
    }
    if (*is_done) {
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
      HasCome(batch);
      continue;
    }
    batch->waited += step;
    if (batch->waited > options_.batch_timeout) {
      Lose(absl::DeadlineExceededError(
          ToAbsl(Cat("a batch has not come back for ", options_.batch_timeout.count(), " ms"))));
      return true;
    }
    ++index;
  }
  return true;
}

// The thread that is held in a call can answer nobody. So what it has had is taken from it, and
// what it would have done is done here.
void GpuCutter::Watch() {
  const auto most = options_.call_timeout.value_or(std::max(kCallTimeout, options_.batch_timeout));
  std::uint64_t call = CallWatch::kIdle;
  Clock::duration held{0};
  LookClock look_clock;
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, kWatchPause, [this] { return has_ended_; })) {
    const auto step = look_clock.Look();
    const std::uint64_t current = calls_->current();
    held = current == call && call != CallWatch::kIdle ? held + step : Clock::duration(0);
    call = current;
    if (held <= most || !calls_->GiveUp(call)) continue;
    lock.unlock();
    Lose(absl::DeadlineExceededError(
        ToAbsl(Cat("a call of its driver has not returned for ", most.count(), " ms"))));
    return Run();
  }
}

void GpuCutter::HasCome(Batch* batch) {
  const bool is_audited = options_.audit_period > 0 && batch_number_++ % options_.audit_period == 0;
  if (!is_audited) return Answer(batch);
  {
    const std::lock_guard lock(mutex_);
    to_audit_.push_back(batch);
    ++audit_count_;
    ++counters_.audited_batch_count;
  }
  has_audit_.notify_one();
}

// An audit takes a core longer than the device takes for many batches, which do not wait for it.
void GpuCutter::Audit() {
  std::unique_lock lock(mutex_);
  while (true) {
    has_audit_.wait(lock, [this] { return audits_no_more_ || !to_audit_.empty(); });
    if (to_audit_.empty()) return;
    Batch* const batch = to_audit_.front();
    to_audit_.pop_front();
    lock.unlock();
    batch->difference = DifferenceFromCpu(*batch);
    lock.lock();
    audited_.push_back(batch);
    has_work_.notify_one();
  }
}

std::string GpuCutter::DifferenceFromCpu(const Batch& batch) {
  for (std::size_t index = 0; index < batch.pieces.size(); ++index) {
    const SlotPiece& piece = batch.pieces[index];
    ComparedPiece compared{
        batch.plan, batch.slot->bytes().subspan(piece.offset, piece.size_bytes), piece.is_end, {}};
    if (!batch.slot->TakeCuts(index, compared.cuts)) continue;
    if (std::string difference = DifferenceOf(compared); !difference.empty()) return difference;
  }
  return "";
}

void GpuCutter::Judge(Batch* batch) {
  if (batch->difference.empty()) return Answer(batch);
  {
    const std::lock_guard lock(mutex_);
    ++counters_.mismatch_count;
  }
  Lose(absl::DataLossError(ToAbsl(batch->difference)));
  HandBack(batch);
}

void GpuCutter::Answer(Batch* batch) {
  GpuCounters added{.batch_count = 1};
  if (const auto& times = batch->slot->times()) batch->takers.front()->OnBatch(*times);
  for (std::size_t index = 0; index < batch->pieces.size(); ++index) {
    std::shared_ptr<PieceTaker>& taker = batch->takers[index];
    const PieceOutcome outcome = TakePiece(*batch, index, *taker);
    if (outcome == PieceOutcome::kGivenUp) ++added.given_up_piece_count;
    answers_.push_back({std::move(taker), outcome});
  }
  SendAnswers(batch, added);
}

PieceOutcome GpuCutter::TakePiece(const Batch& batch, std::size_t piece, PieceTaker& taker) {
  if (batch.plan->selection == Selection::kHost) {
    return batch.slot->TakeCandidates(piece, taker.candidates) ? PieceOutcome::kMarked
                                                               : PieceOutcome::kGivenUp;
  }
  return batch.slot->TakeCuts(piece, taker.cuts) ? PieceOutcome::kCut : PieceOutcome::kGivenUp;
}

void GpuCutter::HandBack(Batch* batch) {
  for (std::shared_ptr<PieceTaker>& taker : batch->takers) {
    answers_.push_back({std::move(taker), PieceOutcome::kLost});
  }
  SendAnswers(batch, {.lost_piece_count = batch->pieces.size()});
}

// The slot is free for others before anybody is told.
void GpuCutter::SendAnswers(Batch* batch, const GpuCounters& added) {
  pending_bytes_.fetch_sub(batch->used_bytes, std::memory_order_relaxed);
  batch->pieces.clear();
  batch->takers.clear();
  batch->plan.reset();
  batch->used_bytes = 0;
  batch->is_closed = false;
  {
    const std::lock_guard lock(mutex_);
    counters_.batch_count += added.batch_count;
    counters_.given_up_piece_count += added.given_up_piece_count;
    counters_.lost_piece_count += added.lost_piece_count;
    free_.push_back(batch);
  }
  for (const PieceAnswer& answer : answers_) answer.taker->OnPiece(answer.outcome);
  answers_.clear();
}

// Nothing of the device is called again.
void GpuCutter::Lose(const absl::Status& why) {
  if (!is_lost_.exchange(true)) {
    const absl::Status health =
        absl::InternalError(ToAbsl(Cat(device_info_.name, " is lost: ", MessageOf(why))));
    {
      const std::lock_guard lock(mutex_);
      health_ = health;
    }
    if (options_.on_lost) options_.on_lost(health);
  }
  while (!running_.empty()) {
    Batch* const batch = running_.front();
    running_.pop_front();
    HandBack(batch);
  }
}

}  // namespace kerf::cuda
