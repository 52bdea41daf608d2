#include "client/agent/verbs/cut_flags.h"

#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent {

void AddCutOptions(CLI::App& verb, CutFlags& flags, const std::string& profile,
                   const std::string& digest) {
  verb.add_option("--profile", flags.profile, profile)->capture_default_str();
  verb.add_option("--digest", flags.digest, digest)->capture_default_str();
}

absl::StatusOr<CutRule> ParseCutFlags(const CutFlags& flags) {
  CutRule rule;
  KERF_ASSIGN_OR_RETURN(rule.profile, ParseProfile(flags.profile));
  const auto digest = ParseDigestAlgorithm(flags.digest);
  if (!digest.has_value()) {
    return absl::InvalidArgumentError(
        Cat("'", flags.digest, "' is no digest: write blake3, sha256 or xxh3-128"));
  }
  rule.digest = *digest;
  return rule;
}

}  // namespace kerf::agent
