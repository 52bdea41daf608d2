#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "client/agent/verbs/verbs.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/registry.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf profiles\n"
    "  kerf profiles ram-8k gear:min=2048,avg=4096,max=32768 --json";
constexpr char kFooter[] =
    "Every profile is cut on the CPU. `gpu`: also on a GPU, where kerfd has one (kerfd --gpu); "
    "the\n"
    "cuts are the same.";

struct Listed {
  std::string name;
  Profile profile;
};

absl::StatusOr<std::vector<Listed>> FindProfiles(const std::vector<std::string>& names) {
  std::vector<Listed> listed;
  for (const std::string& name : names) {
    const absl::StatusOr<Profile> profile = ParseProfile(name);
    if (!profile.ok()) return profile.status();
    listed.push_back({name, *profile});
  }
  if (!names.empty()) return listed;
  for (const NamedProfile& named : NamedProfiles()) {
    listed.push_back({std::string(named.name), *ParseProfile(named.parameters)});
  }
  return listed;
}

ExitCode Run(Context& context, const std::vector<std::string>& names) {
  const absl::StatusOr<std::vector<Listed>> profiles = FindProfiles(names);
  if (!profiles.ok()) return FailUsage(context, profiles.status());
  std::size_t width = 0;
  for (const Listed& listed : *profiles) width = std::max(width, listed.name.size());
  for (const auto& [name, profile] : *profiles) {
    const bool is_on_gpu = cuda::MakeBatchPlan(profile, DigestAlgorithm::kBlake3) != nullptr;
    nlohmann::json object = {{"name", name},
                             {"profile", FormatProfile(profile)},
                             {"is_default", name == kDefaultProfileName},
                             {"cut_on", {"cpu"}}};
    if (is_on_gpu) object["cut_on"].push_back("gpu");
    for (const std::string_view backend : BackendsFor(profile)) {
      object["backends"].push_back(std::string(backend));
    }
    context.reporter.Json("profile", std::move(object));
    context.reporter.Result(absl::StrFormat("%-*s  cpu%s  %s", static_cast<int>(width), name,
                                            is_on_gpu ? ",gpu" : "    ", FormatProfile(profile)));
  }
  context.reporter.Json("summary", {{"profiles", profiles->size()}});
  return ExitCode::kOk;
}

}  // namespace

void AddProfilesVerb(Context& context) {
  const Verb verb = AddVerb(context, "profiles", "List profiles, and where each can be cut",
                            Cat(kExamples, "\n\n", kFooter));
  auto names = std::make_shared<std::vector<std::string>>();
  verb.AddOption("profiles", *names,
                 "Named profiles, or algorithm:key=value,...; without any, all named ones")
      .Check(RefuseEmpty)
      .Type("PROFILE");
  verb.OnRun([&context, names] { return Run(context, *names); });
}

}  // namespace kerf::agent
