#include "server/net/grpc_listener.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/limits.h"
#include "base/rpc/refuse_compression.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "server/net/grpc_deadline.h"
#include "server/net/listen_address.h"

namespace kerf {
namespace {

// A stream's window: what gRPC itself buffers of it while it is not read. All windows together fit
// into window_bytes, so that gRPC never has to cancel a stream of its own choice.
constexpr std::uint64_t kMinWindowBytes = 64 * kKiB;
constexpr std::uint64_t kMaxWindowBytes = 4 * kMiB;
// gRPC answers larger messages itself, without kerf's details; the margin lets kerf answer those
// that are a little too large.
constexpr int kMessageMarginBytes = 64 * 1024;
// Calls of one connection beside max_streams of Upload: calls of the index, and uploads on their
// way to being refused. A client with more waits, and then learns that they are refused; without a
// limit a burst of them would hold some 15 KiB each at once.
constexpr std::size_t kOtherCalls = 256;
// For clients to close their connections. An idle client may not look at its connection for
// seconds.
constexpr std::chrono::milliseconds kCloseGrace{200};

void Configure(const TransportLimits& limits, grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("kerfd");
  quota.Resize(limits.memory_bytes);
  builder.SetResourceQuota(quota);
  RefuseCompression(builder);
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits.max_message_bytes) +
                                   kMessageMarginBytes);
  const std::uint64_t window_bytes =
      std::clamp(limits.window_bytes / limits.max_streams, kMinWindowBytes, kMaxWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, static_cast<int>(window_bytes));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(limits.max_streams + kOtherCalls));
  // Two servers on one port would share its clients without a word.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  const auto milliseconds = [](std::chrono::milliseconds duration) {
    return static_cast<int>(duration.count());
  };
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds(limits::kServerPing));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             milliseconds(limits::kServerPingTimeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             milliseconds(limits::kMinPingInterval));
}

// gRPC tears its threads down when its last object goes, and then may wait 10 s for a poller of its
// own that nothing wakes (1.51). One reference that is never given back spares every stop that.
void KeepGrpc() {
  static const bool kept = (grpc_init(), true);
  static_cast<void>(kept);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcListener>> GrpcListener::Start(
    const std::vector<std::string>& listen, const TransportLimits& limits,
    const std::function<void(grpc::ServerBuilder&)>& add_services) {
  KeepGrpc();
  std::vector<ListenAddress> parsed;
  for (const std::string& text : listen) {
    KERF_ASSIGN_OR_RETURN(ListenAddress address, ParseListenAddress(text));
    if (address.is_unix) KERF_RETURN_IF_ERROR(PrepareUnixSocket(address.path));
    parsed.push_back(std::move(address));
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(limits, builder);
  std::vector<int> ports(parsed.size(), 0);
  for (std::size_t index = 0; index < parsed.size(); ++index) {
    builder.AddListeningPort(parsed[index].target, grpc::InsecureServerCredentials(),
                             &ports[index]);
  }
  add_services(builder);
  std::unique_ptr<GrpcListener> listener(new GrpcListener);
  listener->server_ = builder.BuildAndStart();
  for (std::size_t index = 0; index < parsed.size(); ++index) {
    // gRPC gives 1 for a unix socket and 0 for what it could not bind.
    if (listener->server_ == nullptr && ports[index] == 0) {
      return absl::FailedPreconditionError(
          ToAbsl(Cat("cannot listen on ", parsed[index].target,
                     ": the address is in use, not of this machine, or not permitted")));
    }
    const std::string& target = parsed[index].target;
    listener->addresses_.push_back(
        parsed[index].is_unix ? target
                              : Cat(target.substr(0, target.rfind(':') + 1), ports[index]));
    if (parsed[index].is_unix) listener->socket_paths_.push_back(parsed[index].path);
  }
  if (listener->server_ == nullptr)
    return absl::InternalError("gRPC did not start, and does not say why");
  return listener;
}

void GrpcListener::SetServing(bool is_serving) { SetServing("", is_serving); }

void GrpcListener::SetServing(const std::string& part, bool is_serving) {
  if (auto* health = server_->GetHealthCheckService(); health != nullptr) {
    health->SetServingStatus(part, is_serving);
  }
}

void GrpcListener::Stop() {
  server_->Shutdown(DeadlineIn(kCloseGrace));
  server_->Wait();
  for (const std::string& path : socket_paths_) unlink(path.c_str());
}

}  // namespace kerf
