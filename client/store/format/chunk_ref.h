// A chunk as a recipe names it.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

struct ChunkRef {
  Digest digest;
  std::uint32_t length_bytes = 0;

  friend bool operator==(const ChunkRef&, const ChunkRef&) = default;
};

// A chunk that is durable in the store.
struct StoredChunk {
  Digest digest;
  std::uint32_t length_bytes = 0;
  // Pack id and position, as pack_format.h encodes them; opaque to the server.
  std::string locator;
};

}  // namespace kerf::agent
