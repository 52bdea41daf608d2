#include "server/edge/chunking_service.h"

#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/version.h"
#include "kernels/cuda/pipeline/gpu_set.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/rapid/upload_profile.h"
#include "kernels/registry.h"
#include "server/audit/call_record.h"
#include "server/edge/stream_registry.h"
#include "server/listener/client_peer.h"
#include "server/net/refused_call.h"
#include "server/net/refused_unary_call.h"
#include "server/net/request_id_of.h"
#include "server/net/shard_key.h"
#include "server/session/features.h"
#include "server/session/session.h"

namespace kerf {
namespace {

std::uint64_t RandomId() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

ChunkingService::ChunkingService(const UploadReactor::Options& options)
    : options_(options), process_id_(RandomId()) {}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ChunkingService::Upload(
    grpc::CallbackServerContext* context) {
  std::string request_id = RequestIdOf(*context);
  std::string session_id = absl::StrFormat("%016x-%d", process_id_, next_session_.fetch_add(1));
  auto record = audit::CallRecord::Begin(options_.audit, audit::CallRecord::Kind::kChange,
                                         {.method = "kerf.v1.ChunkingService/Upload",
                                          .peer = PeerOf(*context),
                                          .request_id = request_id,
                                          .session = session_id});
  absl::StatusOr<Admitted> admitted = Admit(*context, *record);
  if (!admitted.ok()) {
    record->SetOutcome(admitted.status());
    return new RefusedCall(admitted.status(), request_id);
  }
  return UploadReactor::Start(options_, context,
                              {.session_id = std::move(session_id),
                               .request_id = std::move(request_id),
                               .caller = std::move(admitted->caller),
                               .place = std::move(admitted->place),
                               .record = std::move(record)});
}

absl::StatusOr<ChunkingService::Admitted> ChunkingService::Admit(
    const grpc::CallbackServerContext& context, audit::CallRecord& record) const {
  access::Identity proven;
  absl::StatusOr<access::Identity> caller =
      options_.gate->Admit(context, access::Need::kWrite, &proven);
  record.SetCaller(proven.name, NameOf(proven.proof));
  if (!caller.ok()) return caller.status();
  KERF_RETURN_IF_ERROR(CheckShardKeyOf(context));
  if (!record.admission().ok()) {
    options_.registry->refused().Count(record.admission());
    return record.admission();
  }
  absl::StatusOr<Places::Hold> place =
      options_.quotas->EnterStream(*caller, options_.registry->max_streams());
  if (!place.ok()) {
    options_.registry->refused().Count(place.status());
    return place.status();
  }
  KERF_RETURN_IF_ERROR(options_.registry->Enter((*options_.clock)()));
  return Admitted{*std::move(caller), *std::move(place)};
}

grpc::ServerUnaryReactor* ChunkingService::GetCapabilities(
    grpc::CallbackServerContext* context, const v1::GetCapabilitiesRequest* /*request*/,
    v1::GetCapabilitiesResponse* response) {
  access::Identity proven;
  if (const auto caller = options_.gate->Admit(*context, access::Need::kKnown, &proven);
      !caller.ok()) {
    audit::CallRecord::Refused(options_.audit,
                               {.method = "kerf.v1.ChunkingService/GetCapabilities",
                                .peer = PeerOf(*context),
                                .request_id = RequestIdOf(*context),
                                .identity = proven.name,
                                .proof = std::string(NameOf(proven.proof))},
                               caller.status());
    return Refuse(*context, caller.status());
  }
  response->set_version(std::string(kVersion));
  for (const NamedProfile& named : NamedProfiles()) {
    v1::ProfileInfo* info = response->add_profiles();
    info->set_name(std::string(named.name));
    info->set_parameters(std::string(named.parameters));
  }
  for (const std::string_view name : AlgorithmNames()) {
    response->add_algorithms(std::string(name));
  }
  if (options_.engine->hints != nullptr) {
    for (const std::string_view name : CriterionNames()) response->add_criteria(std::string(name));
  }
  response->add_digest_algorithms(v1::DIGEST_ALGORITHM_BLAKE3);
  response->add_digest_algorithms(v1::DIGEST_ALGORITHM_SHA256);
  response->add_digest_algorithms(v1::DIGEST_ALGORITHM_XXH3_128);
  FillLimits(options_.engine->limits, response->mutable_limits());
  response->mutable_limits()->set_max_named_bytes(options_.engine->limits.max_named_bytes);
  response->set_worker(options_.engine->worker_name);
  for (const std::string_view name : kServerFeatures) response->add_features(std::string(name));
  if (options_.engine->shared_memories != nullptr) {
    response->add_features(std::string(kSharedDataFeature));
  }
  const Profile default_profile = *ParseProfile(kDefaultProfileName);
  cuda::GpuSet* const gpus = options_.engine->gpus;
  if (gpus != nullptr && gpus->PlanOf(default_profile, DigestAlgorithm::kBlake3) != nullptr) {
    response->add_backends(std::string(kGpuBackend));
  }
  const std::string_view chosen = ChosenBackend(default_profile);
  response->add_backends(std::string(chosen));
  for (const Backend& backend : Backends()) {
    if (backend.name != chosen && backend.runs_here()) {
      response->add_backends(std::string(backend.name));
    }
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace kerf
