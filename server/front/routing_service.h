// The Routing service: gRPC's side.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstddef>
#include <mutex>
#include <vector>

#include "kerf/v1/routing.grpc.pb.h"
#include "server/access/gate.h"
#include "server/audit/sink.h"
#include "server/front/front_metrics.h"
#include "server/net/clock.h"
#include "server/routing/worker_set.h"

namespace kerf {

// Thread-safe.
class RoutingService final : public v1::RoutingService::CallbackService {
 public:
  // Lists on their way to their clients: one of 1,024 workers is half a megabyte, of which the
  // front's memory for messages knows nothing.
  static constexpr std::size_t kMaxLists = 8;
  // For a client to take one.
  static constexpr std::chrono::seconds kMaxListTime{5};

  // All outlive it.
  // `audit` may be null.
  RoutingService(const access::Gate* gate, audit::Sink* audit, const routing::WorkerSet* workers,
                 FrontMetrics* metrics, const Clock* clock)
      : gate_(gate), audit_(audit), workers_(workers), metrics_(metrics), clock_(clock) {}

  grpc::ServerUnaryReactor* Locate(grpc::CallbackServerContext* context,
                                   const v1::LocateRequest* request,
                                   v1::LocateResponse* response) override;
  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context,
                                        const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;

  // Ends lists that their clients do not take; how many.
  std::size_t CheckTime(TimePoint now);

 private:
  class List;

  // Null: there is no place.
  List* EnterList(grpc::CallbackServerContext* context);
  void LeaveList(const List* list);

  // The answer to a caller who may not; null: he may. `caller` is who he has proven to be.
  grpc::ServerUnaryReactor* RefuseUnless(access::Need need, grpc::CallbackServerContext* context,
                                         const char* method, access::Identity& caller);
  grpc::ServerUnaryReactor* RefuseCall(grpc::CallbackServerContext* context, const char* method,
                                       const access::Identity& caller, const absl::Status& status);

  const access::Gate* const gate_;
  audit::Sink* const audit_;
  const routing::WorkerSet* const workers_;
  FrontMetrics* const metrics_;
  const Clock* const clock_;

  std::mutex mutex_;
  std::vector<List*> lists_;
};

}  // namespace kerf
