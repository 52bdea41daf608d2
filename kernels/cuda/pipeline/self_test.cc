#include "kernels/cuda/pipeline/self_test.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
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
// With the one in front the speed of the device is compared with the CPU's, if it can run that.
constexpr std::string_view kProfiles[] = {"fastcdc-8k", "gear-8k",  "fastcdc2020-8k",
                                          "crc-8k",     "rabin-8k", "maxp-local-8k",
                                          "mincdc-8k",  "maxcdc-8k"};
// Of the last one the host selects and fingerprints what the device has marked.
constexpr DigestAlgorithm kDigests[] = {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256,
                                        DigestAlgorithm::kXxh3_128};

// How often the speed is measured: the best run counts.
constexpr int kCrossoverRounds = 5;

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

// There is one: else the device is of no use.
std::shared_ptr<const BatchPlan> FirstThatRuns(const LeftOutPlans& left_out) {
  for (const std::string_view name : kProfiles) {
    for (const DigestAlgorithm algorithm : kDigests) {
      auto plan = MakeBatchPlan(*ParseProfile(name), algorithm);
      if (plan != nullptr && !left_out.Has(*plan)) return plan;
    }
  }
  KERF_CHECK(false);
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

// The device takes a while for anything, and little more for more; the CPU takes its time for each
// byte.
absl::StatusOr<std::size_t> MeasureCrossover(BatchSlot& slot, const LeftOutPlans& left_out,
                                             std::chrono::milliseconds timeout) {
  const auto plan = FirstThatRuns(left_out);
  const std::size_t large_bytes = TestBytes(slot);
  const std::size_t small_bytes = large_bytes / 16;
  double small_seconds = HUGE_VAL;
  double large_seconds = HUGE_VAL;
  double cpu_seconds = HUGE_VAL;
  for (int round = 0; round < kCrossoverRounds; ++round) {
    KERF_ASSIGN_OR_RETURN(const double small, RunAlone(slot, plan, small_bytes, timeout));
    KERF_ASSIGN_OR_RETURN(const double large, RunAlone(slot, plan, large_bytes, timeout));
    small_seconds = std::min(small_seconds, small);
    large_seconds = std::min(large_seconds, large);
    const auto begin = Clock::now();
    CutPieceOnCpu(*plan->chunker, plan->digest_algorithm, slot.bytes().first(large_bytes), true);
    cpu_seconds = std::min(cpu_seconds, SecondsSince(begin));
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
  return std::numeric_limits<std::size_t>::max();
}

}  // namespace kerf::cuda
