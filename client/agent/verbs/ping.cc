#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "base/request_id.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/interrupt.h"
#include "client/cli/progress_display.h"
#include "client/cpp/channel.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/locate.h"
#include "grpcpp/client_context.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "kerf/v1/status.grpc.pb.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf ping --server unix:/run/kerfd.sock\n"
    "  kerf ping --server backup.example:7461 --json";
constexpr std::chrono::seconds kDeadline{5};
constexpr int kRounds = 5;
// Of all calls of a ping, so that a front gives them to one worker: what is shown is of one kerfd.
constexpr char kShardKeyMetadata[] = "kerf-shard-key";
constexpr char kShardKey[] = "ping";

// Returns the call's id.
std::string Prepare(grpc::ClientContext& call) {
  call.set_deadline(std::chrono::system_clock::now() + kDeadline);
  call.AddMetadata(kShardKeyMetadata, kShardKey);
  const std::string request_id = NewRequestId();
  call.AddMetadata(kRequestIdMetadata, request_id);
  return request_id;
}

nlohmann::json JsonOf(const v1::GpuState& gpu) {
  return {{"number", gpu.number()},
          {"name", gpu.name()},
          {"memory_bytes", gpu.memory_bytes()},
          {"lost", gpu.lost().empty() ? nlohmann::json() : nlohmann::json(gpu.lost())},
          {"pending_bytes", gpu.pending_bytes()},
          {"batches", gpu.batch_count()},
          {"pieces", gpu.piece_count()},
          {"bytes", gpu.byte_count()},
          {"given_up_pieces", gpu.given_up_piece_count()},
          {"lost_pieces", gpu.lost_piece_count()},
          {"refused_pieces", gpu.refused_piece_count()},
          {"audited_batches", gpu.audited_batch_count()},
          {"mismatches", gpu.mismatch_count()}};
}

nlohmann::json SummaryOf(const client::ServerAddress& server,
                         const v1::GetCapabilitiesResponse& capabilities,
                         const std::string& worker_address, double best_ms,
                         const std::optional<v1::GetStatusResponse>& state) {
  nlohmann::json object = {
      {"server", server.text},
      {"tls", server.tls.IsFor(server.text)},
      {"version", capabilities.version()},
      {"worker", capabilities.worker()},
      {"worker_address",
       worker_address.empty() ? nlohmann::json() : nlohmann::json(worker_address)},
      {"latency_ms", best_ms}};
  for (const std::string& backend : capabilities.backends()) object["backends"].push_back(backend);
  for (const auto& profile : capabilities.profiles()) object["profiles"].push_back(profile.name());
  object["criteria"] = nlohmann::json::array();
  for (const std::string& criterion : capabilities.criteria()) {
    object["criteria"].push_back(criterion);
  }
  object["gpus"] = object["degraded"] = nlohmann::json();
  if (!state.has_value()) return object;
  object["gpus"] = nlohmann::json::array();
  for (const v1::GpuState& gpu : state->gpus()) object["gpus"].push_back(JsonOf(gpu));
  object["degraded"] = nlohmann::json::array();
  for (const std::string& text : state->degradations()) object["degraded"].push_back(text);
  return object;
}

ExitCode Run(Context& context, const ServerFlags& flags) {
  EndAtOnceWhenInterrupted();
  const absl::StatusOr<client::ServerAddress> server = ServerOf(context, flags);
  if (!server.ok()) return FailUsage(context, server.status());
  const auto channel = client::OpenChannel(*server);
  if (!channel.ok()) return FailUsage(context, channel.status());
  if (const absl::Status started = StartOwnKerfd(context); !started.ok()) {
    return FailWith(context, started);
  }
  const auto stub = v1::ChunkingService::NewStub(*channel);
  v1::GetCapabilitiesResponse capabilities;
  double best_ms = 0;
  // The first call connects; the shortest of the others is the latency.
  for (int round = 0; round <= kRounds; ++round) {
    grpc::ClientContext call;
    const std::string request_id = Prepare(call);
    const auto start = std::chrono::steady_clock::now();
    const grpc::Status status = stub->GetCapabilities(&call, {}, &capabilities);
    if (!status.ok()) {
      return FailWithServer(context, client::WithRequestId(client::FromGrpc(status), request_id),
                            *server);
    }
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (round == 1 || (round > 1 && ms < best_ms)) best_ms = ms;
  }
  client::CallCancellation nobody;
  const absl::StatusOr<client::LocatedWorker> worker =
      client::LocateWorker(*channel, kShardKey, {}, nobody);
  if (!worker.ok()) return FailWithServer(context, worker.status(), *server);
  std::optional<v1::GetStatusResponse> state;
  state.emplace();
  grpc::ClientContext call;
  const std::string request_id = Prepare(call);
  const grpc::Status status = v1::StatusService::NewStub(*channel)->GetStatus(&call, {}, &*state);
  // Of how it is a server may tell administrators alone; an older one has nothing to say of it.
  if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
    state.reset();
  } else if (!status.ok() && status.error_code() != grpc::StatusCode::UNIMPLEMENTED) {
    return FailWithServer(context, client::WithRequestId(client::FromGrpc(status), request_id),
                          *server);
  }
  context.reporter.Json("summary",
                        SummaryOf(*server, capabilities, worker->address, best_ms, state));
  const std::string by = worker->address.empty() ? ""
                                                 : Cat(" a front, which asked worker ",
                                                       Printable(capabilities.worker()), " at ",
                                                       Printable(worker->address), ":");
  context.reporter.Result(Cat(flags.address, by.empty() ? " answers:" : " is", by, " kerfd ",
                              Printable(capabilities.version()), ", ",
                              absl::StrFormat("%.2f ms", best_ms)));
  if (!state.has_value()) {
    context.reporter.Result("how it is, it tells those alone who may administer it");
    return ExitCode::kOk;
  }
  for (const v1::GpuState& gpu : state->gpus()) {
    context.reporter.Result(Cat("GPU ", gpu.number(), ", ", Printable(gpu.name()), ", took ",
                                FormatByteSize(gpu.byte_count()), " in ",
                                FormatCounted(gpu.piece_count(), "piece")));
  }
  for (const std::string& text : state->degradations()) {
    context.reporter.Result(Cat("degraded: ", Printable(text)));
  }
  return ExitCode::kOk;
}

}  // namespace

void AddPingVerb(Context& context) {
  const Verb verb =
      AddVerb(context, "ping", "Ask a server whether it is there, and well", kExamples);
  auto flags = std::make_shared<ServerFlags>();
  AddPresentServerOption(verb, *flags);
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
