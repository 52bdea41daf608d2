// The fast SHA-256 (FIPS 180-4): several chunks side by side, equal to OpenSSL's.
#pragma once

#include <span>
#include <string_view>

#include "kernels/fingerprint/digest.h"

namespace kerf {

struct Sha256Backend {
  std::string_view name;
  // digests[i] = the hash of chunks[i]; the spans have the same length. Thread-safe.
  void (*hash_many)(std::span<const std::span<const std::uint8_t>> chunks,
                    std::span<Digest> digests);
};

// The backends that this machine can run, the fastest first: "sha-ni" where the processor has SHA
// instructions, "openssl" always.
std::span<const Sha256Backend> Sha256Backends();

}  // namespace kerf
