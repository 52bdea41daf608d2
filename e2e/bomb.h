// A message that is small until somebody unpacks it.
#pragma once

#include <grpc/compression.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>

namespace kerf::e2e {

// Zeros, packed by gzip's or zlib's rules into `packed_bytes`, and marked as that: 158 times as
// many. Who sends it names `algorithm` in the call's metadata (set_compression_algorithm).
grpc::ByteBuffer MakeBomb(grpc_compression_algorithm algorithm, std::size_t packed_bytes);

}  // namespace kerf::e2e
