// What can be set of the audit log.
#pragma once

#include <cstdint>
#include <string>

#include "base/cli/option_set.h"
#include "base/units.h"

namespace kerf {

struct AuditSettings {
  // Empty: none.
  std::string path;
  std::uint64_t max_file_bytes = 100 * kMiB;
  // What cannot be recorded is not done.
  bool refuses = true;
};

void AddAuditSettings(OptionSet& options, AuditSettings& settings);

// What is wrong with settings that are good one by one; empty: nothing.
std::string FindAuditContradiction(const AuditSettings& settings);

}  // namespace kerf
