// Versions of the store's file formats.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "base/strings.h"
#include "base/version.h"

namespace kerf::agent {

// FailedPrecondition for a version that a later kerf has made; DataLoss for one that never was.
inline absl::Status CheckFormatVersion(std::uint32_t version, std::uint32_t known_version) {
  if (version == known_version) return absl::OkStatus();
  if (version < known_version) {
    return absl::DataLossError(Cat("it has format version ", version, ": it is damaged"));
  }
  return absl::FailedPreconditionError(
      Cat("it has format version ", version, ", and this kerf (", kVersion, ") knows none above ",
          known_version, ": a newer kerf wrote it; use that one, or a later one"));
}

}  // namespace kerf::agent
