#include "kernels/cuda/pipeline/gpu_cutter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/profile.h"

namespace kerf::cuda {
namespace {

// What the self-test cuts, of each profile in both digest algorithms.
constexpr std::size_t kSelfTestBytes = 1 << 20;
constexpr std::uint64_t kSelfTestSeed = 0x6b657266;
constexpr std::string_view kSelfTestProfiles[] = {"gear-8k",   "fastcdc-8k", "fastcdc2020-8k",
                                                  "crc-8k",    "rabin-8k",   "maxp-local-8k",
                                                  "mincdc-8k", "maxcdc-8k"};

// What the device is compared with the CPU on, and how often: the best run counts.
constexpr std::string_view kCrossoverProfile = "fastcdc-8k";
constexpr int kCrossoverRounds = 5;

// Profiles that streams have asked for; each costs some kilobytes, here and in every slot.
constexpr std::size_t kMaxPlans = 64;

// What counts at most of the time between two looks at a batch that is on its way.
constexpr std::chrono::milliseconds kMaxLook{100};
// Between two looks at a device that works.
constexpr std::chrono::microseconds kPollPause{20};

std::size_t Aligned(std::size_t size_bytes) {
  return (size_bytes + kSegmentAlignmentBytes - 1) / kSegmentAlignmentBytes *
         kSegmentAlignmentBytes;
}

// A device that does not answer would be waited for while it is closed: its memory goes with the
// process.
void KeepForEver(std::unique_ptr<Device> device) {
  static std::mutex mutex;
  static auto& lost = *new std::vector<std::unique_ptr<Device>>;
  const std::lock_guard lock(mutex);
  lost.push_back(std::move(device));
}

PieceCuts CutOnCpu(const BatchPlan& plan, const BatchSlot& slot, const SlotPiece& piece) {
  return CutPieceOnCpu(*plan.chunker, plan.digest_algorithm,
                       slot.bytes().subspan(piece.offset, piece.size_bytes), piece.is_end);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GpuCutter>> GpuCutter::Start(std::unique_ptr<Device> device,
                                                            GpuCutterOptions options) {
  std::unique_ptr<GpuCutter> cutter(new GpuCutter(std::move(device), std::move(options)));
  const auto unavailable = [&](const absl::Status& status) {
    if (!absl::IsResourceExhausted(status)) cutter->health_ = status;
    return absl::UnavailableError(
        ToAbsl(Cat(cutter->device_->info().name, ": ", MessageOf(status))));
  };
  if (const absl::Status status = cutter->TakeSlots(); !status.ok()) return unavailable(status);
  if (const absl::Status status = cutter->TestItself(); !status.ok()) return unavailable(status);
  if (const absl::Status status = cutter->MeasureCrossover(); !status.ok()) {
    return unavailable(status);
  }
  cutter->thread_ = std::thread([raw = cutter.get()] { raw->Run(); });
  return cutter;
}

GpuCutter::GpuCutter(std::unique_ptr<Device> device, GpuCutterOptions options)
    : device_(std::move(device)), options_(std::move(options)) {
  KERF_CHECK(options_.slot_count > 0);
}

GpuCutter::~GpuCutter() {
  Close();
  if (!health().ok()) KeepForEver(std::move(device_));
}

void GpuCutter::Close() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  has_work_.notify_all();
  has_slot_.notify_all();
  thread_.join();
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
  for (const std::string_view name : kSelfTestProfiles) {
    for (const DigestAlgorithm algorithm : {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256}) {
      KERF_RETURN_IF_ERROR(TestPlan(MakeBatchPlan(*ParseProfile(name), algorithm)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<GpuCutter::Clock::duration> GpuCutter::RunAlone(
    const std::shared_ptr<const BatchPlan>& plan, std::size_t size_bytes) {
  Batch& batch = *batches_.front();
  batch.plan = plan;
  Random(kSelfTestSeed).Fill(batch.slot->bytes().first(size_bytes));
  const SlotPiece piece{0, static_cast<std::uint32_t>(size_bytes), true};
  batch.entries.clear();
  batch.entries.push_back({piece, nullptr});
  const auto begin = Clock::now();
  KERF_RETURN_IF_ERROR(batch.slot->Start(plan, {&piece, 1}));
  while (true) {
    KERF_ASSIGN_OR_RETURN(const bool is_done, batch.slot->IsDone());
    const auto now = Clock::now();
    if (is_done) return now - begin;
    if (now - begin > options_.batch_timeout) {
      return absl::InternalError("the self-test does not come back");
    }
  }
}

absl::Status GpuCutter::TestPlan(const std::shared_ptr<const BatchPlan>& plan) {
  const absl::Status status =
      RunAlone(plan, std::min(kSelfTestBytes, options_.slot.batch_bytes)).status();
  const bool is_right = status.ok() && batches_.front()->slot->CutsOf(0).has_value() &&
                        IsAsTheCpuHasIt(*batches_.front());
  batches_.front()->entries.clear();
  if (!status.ok() || is_right) return status;
  return absl::InternalError(
      ToAbsl(Cat("the self-test of ", FormatProfile(plan->profile), " with ",
                 DigestAlgorithmName(plan->digest_algorithm), " differs from the CPU")));
}

// The device takes a while for anything, and little more for more; the CPU takes its time for each
// byte.
absl::Status GpuCutter::MeasureCrossover() {
  if (options_.min_piece_bytes.has_value()) return absl::OkStatus();
  const auto plan = MakeBatchPlan(*ParseProfile(kCrossoverProfile), DigestAlgorithm::kBlake3);
  const std::size_t large_bytes = std::min(kSelfTestBytes, options_.slot.batch_bytes);
  const std::size_t small_bytes = large_bytes / 16;
  const auto best_of = [&](std::size_t size_bytes) -> absl::StatusOr<double> {
    double best_seconds = 0;
    for (int round = 0; round < kCrossoverRounds; ++round) {
      KERF_ASSIGN_OR_RETURN(const Clock::duration took, RunAlone(plan, size_bytes));
      const double seconds = std::chrono::duration<double>(took).count();
      if (round == 0 || seconds < best_seconds) best_seconds = seconds;
    }
    return best_seconds;
  };
  KERF_ASSIGN_OR_RETURN(const double small_seconds, best_of(small_bytes));
  KERF_ASSIGN_OR_RETURN(const double large_seconds, best_of(large_bytes));
  const Batch& batch = *batches_.front();
  double cpu_seconds = 0;
  for (int round = 0; round < kCrossoverRounds; ++round) {
    const auto begin = Clock::now();
    CutOnCpu(*plan, *batch.slot, batch.entries.front().piece);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (round == 0 || seconds < cpu_seconds) cpu_seconds = seconds;
  }
  batches_.front()->entries.clear();
  const double each_byte =
      std::max(0.0, large_seconds - small_seconds) / static_cast<double>(large_bytes - small_bytes);
  const double gain_a_byte = cpu_seconds / static_cast<double>(large_bytes) - each_byte;
  const double fixed_seconds =
      std::max(0.0, small_seconds - each_byte * static_cast<double>(small_bytes));
  const double crossover_bytes = gain_a_byte > 0 ? fixed_seconds / gain_a_byte : HUGE_VAL;
  options_.min_piece_bytes = crossover_bytes < static_cast<double>(max_piece_bytes())
                                 ? static_cast<std::size_t>(crossover_bytes)
                                 : std::numeric_limits<std::size_t>::max();
  return absl::OkStatus();
}

std::shared_ptr<const BatchPlan> GpuCutter::PlanOf(const Profile& profile,
                                                   DigestAlgorithm digest_algorithm) {
  const std::string key = Cat(FormatProfile(profile), " ", DigestAlgorithmName(digest_algorithm));
  {
    const std::lock_guard lock(mutex_);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    if (plans_.size() == kMaxPlans) return nullptr;
  }
  if (profile.max_bytes > max_piece_bytes()) return nullptr;
  // Without the lock: the CPU's fastest backend may be measured for it.
  std::shared_ptr<const BatchPlan> plan = MakeBatchPlan(profile, digest_algorithm);
  const std::lock_guard lock(mutex_);
  return plans_.try_emplace(key, std::move(plan)).first->second;
}

bool GpuCutter::HasRoom(const Batch& batch, const std::shared_ptr<const BatchPlan>& plan,
                        std::size_t size_bytes) const {
  return !batch.is_closed && batch.plan == plan &&
         batch.entries.size() < options_.slot.segment_count &&
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

void GpuCutter::Fill(std::unique_lock<std::mutex>& lock, Batch* batch,
                     std::span<const std::uint8_t> piece, bool is_end, Done done) {
  ++counters_.piece_count;
  counters_.byte_count += piece.size();
  const SlotPiece place{static_cast<std::uint32_t>(batch->used_bytes),
                        static_cast<std::uint32_t>(piece.size()), is_end};
  batch->entries.push_back({place, std::move(done)});
  batch->used_bytes += Aligned(piece.size());
  ++batch->writer_count;
  // Others copy at the same time, to other places.
  lock.unlock();
  std::copy(piece.begin(), piece.end(),
            batch->slot->bytes().subspan(place.offset, place.size_bytes).begin());
  lock.lock();
  --batch->writer_count;
  has_work_.notify_one();
  lock.unlock();
}

bool GpuCutter::TryCut(const std::shared_ptr<const BatchPlan>& plan,
                       std::span<const std::uint8_t> piece, bool is_end, Done done) {
  KERF_CHECK(piece.size() <= max_piece_bytes());
  std::unique_lock lock(mutex_);
  Batch* const batch = FindBatch(plan, piece.size());
  // What was closed for it may leave.
  has_work_.notify_one();
  if (batch == nullptr) return false;
  Fill(lock, batch, piece, is_end, std::move(done));
  return true;
}

void GpuCutter::Cut(const std::shared_ptr<const BatchPlan>& plan,
                    std::span<const std::uint8_t> piece, bool is_end, Done done) {
  KERF_CHECK(piece.size() <= max_piece_bytes());
  std::unique_lock lock(mutex_);
  while (health_.ok() && !is_stopping_) {
    if (Batch* const batch = FindBatch(plan, piece.size()); batch != nullptr) {
      return Fill(lock, batch, piece, is_end, std::move(done));
    }
    has_work_.notify_one();
    has_slot_.wait(lock);
  }
  ++counters_.piece_count;
  counters_.byte_count += piece.size();
  ++counters_.cpu_piece_count;
  lock.unlock();
  done(CutPieceOnCpu(*plan->chunker, plan->digest_algorithm, piece, is_end));
}

absl::Status GpuCutter::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

GpuCutterCounters GpuCutter::counters() const {
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

void GpuCutter::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    Batch* const next = NextToStart();
    if (next == nullptr && running_.empty() && filling_.empty()) {
      if (is_stopping_) return;
      has_work_.wait(lock);
      continue;
    }
    if (next == nullptr && running_.empty()) {
      // Somebody copies.
      has_work_.wait_for(lock, options_.max_delay);
      continue;
    }
    const bool is_lost = !health_.ok();
    lock.unlock();
    if (next != nullptr) {
      if (is_lost) {
        ReplayOnCpu(next);
      } else {
        StartOne(next);
      }
    }
    LookAtRunning();
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

void GpuCutter::StartOne(Batch* batch) {
  std::vector<SlotPiece> pieces;
  pieces.reserve(batch->entries.size());
  for (const Entry& entry : batch->entries) pieces.push_back(entry.piece);
  running_.push_back(batch);
  batch->waited = Clock::duration(0);
  const absl::Status status = batch->slot->Start(batch->plan, pieces);
  if (!status.ok()) Lose(status);
}

void GpuCutter::LookAtRunning() {
  const auto now = Clock::now();
  // While this process was stopped, or had other work, nobody could see that a batch was back.
  const auto step = std::min<Clock::duration>(now - last_look_, kMaxLook);
  last_look_ = now;
  for (std::size_t index = 0; index < running_.size();) {
    Batch* const batch = running_[index];
    const absl::StatusOr<bool> is_done = batch->slot->IsDone();
    if (!is_done.ok()) return Lose(is_done.status());
    if (*is_done) {
      if (!PassesAudit(*batch)) {
        return Lose(absl::DataLossError("it cuts, or fingerprints, other chunks than the CPU"));
      }
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
      Answer(batch);
      continue;
    }
    batch->waited += step;
    if (batch->waited > options_.batch_timeout) {
      return Lose(absl::DeadlineExceededError(
          ToAbsl(Cat("a batch has not come back for ", options_.batch_timeout.count(), " ms"))));
    }
    ++index;
  }
}

bool GpuCutter::PassesAudit(const Batch& batch) {
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = counters_.batch_count++;
    if (options_.audit_period == 0 || number % options_.audit_period != 0) return true;
    ++counters_.audited_batch_count;
  }
  return IsAsTheCpuHasIt(batch);
}

void GpuCutter::Answer(Batch* batch) {
  for (std::size_t index = 0; index < batch->entries.size(); ++index) {
    const Entry& entry = batch->entries[index];
    std::optional<PieceCuts> cuts = batch->slot->CutsOf(index);
    if (cuts.has_value()) {
      entry.done(*std::move(cuts));
    } else {
      AnswerFromCpu(*batch, entry);
    }
  }
  Release(batch);
}

void GpuCutter::AnswerFromCpu(const Batch& batch, const Entry& entry) {
  {
    const std::lock_guard lock(mutex_);
    ++counters_.cpu_piece_count;
  }
  entry.done(CutOnCpu(*batch.plan, *batch.slot, entry.piece));
}

// Nothing of the device is called again. What is on its way is still in the host's memory.
void GpuCutter::Lose(const absl::Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (health_.ok()) {
      health_ = absl::InternalError(
          ToAbsl(Cat("the GPU (", device_->info().name, ") is lost: ", MessageOf(why))));
    }
  }
  has_slot_.notify_all();
  if (options_.on_lost) std::exchange(options_.on_lost, nullptr)(health());
  while (!running_.empty()) {
    Batch* const batch = running_.front();
    running_.pop_front();
    ReplayOnCpu(batch);
  }
}

void GpuCutter::ReplayOnCpu(Batch* batch) {
  for (const Entry& entry : batch->entries) AnswerFromCpu(*batch, entry);
  Release(batch);
}

bool GpuCutter::IsAsTheCpuHasIt(const Batch& batch) const {
  const BatchPlan& plan = *batch.plan;
  for (std::size_t index = 0; index < batch.entries.size(); ++index) {
    const std::optional<PieceCuts> cuts = batch.slot->CutsOf(index);
    if (!cuts.has_value()) continue;
    // What is decided is decided, though the stream should end here: only a last chunk would not
    // be.
    SlotPiece piece = batch.entries[index].piece;
    const bool is_end = std::exchange(piece.is_end, true);
    const PieceCuts expected = CutOnCpu(plan, *batch.slot, piece);
    const bool is_enough =
        is_end ? cuts->chunks.size() == expected.chunks.size()
               : piece.size_bytes - cuts->size_bytes() < plan.chunker->max_chunk_bytes();
    const bool is_right =
        is_enough && cuts->chunks.size() <= expected.chunks.size() &&
        std::equal(cuts->chunks.begin(), cuts->chunks.end(), expected.chunks.begin());
    if (!is_right) return false;
  }
  return true;
}

void GpuCutter::Release(Batch* batch) {
  // What they hold goes without the lock: it may call.
  batch->entries.clear();
  {
    const std::lock_guard lock(mutex_);
    batch->plan.reset();
    batch->used_bytes = 0;
    batch->is_closed = false;
    free_.push_back(batch);
  }
  has_slot_.notify_one();
}

}  // namespace kerf::cuda
