// How chunks are cut and named, as flags: the same for every verb that takes them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"

namespace kerf::agent {

struct CutFlags {
  std::string profile = std::string(kDefaultProfileName);
  std::string digest = "blake3";
};

struct CutRule {
  Profile profile;
  DigestAlgorithm digest = DigestAlgorithm::kBlake3;
};

// Adds --profile and --digest with these descriptions; `flags` lives as long as `verb`.
void AddCutOptions(CLI::App& verb, CutFlags& flags, const std::string& profile,
                   const std::string& digest);

// InvalidArgument says which flag is wrong and what it may be.
absl::StatusOr<CutRule> ParseCutFlags(const CutFlags& flags);

}  // namespace kerf::agent
