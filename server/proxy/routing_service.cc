#include "server/proxy/routing_service.h"

#include "server/front/grpc_status.h"

namespace kerf {

grpc::ServerUnaryReactor* RoutingService::Locate(grpc::CallbackServerContext* context,
                                                 const v1::LocateRequest* request,
                                                 v1::LocateResponse* response) {
  const absl::StatusOr<routing::WorkerPlace> place = workers_->Locate(request->shard_key());
  metrics_->locates.Add();
  if (place.ok()) {
    response->set_worker(place->name);
    response->set_address(place->address);
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(place.status()));
  return reactor;
}

}  // namespace kerf
