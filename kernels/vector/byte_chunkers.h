// Rules that compare bytes with bytes, for each vector target.
#pragma once

#include <memory>

#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/twostage/mark.h"

namespace kerf {

// None for an algorithm of another kind.
using MakeVectorChunker = std::unique_ptr<Chunker> (*)(const Profile& profile);

// The maker that was compiled for a Highway target (one bit, HWY_AVX2 for example); none if there
// is none.
MakeVectorChunker ByteChunkerMaker(long long target);

// The same of markers of two-stage chunking, for maxp-local.
using VectorMarkerMaker = std::unique_ptr<Marker> (*)(const Profile& profile);
VectorMarkerMaker ByteMarkerMaker(long long target);

}  // namespace kerf
