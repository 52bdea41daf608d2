// Is a pack what it says?
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/store/format/pack_format.h"

namespace kerf::agent {

// Reads the pack file at `path`, wherever it lies, from header to trailer, and holds every chunk
// against its digest. DataLoss names the first one that is not as it was written.
absl::Status CheckPack(const std::string& path, const PackId& id);

}  // namespace kerf::agent
