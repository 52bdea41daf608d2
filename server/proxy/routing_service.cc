#include "server/proxy/routing_service.h"

#include <utility>

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

grpc::ServerUnaryReactor* RoutingService::ListWorkers(grpc::CallbackServerContext* context,
                                                      const v1::ListWorkersRequest* /*request*/,
                                                      v1::ListWorkersResponse* response) {
  for (routing::WorkerState& state : workers_->States()) {
    v1::WorkerState& worker = *response->add_workers();
    worker.set_worker(std::move(state.place.name));
    worker.set_address(std::move(state.place.address));
    worker.set_lost(std::move(state.lost));
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace kerf
