// A message as gRPC has received it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "server/edge/frame_parser.h"
#include "server/session/frame.h"

namespace kerf {

// Its frames; their data lies where it arrived. Read by one thread at a time, and destroyed by any.
class ReceivedMessage final : public FrameSource {
 public:
  // Once. False: gRPC could not give the bytes. Leaves the buffer empty.
  bool Take(grpc::ByteBuffer* buffer) {
    buffer_.Swap(buffer);
    size_bytes_ = buffer_.Length();
    if (!buffer_.Dump(&slices_).ok()) return false;
    std::vector<Bytes> pieces;
    pieces.reserve(slices_.size());
    for (const grpc::Slice& slice : slices_) pieces.emplace_back(slice.begin(), slice.size());
    parser_.Reset(pieces);
    return true;
  }

  absl::StatusOr<const Frame*> Next() override { return parser_.Next(); }
  std::size_t size_bytes() const override { return size_bytes_; }

 private:
  // Goes last. A grpc::Slice that were the last to hold its bytes would give them back to the quota
  // of gRPC's memory, which wants a context of gRPC's in the thread as soon as memory is short
  // (gRPC 1.51: a segmentation fault). The buffer brings its own.
  grpc::ByteBuffer buffer_;
  std::vector<grpc::Slice> slices_;
  std::size_t size_bytes_ = 0;
  FrameParser parser_;
};

}  // namespace kerf
