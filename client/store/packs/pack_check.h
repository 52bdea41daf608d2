// Is a pack what it says?
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/pack_format.h"
#include "client/store/parity/pack_sums.h"

namespace kerf::agent {

// Reads the pack file at `path`, wherever it lies, from header to trailer, and holds every chunk
// against its digest. DataLoss names the first one that is not as it was written.
absl::Status CheckPack(const std::string& path, const PackId& id);

// The same, and what the bytes of all the pack were then: what parity is to be made of. DataLoss if
// it is larger than a pack with parity is.
absl::StatusOr<PackSums> SumSoundPack(const std::string& path, const PackId& id);

}  // namespace kerf::agent
