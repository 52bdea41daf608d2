// For tables whose keys are digests.
#pragma once

#include <cstddef>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "kernels/fingerprint/digest.h"

namespace kerf {

// Seeded for each process: a client chooses XXH3-128 digests freely and must not be able to make
// them collide in a table.
struct SeededDigestHash {
  std::size_t operator()(const Digest& digest) const {
    return absl::Hash<absl::string_view>{}(
        absl::string_view(reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()));
  }
};

}  // namespace kerf
