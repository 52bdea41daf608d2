#include "server/edge/chunking_service.h"

#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/version.h"
#include "kernels/cuda/pipeline/gpu_set.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/rapid/upload_profile.h"
#include "kernels/registry.h"
#include "server/edge/stream_registry.h"
#include "server/net/refused_call.h"
#include "server/net/refused_unary_call.h"
#include "server/net/request_id_of.h"

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
  absl::StatusOr<access::Identity> caller = options_.gate->Admit(*context, access::Need::kWrite);
  if (!caller.ok()) return new RefusedCall(caller.status(), request_id);
  const StreamRegistry::Owner owner{.name = caller->name,
                                    .max_streams = options_.gate->MaxStreamsOf(*caller)};
  if (absl::Status status = options_.registry->Enter(owner, (*options_.clock)()); !status.ok()) {
    return new RefusedCall(status, request_id);
  }
  return UploadReactor::Start(
      options_, context,
      {.session_id = absl::StrFormat("%016x-%d", process_id_, next_session_.fetch_add(1)),
       .request_id = std::move(request_id),
       .caller = *std::move(caller)});
}

grpc::ServerUnaryReactor* ChunkingService::GetCapabilities(
    grpc::CallbackServerContext* context, const v1::GetCapabilitiesRequest* /*request*/,
    v1::GetCapabilitiesResponse* response) {
  if (const auto caller = options_.gate->Admit(*context, access::Need::kKnown); !caller.ok()) {
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
  const SessionLimits& limits = options_.engine->limits;
  response->mutable_limits()->set_max_message_bytes(limits.max_message_bytes);
  response->mutable_limits()->set_max_uncommitted_chunks(limits.max_uncommitted_chunks);
  response->mutable_limits()->set_max_uncommitted_files(limits.max_uncommitted_files);
  response->mutable_limits()->set_max_commit_entries(limits.max_commit_entries);
  response->set_worker(options_.engine->worker_name);
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
