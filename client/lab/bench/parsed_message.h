// What tests find in the messages that the benchmark sends.
#pragma once

#include <gtest/gtest.h>

#include "grpcpp/impl/grpc_library.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "kerf/v1/chunking.pb.h"

namespace kerf::bench {

// Buffers need gRPC, which else starts with the first channel.
inline void StartGrpc() {
  static grpc::internal::GrpcLibraryInitializer initializer;
  initializer.summon();
}

inline v1::UploadRequest Parsed(grpc::ByteBuffer message) {
  grpc::ProtoBufferReader reader(&message);
  v1::UploadRequest request;
  EXPECT_TRUE(request.ParseFromZeroCopyStream(&reader));
  return request;
}

}  // namespace kerf::bench
