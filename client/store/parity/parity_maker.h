// Makes the parity of a pack.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/store/format/pack_format.h"
#include "client/store/parity/pack_sums.h"

namespace kerf::agent {

// Reads the pack of the store at `pack_path`, which is durable, and puts its parity in its place,
// durably; one that is there is replaced. `sums` are those of a sound pack, all of it: DataLoss,
// and nothing is changed, if other bytes are read, for what was damaged or read wrong would be kept
// for good. Takes about 8 MiB of memory. Unavailable if ISA-L is not on this machine; the errors of
// reading and writing name the file. Cancelled, and nothing is changed, soon after `is_cancelled`
// says true.
absl::Status MakeParity(const std::string& pack_path, const PackId& id, const PackSums& sums,
                        unsigned percent, const std::function<bool()>& is_cancelled = nullptr);

}  // namespace kerf::agent
