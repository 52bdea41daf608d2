// Rules that compare hashes, for each vector target.
#pragma once

#include "kernels/vector/byte_chunkers.h"

namespace kerf {

// As ByteChunkerMaker: gear and maxcdc for every target, fastcdc and fastcdc2020 where their tables
// fit registers.
MakeVectorChunker HashChunkerMaker(long long target);

// Markers of two-stage chunking for gear and fastcdc, in the same way.
VectorMarkerMaker HashMarkerMaker(long long target);

}  // namespace kerf
