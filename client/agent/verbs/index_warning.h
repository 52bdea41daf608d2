// An index that does not take what a verb tells it of the store.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/cli/reporter.h"

namespace kerf::agent {

// A collection that ran beside the verb, and so refused what it had not heard of, is as it should
// be. All else is for somebody to look at: as long as it lasts, each backup sends everything again.
bool IsIndexBehind(const absl::Status& index_warning);

void WarnOfIndex(Reporter& reporter, const std::string& server, const absl::Status& index_warning);

}  // namespace kerf::agent
