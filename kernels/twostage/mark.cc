#include "kernels/twostage/mark.h"

#include <algorithm>
#include <bit>

#include "kernels/reference/fastcdc.h"
#include "kernels/reference/gear.h"
#include "kernels/twostage/local_marks.h"

namespace kerf {
namespace {

class ScalarMarker final : public Marker {
 public:
  explicit ScalarMarker(const GearRule& rule) : rule_(rule) {}

  void Mark(std::span<const std::uint8_t> bytes, std::size_t from, std::size_t to,
            const MarkWords& marks) const override {
    std::uint32_t hash = 0;
    const auto roll = [&](std::size_t position) {
      hash = (hash << 1) + rule_.table[bytes[position]];
    };
    for (std::size_t p = from < rule_.window_bytes ? 0 : from - rule_.window_bytes; p < from; ++p) {
      roll(p);
    }
    for (std::size_t start = from; start < to; start += kWordPositions) {
      const std::size_t count = std::min(kWordPositions, to - start);
      std::uint64_t loose = 0;
      std::uint64_t strict = 0;
      for (std::size_t bit = 0; bit < count; ++bit) {
        roll(start + bit);
        loose |= std::uint64_t{(hash & rule_.loose_mask) == 0} << bit;
        strict |= std::uint64_t{(hash & rule_.strict_mask) == 0} << bit;
      }
      const std::size_t word = start / kWordPositions % marks.loose.size();
      marks.loose[word] = loose;
      marks.strict[word] = strict;
    }
  }

 private:
  const GearRule rule_;
};

}  // namespace

std::optional<GearRule> GearRuleOf(const Profile& profile) {
  GearRule rule;
  if (profile.algorithm == Algorithm::kGear) {
    rule.table = kGearTable;
    rule.strict_mask = rule.loose_mask = 0x10000 - GearBound(profile.avg_bytes);
  } else if (profile.algorithm == Algorithm::kFastCdc) {
    std::copy(FastCdcGear().begin(), FastCdcGear().end(), rule.table.begin());
    const auto bits = static_cast<std::uint32_t>(std::countr_zero(profile.avg_bytes));
    rule.strict_mask = FastCdcMask(bits + profile.level);
    rule.loose_mask = FastCdcMask(bits - profile.level);
  } else {
    return std::nullopt;
  }
  rule.window_bytes = static_cast<std::size_t>(std::bit_width(rule.strict_mask));
  rule.min_bytes = profile.min_bytes;
  rule.avg_bytes = profile.avg_bytes;
  rule.max_bytes = profile.max_bytes;
  return rule;
}

std::optional<TwoStageRule> TwoStageRuleOf(const Profile& profile) {
  if (std::optional<GearRule> rule = GearRuleOf(profile)) return *std::move(rule);
  switch (profile.algorithm) {
    case Algorithm::kCrc:
      return LocalRule{profile.min_bytes, 0, 0, profile.max_bytes};
    case Algorithm::kRabin:
      return LocalRule{profile.min_bytes - std::size_t{1}, 0, 1, profile.max_bytes};
    case Algorithm::kMaxpLocal:
      return LocalRule{profile.window_bytes, profile.window_bytes, 0, profile.max_bytes};
    default:
      return std::nullopt;
  }
}

std::unique_ptr<Marker> MakeScalarMarker(const GearRule& rule) {
  return std::make_unique<ScalarMarker>(rule);
}

std::unique_ptr<Marker> MakeScalarMarker(const Profile& profile) {
  if (const std::optional<GearRule> rule = GearRuleOf(profile)) return MakeScalarMarker(*rule);
  return MakeLocalMarker(profile);
}

}  // namespace kerf
