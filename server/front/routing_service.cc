#include "server/front/routing_service.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "server/audit/call_record.h"
#include "server/errors/errors.h"
#include "server/listener/client_peer.h"
#include "server/net/grpc_status.h"
#include "server/net/refused_unary_call.h"
#include "server/net/request_id_of.h"

namespace kerf {

// Deletes itself, when the client has taken the list or is gone: gRPC holds it until then.
class RoutingService::List final : public grpc::ServerUnaryReactor {
 public:
  List(RoutingService* service, grpc::CallbackServerContext* context, TimePoint since)
      : service_(service), context_(context), since_(since) {}

  TimePoint since() const { return since_; }
  void Cancel() { context_->TryCancel(); }
  void OnDone() override {
    service_->LeaveList(this);
    delete this;
  }

 private:
  RoutingService* const service_;
  grpc::CallbackServerContext* const context_;
  const TimePoint since_;
};

grpc::ServerUnaryReactor* RoutingService::RefuseUnless(access::Need need,
                                                       grpc::CallbackServerContext* context,
                                                       const char* method,
                                                       access::Identity& caller) {
  const auto admitted = gate_->Admit(*context, need, &caller);
  return admitted.ok() ? nullptr : RefuseCall(context, method, caller, admitted.status());
}

grpc::ServerUnaryReactor* RoutingService::RefuseCall(grpc::CallbackServerContext* context,
                                                     const char* method,
                                                     const access::Identity& caller,
                                                     const absl::Status& status) {
  metrics_->refused.Count(status);
  audit::CallRecord::Refused(audit_,
                             {.method = Cat("kerf.v1.RoutingService/", method),
                              .peer = PeerOf(*context),
                              .request_id = RequestIdOf(*context),
                              .identity = caller.name,
                              .proof = std::string(NameOf(caller.proof))},
                             status);
  return Refuse(*context, status);
}

grpc::ServerUnaryReactor* RoutingService::Locate(grpc::CallbackServerContext* context,
                                                 const v1::LocateRequest* request,
                                                 v1::LocateResponse* response) {
  access::Identity caller;
  if (auto* const refused = RefuseUnless(access::Need::kKnown, context, "Locate", caller);
      refused != nullptr) {
    return refused;
  }
  const int avoided_count = std::min(request->avoid_size(), static_cast<int>(routing::kMaxAvoided));
  const routing::Avoid avoid(request->avoid().begin(), request->avoid().begin() + avoided_count);
  const absl::StatusOr<routing::WorkerPlace> place = workers_->Locate(request->shard_key(), avoid);
  metrics_->locates.Add();
  if (place.ok()) {
    response->set_worker(place->name);
    response->set_address(place->address);
    response->set_tls_name(place->tls_name);
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(place.status()));
  return reactor;
}

grpc::ServerUnaryReactor* RoutingService::ListWorkers(grpc::CallbackServerContext* context,
                                                      const v1::ListWorkersRequest* /*request*/,
                                                      v1::ListWorkersResponse* response) {
  access::Identity caller;
  if (auto* const refused = RefuseUnless(access::Need::kOperate, context, "ListWorkers", caller);
      refused != nullptr) {
    return refused;
  }
  List* const list = EnterList(context);
  if (list == nullptr) {
    const absl::Status status =
        MakeError(Reason::kTooManyCalls,
                  Cat("the front lists its workers to at most ", kMaxLists, " clients at once"),
                  {{"limit", Cat(kMaxLists)}});
    return RefuseCall(context, "ListWorkers", caller, status);
  }
  for (routing::WorkerState& state : workers_->States()) {
    v1::WorkerState& worker = *response->add_workers();
    worker.set_worker(std::move(state.place.name));
    worker.set_address(std::move(state.place.address));
    worker.set_lost(std::move(state.lost));
  }
  list->Finish(grpc::Status::OK);
  return list;
}

RoutingService::List* RoutingService::EnterList(grpc::CallbackServerContext* context) {
  const std::lock_guard lock(mutex_);
  if (lists_.size() >= kMaxLists) return nullptr;
  return lists_.emplace_back(new List(this, context, (*clock_)()));
}

void RoutingService::LeaveList(const List* list) {
  const std::lock_guard lock(mutex_);
  lists_.erase(std::find(lists_.begin(), lists_.end(), list));
}

std::size_t RoutingService::CheckTime(TimePoint now) {
  const std::lock_guard lock(mutex_);
  std::size_t ended_count = 0;
  for (List* const list : lists_) {
    if (now - list->since() < kMaxListTime) continue;
    // It leaves from another thread.
    list->Cancel();
    ++ended_count;
  }
  return ended_count;
}

}  // namespace kerf
