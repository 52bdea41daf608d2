// How far an embedded index was durable when somebody last looked, written beside its database: one
// that has lost its log does not know itself what was in there.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kerf {

// Of the database in `folder`, 0 if there is none: it was made by an older kerf, or never marked.
// DataLoss if it cannot be understood.
absl::StatusOr<std::uint64_t> ReadSequenceMark(const std::string& folder);

// All writes of the database up to `sequence` are durable. Whole or not at all.
absl::Status WriteSequenceMark(const std::string& folder, std::uint64_t sequence);

}  // namespace kerf
