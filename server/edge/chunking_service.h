// The Chunking service: gRPC's side.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>

#include "kerf/v1/chunking.grpc.pb.h"
#include "server/edge/upload_reactor.h"

namespace kerf {

// Upload takes raw bytes: a data frame is cut from the slices in which it arrived.
class ChunkingService final
    : public v1::ChunkingService::WithRawCallbackMethod_Upload<
          v1::ChunkingService::WithCallbackMethod_GetCapabilities<v1::ChunkingService::Service>> {
 public:
  explicit ChunkingService(const UploadReactor::Options& options);

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Upload(
      grpc::CallbackServerContext* context) override;

  grpc::ServerUnaryReactor* GetCapabilities(grpc::CallbackServerContext* context,
                                            const v1::GetCapabilitiesRequest* request,
                                            v1::GetCapabilitiesResponse* response) override;

 private:
  // Who begins an upload, and his place.
  struct Admitted {
    access::Identity caller;
    Places::Hold place;
  };
  // It has a place then in the registry and in the audit log, too.
  absl::StatusOr<Admitted> Admit(const grpc::CallbackServerContext& context,
                                 audit::CallRecord& record) const;

  const UploadReactor::Options options_;
  // Makes session ids of different processes differ.
  const std::uint64_t process_id_;
  std::atomic<std::uint64_t> next_session_{1};
};

}  // namespace kerf
