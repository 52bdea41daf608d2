// The golden vectors of cuts and fingerprints: proto/kerf/v1/vectors/chunking.json. A change of
// what is written there is a change of the file format of every store.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace kerf {

// The file's text, made with the references of kernels/reference and, for digests that have none,
// with their library.
std::string MakeVectors();

// Holds the kernels that kerf runs (MakeChunker, StreamCutter, FingerprintMany) against vectors in
// that form. DataLoss names each case that differs; InvalidArgument if the text is none of ours.
absl::Status CheckKernelsAgainst(const std::string& vectors);

}  // namespace kerf
