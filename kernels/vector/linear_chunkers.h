// The vectorised kernels of linear rolling hashes (CRC, Rabin, TTTD), one set for each Highway
// target.
#pragma once

#include "kernels/vector/byte_chunkers.h"
#include "kernels/vector/hash_chunkers.h"

namespace kerf {

// Returns chunkers for crc, rabin and tttd and null for other algorithms. Null if this binary has
// no such target.
MakeVectorChunker LinearChunkerMaker(long long target);

// The same of markers, for crc and rabin.
VectorMarkerMaker LinearMarkerMaker(long long target);

}  // namespace kerf
