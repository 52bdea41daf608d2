// The Status service: gRPC's side.
#pragma once

#include <grpcpp/grpcpp.h>

#include "kerf/v1/status.grpc.pb.h"
#include "kernels/cuda/pipeline/gpu_set.h"

namespace kerf {

class StatusService final : public v1::StatusService::CallbackService {
 public:
  // They outlive the service; null: the server has none.
  explicit StatusService(const cuda::GpuSet* gpus) : gpus_(gpus) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;

 private:
  const cuda::GpuSet* const gpus_;
};

}  // namespace kerf
