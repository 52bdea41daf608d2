#include "kernels/rapid/upload_profile.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf {
namespace {

// By AcceptanceCriterion.
constexpr std::array<std::string_view, 3> kCriterionNames = {"ff", "ff-rwt", "ff-mt"};
static_assert(static_cast<int>(AcceptanceCriterion::kFf) == 0);
static_assert(static_cast<int>(AcceptanceCriterion::kFfRwt) == 1);
static_assert(static_cast<int>(AcceptanceCriterion::kFfMt) == 2);

std::string_view WhyCriterionMakesNoSense(const Profile& rule, AcceptanceCriterion criterion) {
  if (rule.algorithm == Algorithm::kFixed) {
    return "the cuts of fixed are known without hints; leave the criterion out";
  }
  const bool tests_whole_chunk = rule.algorithm == Algorithm::kRam ||
                                 rule.algorithm == Algorithm::kMinCdc ||
                                 rule.algorithm == Algorithm::kMaxCdc;
  if (criterion == AcceptanceCriterion::kFfRwt && tests_whole_chunk) {
    return "the window test of ram, mincdc and maxcdc costs as much as the scan; write ff or "
           "ff-mt, or leave the criterion out";
  }
  return "";
}

absl::Status Refuse(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError(Cat("profile '", absl::CHexEscape(ToAbsl(text)), "': ", why));
}

}  // namespace

std::span<const std::string_view> CriterionNames() { return kCriterionNames; }

absl::StatusOr<UploadProfile> ParseUploadProfile(std::string_view text) {
  const std::size_t plus = text.find('+');
  UploadProfile profile;
  KERF_ASSIGN_OR_RETURN(profile.rule, ParseProfile(text.substr(0, plus)));
  if (plus == std::string_view::npos) return profile;
  // What stands in front of the plus is short, or it would not be valid.
  constexpr std::size_t kMaxShownBytes = 160;
  const std::string_view shown = text.substr(0, kMaxShownBytes);
  const auto* const name = std::ranges::find(kCriterionNames, text.substr(plus + 1));
  if (name == kCriterionNames.end()) {
    return Refuse(shown, "what stands behind '+' is none of ff, ff-rwt, ff-mt");
  }
  profile.criterion = static_cast<AcceptanceCriterion>(name - kCriterionNames.begin());
  const std::string_view why = WhyCriterionMakesNoSense(profile.rule, *profile.criterion);
  if (!why.empty()) return Refuse(shown, why);
  return profile;
}

std::string FormatUploadProfile(const UploadProfile& profile) {
  std::string text = FormatProfile(profile.rule);
  if (!profile.criterion) return text;
  const auto index = static_cast<std::size_t>(*profile.criterion);
  KERF_CHECK(index < kCriterionNames.size());
  return Cat(text, "+", kCriterionNames[index]);
}

}  // namespace kerf
