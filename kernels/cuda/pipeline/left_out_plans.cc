#include "kernels/cuda/pipeline/left_out_plans.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "base/strings.h"

namespace kerf::cuda {
namespace {

constexpr DigestAlgorithm kDigests[] = {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256,
                                        DigestAlgorithm::kXxh3_128};

// With how many digests a device is given it at all.
std::ptrdiff_t DigestCountOf(const Profile& profile) {
  return std::count_if(std::begin(kDigests), std::end(kDigests), [&](DigestAlgorithm digest) {
    return MakeBatchPlan(profile, digest) != nullptr;
  });
}

std::string NameOf(const Profile& profile) {
  const std::string text = FormatProfile(profile);
  return text.substr(0, text.find(':'));
}

}  // namespace

void LeftOutPlans::Add(const BatchPlan& plan, std::string_view why) {
  kinds_.push_back({plan.profile.algorithm, NameOf(plan.profile), plan.digest_algorithm,
                    DigestCountOf(plan.profile), std::string(why)});
}

bool LeftOutPlans::Has(const BatchPlan& plan) const {
  return std::any_of(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
    return kind.algorithm == plan.profile.algorithm &&
           kind.digest_algorithm == plan.digest_algorithm;
  });
}

std::string LeftOutPlans::Text() const {
  std::vector<std::string_view> reasons;
  std::string text;
  for (const Kind& each : kinds_) {
    if (std::find(reasons.begin(), reasons.end(), each.why) != reasons.end()) continue;
    reasons.push_back(each.why);
    std::vector<Algorithm> whole;
    std::string names;
    for (const Kind& kind : kinds_) {
      const auto is_as_kind = [&](const Kind& other) {
        return other.why == each.why && other.algorithm == kind.algorithm;
      };
      if (kind.why != each.why) continue;
      if (std::find(whole.begin(), whole.end(), kind.algorithm) != whole.end()) continue;
      std::string name = kind.name;
      if (std::count_if(kinds_.begin(), kinds_.end(), is_as_kind) == kind.digest_count) {
        whole.push_back(kind.algorithm);
      } else {
        name = Cat(name, " with ", DigestAlgorithmName(kind.digest_algorithm));
      }
      names = names.empty() ? name : Cat(names, ", ", name);
    }
    text = Cat(text, text.empty() ? "" : "; ", names, ": ", each.why);
  }
  return text;
}

}  // namespace kerf::cuda
