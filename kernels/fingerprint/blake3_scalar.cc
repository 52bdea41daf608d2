#include "kernels/fingerprint/blake3_lanes-inl.h"

namespace kerf::blake3 {

void HashNodesScalar(const NodeJob* jobs, std::size_t count) { HashNodes<1>(jobs, count); }

}  // namespace kerf::blake3
