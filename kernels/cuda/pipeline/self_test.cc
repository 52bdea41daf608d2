#include "kernels/cuda/pipeline/self_test.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/cpu_comparison.h"
#include "kernels/cuda/pipeline/look_clock.h"
#include "kernels/cuda/pipeline/piece_cuts.h"
#include "kernels/profile.h"

namespace kerf::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// What is cut, of each profile with each digest.
constexpr std::size_t kTestBytes = 1 << 20;
constexpr std::uint64_t kSeed = 0x6b657266;
constexpr std::string_view kProfiles[] = {"fastcdc-8k", "gear-8k",  "fastcdc2020-8k",
                                          "crc-8k",     "rabin-8k", "maxp-local-8k",
                                          "mincdc-8k",  "maxcdc-8k"};
// Of the last one the host selects and fingerprints what the device has marked.
constexpr DigestAlgorithm kDigests[] = {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256,
                                        DigestAlgorithm::kXxh3_128};

// How long chunks may be with which the speed of the device is compared with the CPU's.
constexpr std::uint32_t kMeasuredMaxBytes[] = {32 << 10, 64 << 10, 128 << 10, 256 << 10};
// How often: the best run counts.
constexpr int kCrossoverRounds = 5;
// For so long the device works before that.
constexpr std::chrono::milliseconds kWarmUp{50};
// A device that takes so many times as long as a core is slower than it, whatever disturbed one
// run.
constexpr double kHopeless = 8;

std::size_t TestBytes(const BatchSlot& slot) {
  return std::min(kTestBytes, slot.limits().batch_bytes);
}

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

absl::Status WaitFor(BatchSlot& slot, std::chrono::milliseconds timeout) {
  LookClock look_clock;
  for (Clock::duration waited{0}; waited <= timeout;) {
    waited += look_clock.Look();
    KERF_ASSIGN_OR_RETURN(const bool is_done, slot.IsDone());
    if (is_done) return absl::OkStatus();
  }
  return absl::DeadlineExceededError("the self-test does not come back");
}

// How many seconds one piece of so many random bytes takes, alone. It stays in the slot.
// FailedPrecondition: the device cannot run the plan, and is done with what it was given of it.
absl::StatusOr<double> RunAlone(BatchSlot& slot, const std::shared_ptr<const BatchPlan>& plan,
                                std::size_t size_bytes, std::chrono::milliseconds timeout) {
  Random(kSeed).Fill(slot.bytes().first(size_bytes));
  const SlotPiece piece{0, static_cast<std::uint32_t>(size_bytes), true};
  const auto begin = Clock::now();
  const absl::Status started = slot.Start(plan, {&piece, 1});
  if (!started.ok() && !absl::IsFailedPrecondition(started)) return started;
  KERF_RETURN_IF_ERROR(WaitFor(slot, timeout));
  if (!started.ok()) return started;
  return SecondsSince(begin);
}

absl::Status TestPlan(BatchSlot& slot, const std::shared_ptr<const BatchPlan>& plan,
                      std::chrono::milliseconds timeout) {
  const std::size_t size_bytes = TestBytes(slot);
  KERF_RETURN_IF_ERROR(RunAlone(slot, plan, size_bytes, timeout).status());
  ComparedPiece piece{plan, slot.bytes().first(size_bytes), true, {}};
  if (!slot.TakeCuts(0, piece.cuts)) {
    return absl::DataLossError(ToAbsl(
        Cat("the self-test: ", FormatProfile(plan->profile), ": random bytes are given up")));
  }
  const std::string difference = DifferenceOf(piece);
  if (difference.empty()) return absl::OkStatus();
  return absl::DataLossError(ToAbsl(Cat("the self-test: ", difference)));
}

// Null: the device can run none with such fingerprints and chunks.
std::shared_ptr<const BatchPlan> PlanToMeasure(DigestAlgorithm algorithm, std::uint32_t max_bytes,
                                               const LeftOutPlans& left_out) {
  std::vector<std::string> profiles = {
      Cat("fastcdc:min=", max_bytes / 16, ",avg=", max_bytes / 4, ",max=", max_bytes, ",level=2"),
      Cat("gear:min=", max_bytes / 8, ",avg=", max_bytes / 8, ",max=", max_bytes)};
  // Anything is better than nothing.
  if (max_bytes == kMeasuredMaxBytes[0]) {
    profiles.insert(profiles.end(), std::begin(kProfiles), std::end(kProfiles));
  }
  for (const std::string& profile : profiles) {
    auto plan = MakeBatchPlan(*ParseProfile(profile), algorithm);
    if (plan != nullptr && !left_out.Has(*plan)) return plan;
  }
  return nullptr;
}

// So too what the host has to do with what came back.
absl::StatusOr<double> CutAlone(BatchSlot& slot, const std::shared_ptr<const BatchPlan>& plan,
                                std::size_t size_bytes, std::chrono::milliseconds timeout) {
  KERF_ASSIGN_OR_RETURN(const double seconds, RunAlone(slot, plan, size_bytes, timeout));
  const auto begin = Clock::now();
  PieceCuts cuts;
  slot.TakeCuts(0, cuts);
  return seconds + SecondsSince(begin);
}

// A device that had nothing to do is slower than one that has.
absl::Status WarmUp(BatchSlot& slot, const std::shared_ptr<const BatchPlan>& plan,
                    std::chrono::milliseconds timeout) {
  const auto begin = Clock::now();
  do {
    KERF_RETURN_IF_ERROR(RunAlone(slot, plan, TestBytes(slot), timeout).status());
  } while (Clock::now() - begin < kWarmUp);
  return absl::OkStatus();
}

// The device takes a while for anything, and little more for more; the CPU takes its time for each
// byte.
absl::StatusOr<std::size_t> MeasureCrossover(BatchSlot& slot,
                                             const std::shared_ptr<const BatchPlan>& plan,
                                             std::chrono::milliseconds timeout) {
  const std::size_t large_bytes = TestBytes(slot);
  // Not so small that it has no chunk that is as long as one may be.
  const std::size_t small_bytes = std::max<std::size_t>(large_bytes / 16, plan->profile.max_bytes);
  double small_seconds = HUGE_VAL;
  double large_seconds = HUGE_VAL;
  double cpu_seconds = HUGE_VAL;
  for (int round = 0; round < kCrossoverRounds; ++round) {
    KERF_ASSIGN_OR_RETURN(const double small, CutAlone(slot, plan, small_bytes, timeout));
    KERF_ASSIGN_OR_RETURN(const double large, CutAlone(slot, plan, large_bytes, timeout));
    small_seconds = std::min(small_seconds, small);
    large_seconds = std::min(large_seconds, large);
    const auto begin = Clock::now();
    CutPieceOnCpu(*plan->chunker, plan->digest_algorithm, slot.bytes().first(large_bytes), true);
    cpu_seconds = std::min(cpu_seconds, SecondsSince(begin));
    // No other round would change that.
    if (large_seconds > kHopeless * cpu_seconds) return Crossovers::kNever;
  }
  const double each_byte =
      std::max(0.0, large_seconds - small_seconds) / static_cast<double>(large_bytes - small_bytes);
  const double gain_a_byte = cpu_seconds / static_cast<double>(large_bytes) - each_byte;
  const double fixed_seconds =
      std::max(0.0, small_seconds - each_byte * static_cast<double>(small_bytes));
  const double crossover_bytes = gain_a_byte > 0 ? fixed_seconds / gain_a_byte : HUGE_VAL;
  if (crossover_bytes < static_cast<double>(slot.limits().batch_bytes)) {
    return static_cast<std::size_t>(crossover_bytes);
  }
  return Crossovers::kNever;
}

}  // namespace

absl::StatusOr<LeftOutPlans> TestDevice(BatchSlot& slot, std::chrono::milliseconds timeout) {
  LeftOutPlans left_out;
  bool is_any_run = false;
  for (const std::string_view name : kProfiles) {
    for (const DigestAlgorithm algorithm : kDigests) {
      const auto plan = MakeBatchPlan(*ParseProfile(name), algorithm);
      if (plan == nullptr) continue;
      const absl::Status tested = TestPlan(slot, plan, timeout);
      if (absl::IsFailedPrecondition(tested)) {
        left_out.Add(*plan, MessageOf(tested));
        continue;
      }
      KERF_RETURN_IF_ERROR(tested);
      is_any_run = true;
    }
  }
  if (is_any_run) return left_out;
  return absl::UnavailableError(ToAbsl(Cat("it can run nothing: ", left_out.Text())));
}

absl::StatusOr<Crossovers> MeasureCrossovers(BatchSlot& slot, const LeftOutPlans& left_out,
                                             std::chrono::milliseconds timeout) {
  Crossovers crossovers;
  bool is_warm = false;
  for (const DigestAlgorithm algorithm : kDigests) {
    for (const std::uint32_t max_bytes : kMeasuredMaxBytes) {
      const auto plan = PlanToMeasure(algorithm, max_bytes, left_out);
      if (plan == nullptr || 2 * std::size_t{plan->profile.max_bytes} > TestBytes(slot)) continue;
      if (!std::exchange(is_warm, true)) KERF_RETURN_IF_ERROR(WarmUp(slot, plan, timeout));
      KERF_ASSIGN_OR_RETURN(const std::size_t from_bytes, MeasureCrossover(slot, plan, timeout));
      crossovers.Add(algorithm, plan->profile.max_bytes, from_bytes);
    }
  }
  return crossovers;
}

}  // namespace kerf::cuda
