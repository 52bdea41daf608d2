// An index that does not take what a verb tells it of the store.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/cli/reporter.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// A collection that ran beside the verb has raised the store's epoch, and the index refuses what
// was begun before: that is as it should be. All else is for somebody to look at: as long as it
// lasts, each backup sends everything again. `epoch_before`: of the store, when it was that of the
// session.
bool IsIndexBehind(const absl::Status& index_warning, const Store& store,
                   std::uint64_t epoch_before);

// For who tells the index of all that the store holds, and has gone on where it had no room.
void WarnOfFullIndex(Reporter& reporter, const std::string& path, const absl::Status& status);

void WarnOfIndex(Reporter& reporter, const std::string& server, const absl::Status& index_warning);

}  // namespace kerf::agent
