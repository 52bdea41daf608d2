// The Status service: gRPC's side.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <utility>

#include "kerf/v1/status.grpc.pb.h"
#include "kernels/cuda/pipeline/gpu_set.h"
#include "server/access/gate.h"
#include "server/audit/sink.h"
#include "server/index/index.h"

namespace kerf {

class StatusService final : public v1::StatusService::CallbackService {
 public:
  // They outlive the service; without GPUs null, and so is `audit` without an audit log. `count`
  // says what else there is, and `index_state` what the index is worth.
  StatusService(const access::Gate* gate, audit::Sink* audit, const Index* index,
                const cuda::GpuSet* gpus, std::function<void(v1::WorkerCounts&)> count,
                std::function<void(v1::IndexState&)> index_state)
      : gate_(*gate),
        audit_(audit),
        index_(*index),
        gpus_(gpus),
        count_(std::move(count)),
        index_state_(std::move(index_state)) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;

 private:
  const access::Gate& gate_;
  audit::Sink* const audit_;
  const Index& index_;
  const cuda::GpuSet* const gpus_;
  const std::function<void(v1::WorkerCounts&)> count_;
  const std::function<void(v1::IndexState&)> index_state_;
};

}  // namespace kerf
