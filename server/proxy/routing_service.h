// The Routing service: gRPC's side.
#pragma once

#include <grpcpp/grpcpp.h>

#include "kerf/v1/routing.grpc.pb.h"
#include "server/proxy/front_metrics.h"
#include "server/routing/worker_set.h"

namespace kerf {

class RoutingService final : public v1::RoutingService::CallbackService {
 public:
  // Both outlive it.
  RoutingService(const routing::WorkerSet* workers, FrontMetrics* metrics)
      : workers_(workers), metrics_(metrics) {}

  grpc::ServerUnaryReactor* Locate(grpc::CallbackServerContext* context,
                                   const v1::LocateRequest* request,
                                   v1::LocateResponse* response) override;
  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context,
                                        const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;

 private:
  const routing::WorkerSet* const workers_;
  FrontMetrics* const metrics_;
};

}  // namespace kerf
