#include "client/cli/cut_flags.h"

#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"

namespace kerf::agent {

void AddCutOptions(const Verb& verb, CutFlags& flags, const std::string& profile,
                   const std::string& digest) {
  verb.AddOption("--profile", flags.profile, profile).ShowDefault();
  verb.AddOption("--digest", flags.digest, digest).ShowDefault();
}

absl::StatusOr<DigestAlgorithm> ParseDigestFlag(const std::string& text) {
  const auto digest = ParseDigestAlgorithm(text);
  if (digest.has_value()) return *digest;
  return absl::InvalidArgumentError(
      Cat("'", text, "' is no digest: write blake3, sha256 or xxh3-128"));
}

absl::StatusOr<std::uint64_t> ParseSizeFlag(std::string_view flag, const std::string& text,
                                            std::uint64_t min_bytes, std::uint64_t max_bytes) {
  const auto bytes = ParseByteSize(text);
  if (!bytes.ok()) return Annotate(bytes.status(), flag);
  if (*bytes >= min_bytes && *bytes <= max_bytes) return *bytes;
  return absl::InvalidArgumentError(Cat(flag, " is ", text, ": it must be between ",
                                        FormatByteSize(min_bytes), " and ",
                                        FormatByteSize(max_bytes)));
}

absl::StatusOr<CutRule> ParseCutFlags(const CutFlags& flags) {
  CutRule rule;
  KERF_ASSIGN_OR_RETURN(rule.profile, ParseProfile(flags.profile));
  KERF_ASSIGN_OR_RETURN(rule.digest, ParseDigestFlag(flags.digest));
  return rule;
}

absl::StatusOr<UploadRule> ParseUploadFlags(const CutFlags& flags) {
  UploadRule rule;
  KERF_ASSIGN_OR_RETURN(rule.profile, ParseUploadProfile(flags.profile));
  KERF_ASSIGN_OR_RETURN(rule.digest, ParseDigestFlag(flags.digest));
  // As every server would say (CRITERION_NEEDS_HINTS), before there is a store.
  if (rule.profile.criterion.has_value() && rule.digest == DigestAlgorithm::kXxh3_128) {
    return absl::InvalidArgumentError(
        Cat("profile ", flags.profile,
            " needs digests that nobody can forge, and xxh3-128 makes none: write --digest blake3 "
            "or sha256, or leave out the '+' and what stands behind it"));
  }
  return rule;
}

}  // namespace kerf::agent
