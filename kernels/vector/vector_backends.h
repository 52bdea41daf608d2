// The rules in vector registers, one source compiled for every target that Google Highway has for
// this processor's family. How each works is in kernels/vector/README.md.
#pragma once

#include <vector>

#include "kernels/backend.h"

namespace kerf {

// One for each target, the narrowest first: sse4, avx2, avx512, avx512vbmi on x86-64; neon on
// aarch64; none elsewhere.
std::vector<Backend> VectorBackends();

}  // namespace kerf
