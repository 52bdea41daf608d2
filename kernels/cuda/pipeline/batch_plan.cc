#include "kernels/cuda/pipeline/batch_plan.h"

#include <array>
#include <cstring>
#include <optional>
#include <variant>

#include "base/check.h"
#include "kernels/cuda/kernel/cut_rule_of.h"
#include "kernels/cuda/kernel/mark_rules.h"
#include "kernels/cuda/kernel/wide_gear.h"
#include "kernels/reference/gear.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {
namespace {

template <class Word>
std::vector<std::uint8_t> BytesOf(const std::array<Word, 256>& table) {
  static_assert(sizeof table == kGearTableBytes || sizeof table == kMaxGearTableBytes);
  std::vector<std::uint8_t> bytes(sizeof table);
  std::memcpy(bytes.data(), table.data(), sizeof table);
  return bytes;
}

template <class Rule>
void SetGearRules(const Rule& rule, BatchPlan& plan) {
  plan.gear_table = BytesOf(rule.table);
  plan.cut_rule = CutRuleOf(rule, nullptr);
  plan.marks = GearHashArgs(rule);
}

void SetRules(const Profile&, const GearRule& rule, BatchPlan& plan) { SetGearRules(rule, plan); }

void SetRules(const Profile& profile, const LocalRule& rule, BatchPlan& plan) {
  plan.cut_rule = CutRuleOf(rule);
  switch (profile.algorithm) {
    case Algorithm::kCrc:
      plan.marks = CrcHashArgs(profile);
      return;
    case Algorithm::kRabin:
      plan.marks = RabinHashArgs(profile);
      return;
    default:
      KERF_CHECK(profile.algorithm == Algorithm::kMaxpLocal);
      plan.marks = PeakRule{profile.window_bytes};
  }
}

// False: no kernel knows the algorithm.
bool SetRules(const Profile& profile, BatchPlan& plan) {
  if (const std::optional<TwoStageRule> rule = TwoStageRuleOf(profile); rule.has_value()) {
    std::visit([&](const auto& its) { SetRules(profile, its, plan); }, *rule);
    return true;
  }
  if (const std::optional<WideGearRule> rule = WideGearRuleOf(profile); rule.has_value()) {
    SetGearRules(*rule, plan);
    return true;
  }
  if (profile.algorithm != Algorithm::kMinCdc && profile.algorithm != Algorithm::kMaxCdc) {
    return false;
  }
  const ExtremeSetting setting = ExtremeSettingOf(profile);
  plan.marks = ExtremeMarkRule{setting.reach};
  if (profile.algorithm == Algorithm::kMinCdc) {
    plan.cut_rule = setting.RuleOf(MakeMinCdcHashes());
  } else {
    plan.gear_table = BytesOf(kGearTable);
    plan.cut_rule = setting.RuleOf(MakeMaxCdcHashes(nullptr));
  }
  return true;
}

}  // namespace

std::shared_ptr<const BatchPlan> MakeBatchPlan(const Profile& profile,
                                               DigestAlgorithm digest_algorithm) {
  if (profile.min_bytes < kMinDeviceChunkBytes) return nullptr;
  auto plan = std::make_shared<BatchPlan>();
  if (!SetRules(profile, *plan)) return nullptr;
  plan->profile = profile;
  plan->digest_algorithm = digest_algorithm;
  const bool has_kernel =
      digest_algorithm == DigestAlgorithm::kBlake3 || digest_algorithm == DigestAlgorithm::kSha256;
  plan->selection = has_kernel ? Selection::kDevice : Selection::kHost;
  // To look for the extremes of windows among candidates takes a core longer than to cut (of
  // mincdc-8k 0.66 of its speed, of maxcdc-8k 0.52; kernels/cuda/README.md, "What is cut where").
  const bool has_extremes = std::holds_alternative<ExtremeMarkRule>(plan->marks);
  if (has_extremes && plan->selection == Selection::kHost) return nullptr;
  if (has_extremes && profile.max_bytes - profile.min_bytes > kMaxDeviceWindowBytes) return nullptr;
  plan->candidate_bytes_log2 = *CandidateBytesLog2(profile);
  if (plan->candidate_bytes_log2 < kMinCandidateBytesLog2) return nullptr;
  plan->chunker = MakeChunker(profile);
  return plan;
}

}  // namespace kerf::cuda
