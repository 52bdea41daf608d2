// The fast BLAKE3: hashes the leaves and parents of many trees side by side in vector lanes, equal
// to kernels/reference/blake3.h.
#pragma once

#include <span>
#include <string_view>

#include "kernels/fingerprint/blake3_lanes.h"
#include "kernels/fingerprint/digest.h"

namespace kerf {

struct Blake3Backend {
  std::string_view name;
  blake3::HashNodesFunction hash_nodes;
};

// The backends that this machine can run, the fastest first; never empty.
std::span<const Blake3Backend> Blake3Backends();

// digests[i] = the hash of chunks[i]; the spans have the same length. Thread-safe. Memory beyond
// the arguments: 72 bytes for each KiB of a group of chunks, which ends with the first chunk that
// passes 1 MiB.
void Blake3Many(const Blake3Backend& backend, std::span<const std::span<const std::uint8_t>> chunks,
                std::span<Digest> digests);

}  // namespace kerf
