// How chunks are cut and named, and sizes, as flags: the same for every verb that takes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/cli/verb.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/rapid/upload_profile.h"

namespace kerf::agent {

struct CutFlags {
  std::string profile = std::string(kDefaultProfileName);
  std::string digest = "blake3";
};

struct CutRule {
  Profile profile;
  DigestAlgorithm digest = DigestAlgorithm::kBlake3;
};

// The same of an upload.
struct UploadRule {
  UploadProfile profile;
  DigestAlgorithm digest = DigestAlgorithm::kBlake3;
};

// Adds --profile and --digest with these descriptions; `flags` lives as long as `verb`.
void AddCutOptions(const Verb& verb, CutFlags& flags, const std::string& profile,
                   const std::string& digest);

// InvalidArgument says what it may be.
absl::StatusOr<DigestAlgorithm> ParseDigestFlag(const std::string& text);

// A size in bytes within these bounds. InvalidArgument names the flag and says what is wrong.
absl::StatusOr<std::uint64_t> ParseSizeFlag(std::string_view flag, const std::string& text,
                                            std::uint64_t min_bytes, std::uint64_t max_bytes);

// InvalidArgument says which flag is wrong and what it may be.
absl::StatusOr<CutRule> ParseCutFlags(const CutFlags& flags);
absl::StatusOr<UploadRule> ParseUploadFlags(const CutFlags& flags);

}  // namespace kerf::agent
