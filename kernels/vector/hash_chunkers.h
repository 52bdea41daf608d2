// Rules that compare hashes, for each vector target.
#pragma once

#include "kernels/twostage/mark.h"
#include "kernels/vector/byte_chunkers.h"

namespace kerf {

// As ByteChunkerMaker: gear and maxcdc for every target, fastcdc where its table fits registers.
MakeVectorChunker HashChunkerMaker(long long target);

// Markers of two-stage chunking for gear and fastcdc, in the same way.
using VectorMarkerMaker = std::unique_ptr<Marker> (*)(const Profile& profile);
VectorMarkerMaker HashMarkerMaker(long long target);

}  // namespace kerf
