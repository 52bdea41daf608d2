#include "server/edge/status_service.h"

#include <string>

#include "base/strings.h"
#include "server/audit/call_record.h"
#include "server/listener/client_peer.h"
#include "server/net/refused_unary_call.h"
#include "server/net/request_id_of.h"

namespace kerf {
namespace {

void Show(const cuda::GpuState& state, v1::GetStatusResponse& response) {
  v1::GpuState& shown = *response.add_gpus();
  shown.set_number(state.number);
  shown.set_name(state.name);
  shown.set_memory_bytes(state.memory_bytes);
  shown.set_pending_bytes(state.pending_bytes);
  const cuda::GpuCounters& counters = state.counters;
  shown.set_batch_count(counters.batch_count);
  shown.set_piece_count(counters.piece_count);
  shown.set_byte_count(counters.byte_count);
  shown.set_given_up_piece_count(counters.given_up_piece_count);
  shown.set_lost_piece_count(counters.lost_piece_count);
  shown.set_refused_piece_count(counters.refused_piece_count);
  shown.set_audited_batch_count(counters.audited_batch_count);
  shown.set_mismatch_count(counters.mismatch_count);
  if (state.health.ok()) return;
  shown.set_lost(std::string(state.health.message()));
  response.add_degradations(Cat("GPU ", state.number, ": ", MessageOf(state.health)));
}

}  // namespace

grpc::ServerUnaryReactor* StatusService::GetStatus(grpc::CallbackServerContext* context,
                                                   const v1::GetStatusRequest* /*request*/,
                                                   v1::GetStatusResponse* response) {
  access::Identity proven;
  if (const auto caller = gate_.Admit(*context, access::Need::kOperate, &proven); !caller.ok()) {
    audit::CallRecord::Refused(audit_,
                               {.method = "kerf.v1.StatusService/GetStatus",
                                .peer = PeerOf(*context),
                                .request_id = RequestIdOf(*context),
                                .identity = proven.name,
                                .proof = std::string(NameOf(proven.proof))},
                               caller.status());
    return Refuse(*context, caller.status());
  }
  count_(*response->mutable_counts());
  v1::IndexState& index = *response->mutable_index();
  index_state_(index);
  if (!index.trouble().empty()) response->add_degradations(index.trouble());
  for (const std::string& finding : index_.health().findings) {
    response->add_degradations(finding);
  }
  if (gpus_ != nullptr) {
    for (const cuda::GpuState& state : gpus_->states()) Show(state, *response);
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace kerf
