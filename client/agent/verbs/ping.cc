#include <chrono>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "client/agent/verbs/verbs.h"
#include "client/cpp/channel.h"
#include "grpcpp/client_context.h"
#include "kerf/v1/chunking.grpc.pb.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf ping --server unix:/run/kerfd.sock\n"
    "  kerf ping --server backup.example:7461 --json";
constexpr std::chrono::seconds kDeadline{5};
constexpr int kRounds = 5;

ExitCode Run(Context& context, const std::string& server) {
  const auto channel = client::OpenChannel(server);
  if (!channel.ok()) return FailUsage(context, channel.status());
  const auto stub = v1::ChunkingService::NewStub(*channel);
  v1::GetCapabilitiesResponse capabilities;
  double best_ms = 0;
  // The first call connects; the shortest of the others is the latency.
  for (int round = 0; round <= kRounds; ++round) {
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() + kDeadline);
    const auto start = std::chrono::steady_clock::now();
    const grpc::Status status = stub->GetCapabilities(&call, {}, &capabilities);
    if (!status.ok()) return FailWithServer(context, client::FromGrpc(status), server);
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (round == 1 || (round > 1 && ms < best_ms)) best_ms = ms;
  }
  nlohmann::json object = {{"server", server},
                           {"version", capabilities.version()},
                           {"worker", capabilities.worker()},
                           {"latency_ms", best_ms}};
  for (const std::string& backend : capabilities.backends()) object["backends"].push_back(backend);
  for (const auto& profile : capabilities.profiles()) object["profiles"].push_back(profile.name());
  object["criteria"] = nlohmann::json::array();
  for (const std::string& criterion : capabilities.criteria()) {
    object["criteria"].push_back(criterion);
  }
  context.reporter.Json("summary", std::move(object));
  context.reporter.Result(Cat(server, " answers: kerfd ", capabilities.version(), ", ",
                              absl::StrFormat("%.2f ms", best_ms)));
  return ExitCode::kOk;
}

}  // namespace

void AddPingVerb(Context& context) {
  CLI::App& verb = AddVerb(context, "ping", "Ask a server whether it is there", kExamples);
  auto server = std::make_shared<std::string>();
  AddServerOption(verb, *server);
  verb.callback(
      [&context, server] { context.run = [&context, server] { return Run(context, *server); }; });
}

}  // namespace kerf::agent
