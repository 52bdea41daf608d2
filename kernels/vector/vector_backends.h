// The rules in vector registers, one source compiled for every target that Google Highway has for
// this processor's family. How each works is in kernels/vector/README.md.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "kernels/twostage/mark.h"

namespace kerf {

// One for each target, the narrowest first: sse4, avx2, avx512, avx512vbmi on x86-64; neon on
// aarch64; none elsewhere.
std::vector<Backend> VectorBackends();

// The marker of two-stage chunking (kernels/twostage) of the backend of that name, which runs here;
// none if it has none for the profile.
std::unique_ptr<Marker> MakeVectorMarker(std::string_view backend, const Profile& profile);

}  // namespace kerf
