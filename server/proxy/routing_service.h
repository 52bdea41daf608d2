// The Routing service: gRPC's side.
#pragma once

#include <grpcpp/grpcpp.h>

#include "kerf/v1/routing.grpc.pb.h"
#include "server/routing/worker_set.h"

namespace kerf {

class RoutingService final : public v1::RoutingService::CallbackService {
 public:
  // `workers` outlives it.
  explicit RoutingService(const routing::WorkerSet* workers) : workers_(workers) {}

  grpc::ServerUnaryReactor* Locate(grpc::CallbackServerContext* context,
                                   const v1::LocateRequest* request,
                                   v1::LocateResponse* response) override;

 private:
  const routing::WorkerSet* const workers_;
};

}  // namespace kerf
