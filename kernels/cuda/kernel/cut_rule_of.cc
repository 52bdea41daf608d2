#include "kernels/cuda/kernel/cut_rule_of.h"

#include <algorithm>
#include <bit>

#include "kernels/reference/rules.h"

namespace kerf::cuda {
namespace {

// The number of positions of random data of which one is a candidate, as a power of two, or twice
// that.
std::optional<std::uint32_t> RareBits(const Profile& profile) {
  if (const std::optional<GearRule> rule = GearRuleOf(profile)) {
    return static_cast<std::uint32_t>(std::popcount(rule->loose_mask));
  }
  if (const std::optional<WideGearRule> rule = WideGearRuleOf(profile)) {
    return static_cast<std::uint32_t>(std::popcount(rule->mark_mask()));
  }
  switch (profile.algorithm) {
    case Algorithm::kCrc:
      return profile.mask_bits;
    case Algorithm::kRabin:
      return static_cast<std::uint32_t>(std::countr_zero(profile.avg_bytes));
    case Algorithm::kMinCdc:
    case Algorithm::kMaxCdc: {
      // 1.5 in a reach, which lie less even than random marks: half of the margin is enough.
      const ExtremeReach reach = ExtremeSettingOf(profile).reach;
      const std::uint32_t positions = reach.side_groups * kGroupPositions + kGroupPositions / 2;
      return static_cast<std::uint32_t>(std::bit_width(2 * positions / 3));
    }
    case Algorithm::kMaxpLocal:
      // Two of them are further than a window apart, in any data.
      return static_cast<std::uint32_t>(std::bit_width(profile.window_bytes)) - 1;
    default:
      return std::nullopt;
  }
}

template <class Word, class Rule>
BasicCutRule<Word> CutRuleOfGear(const Rule& rule, std::uint32_t step_bytes, const Word* table) {
  return {.table = table,
          .strict_mask = rule.strict_mask,
          .loose_mask = rule.loose_mask,
          .lead_bytes = static_cast<std::uint32_t>(rule.min_bytes),
          .first_bytes = static_cast<std::uint32_t>(rule.min_bytes + rule.window_bytes - 1),
          .avg_bytes = static_cast<std::uint32_t>(rule.avg_bytes),
          .behind_bytes = 0,
          .step_bytes = step_bytes,
          .after_bytes = 0,
          .max_bytes = static_cast<std::uint32_t>(rule.max_bytes)};
}

}  // namespace

CutRule CutRuleOf(const GearRule& rule, const std::uint32_t* table) {
  return CutRuleOfGear(rule, 1, table);
}

WideCutRule CutRuleOf(const WideGearRule& rule, const std::uint64_t* table) {
  return CutRuleOfGear(rule, static_cast<std::uint32_t>(rule.step_bytes), table);
}

CutRule CutRuleOf(const LocalRule& rule) {
  return {.table = nullptr,
          .strict_mask = 0,
          .loose_mask = 0,
          .lead_bytes = static_cast<std::uint32_t>(rule.first_bytes),
          .first_bytes = static_cast<std::uint32_t>(rule.first_bytes),
          .avg_bytes = 0,
          .behind_bytes = static_cast<std::uint32_t>(rule.behind_bytes),
          .step_bytes = 1,
          .after_bytes = static_cast<std::uint32_t>(rule.after_bytes),
          .max_bytes = static_cast<std::uint32_t>(rule.max_bytes)};
}

ExtremeSetting ExtremeSettingOf(const Profile& profile) {
  return {ExtremeReachOf(profile.max_bytes - profile.min_bytes), profile.min_bytes,
          profile.max_bytes};
}

MinCdcHashes MakeMinCdcHashes() {
  return {.multiplier = kMinCdcMultiplier, .addend = kMinCdcAddend};
}

std::optional<std::uint32_t> CandidateBytesLog2(const Profile& profile) {
  const std::optional<std::uint32_t> bits = RareBits(profile);
  if (!bits.has_value()) return std::nullopt;
  constexpr std::uint32_t kMostBytesLog2 = 8;
  return std::clamp(*bits, 3u, kMostBytesLog2 + 2) - 2;
}

}  // namespace kerf::cuda
