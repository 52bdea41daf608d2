// The Status service: gRPC's side.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <utility>

#include "kerf/v1/status.grpc.pb.h"
#include "kernels/cuda/pipeline/gpu_set.h"

namespace kerf {

class StatusService final : public v1::StatusService::CallbackService {
 public:
  // They outlive the service; null: the server has none. `count` says what else there is.
  StatusService(const cuda::GpuSet* gpus, std::function<void(v1::WorkerCounts&)> count)
      : gpus_(gpus), count_(std::move(count)) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;

 private:
  const cuda::GpuSet* const gpus_;
  const std::function<void(v1::WorkerCounts&)> count_;
};

}  // namespace kerf
