#include "kernels/fingerprint/blake3_lanes-inl.h"

#if defined(__x86_64__)

namespace kerf::blake3 {

void HashNodesAvx512(const NodeJob* jobs, std::size_t count) {
  if (count == 1) return HashNodes<1>(jobs, count);
  if (count <= 8) return HashNodes<8>(jobs, count);
  if (count <= 16) return HashNodes<16>(jobs, count);
  HashNodes<16, 2>(jobs, count);
}

}  // namespace kerf::blake3

#endif  // defined(__x86_64__)
