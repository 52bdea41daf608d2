// Gives a damaged pack its bytes again, with its parity.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/pack_format.h"

namespace kerf::agent {

// Makes the pack at `path`, of the store in `store_directory`, again under its own id, so that
// nobody need be told; proves it first, by the digest of the whole and by that of each chunk.
// Returns where the damaged file is now: in quarantine/, or nowhere (empty) where the file system
// has no hard links, and the name would have to be free for a moment. NotFound if it has no parity;
// DataLoss if more is lost than that gives back; Unavailable if parity cannot be used on this
// machine. The pack stays as it is then.
absl::StatusOr<std::string> MendPack(const std::string& store_directory, const std::string& path,
                                     const PackId& id);

}  // namespace kerf::agent
