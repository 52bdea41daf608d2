#include "kernels/cuda/pipeline/batch_plan.h"

#include <algorithm>
#include <variant>

#include "base/check.h"
#include "kernels/cuda/kernel/cut_rule_of.h"
#include "kernels/cuda/kernel/mark_rules.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {
namespace {

MarkRule MarkRuleOf(const Profile& profile, const TwoStageRule& rule) {
  if (const auto* gear = std::get_if<GearRule>(&rule)) {
    if (gear->strict_mask == gear->loose_mask) return GearHashArgs<false>(*gear);
    return GearHashArgs<true>(*gear);
  }
  if (profile.algorithm == Algorithm::kCrc) return CrcHashArgs(profile);
  if (profile.algorithm == Algorithm::kRabin) return RabinHashArgs(profile);
  KERF_CHECK(profile.algorithm == Algorithm::kMaxpLocal);
  return PeakRule{profile.window_bytes};
}

}  // namespace

std::shared_ptr<const BatchPlan> MakeBatchPlan(const Profile& profile,
                                               DigestAlgorithm digest_algorithm) {
  const std::optional<TwoStageRule> rule = TwoStageRuleOf(profile);
  const bool has_kernel =
      digest_algorithm == DigestAlgorithm::kBlake3 || digest_algorithm == DigestAlgorithm::kSha256;
  if (!rule.has_value() || !has_kernel || profile.min_bytes < kMinDeviceChunkBytes) return nullptr;
  auto plan = std::make_shared<BatchPlan>();
  plan->profile = profile;
  plan->digest_algorithm = digest_algorithm;
  plan->marks = MarkRuleOf(profile, *rule);
  if (const auto* gear = std::get_if<GearRule>(&*rule)) {
    plan->gear_table = gear->table;
    plan->cut_rule = CutRuleOf(*gear, nullptr);
  } else {
    plan->cut_rule = CutRuleOf(std::get<LocalRule>(*rule));
  }
  plan->candidate_bytes_log2 = *CandidateBytesLog2(profile);
  plan->chunker = MakeChunker(profile);
  return plan;
}

}  // namespace kerf::cuda
