#include "kernels/fingerprint/blake3_lanes-inl.h"

namespace kerf::blake3 {

void HashNodesVector128(const NodeJob* jobs, std::size_t count) {
  if (count == 1) return HashNodes<1>(jobs, count);
  HashNodes<4>(jobs, count);
}

}  // namespace kerf::blake3
