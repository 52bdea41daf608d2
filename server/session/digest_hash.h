// For tables whose keys are digests.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/seeded_hash.h"
#include "kernels/fingerprint/digest.h"

namespace kerf {

// A client chooses XXH3-128 digests freely and must not be able to make them collide in a table.
struct SeededDigestHash {
  std::size_t operator()(const Digest& digest) const {
    return SeededHash(
        std::string_view(reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()));
  }
};

}  // namespace kerf
