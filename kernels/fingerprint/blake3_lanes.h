// Many nodes of BLAKE3 trees at once, one a vector lane: the inner engine of the fast BLAKE3. Only
// kernels/fingerprint/blake3.cc calls it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerf::blake3 {

// One node: a leaf of up to kLeafBytes, or a parent, whose 64 bytes are its children's chaining
// values.
struct NodeJob {
  const std::uint8_t* bytes;
  // 0..kLeafBytes.
  std::uint32_t size_bytes;
  // Flags of its first, of its last and of every block.
  std::uint32_t first_flags;
  std::uint32_t last_flags;
  std::uint32_t flags;
  // Of the leaf in its tree; 0 for a parent.
  std::uint64_t counter;
  // Where the chaining value goes: eight words, as they lie in memory. Must not be read by another
  // job of the same call.
  std::uint32_t* chaining_value;
};

// Hashes all jobs; pure and thread-safe.
using HashNodesFunction = void (*)(const NodeJob* jobs, std::size_t count);

// Compiled for the target that is in the name: call it only where the machine has it.
void HashNodesScalar(const NodeJob* jobs, std::size_t count);
void HashNodesVector128(const NodeJob* jobs, std::size_t count);
#if defined(__x86_64__)
void HashNodesAvx2(const NodeJob* jobs, std::size_t count);
void HashNodesAvx512(const NodeJob* jobs, std::size_t count);
#endif

}  // namespace kerf::blake3
