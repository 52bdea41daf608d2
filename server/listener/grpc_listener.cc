#include "server/listener/grpc_listener.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "base/limits.h"
#include "base/open_files.h"
#include "base/rpc/refuse_compression.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/tls/tls_source.h"
#include "base/units.h"
#include "server/errors/errors.h"
#include "server/listener/client_peer.h"
#include "server/listener/turned_away.h"
#include "server/net/grpc_deadline.h"
#include "server/net/grpc_status.h"
#include "server/net/listen_address.h"
#include "server/net/listen_tcp.h"
#include "server/net/listen_unix.h"

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
// Whoever exceeds it loses the connection with all its calls, and gRPC's clients do not hold
// themselves to it: twice what the door and a front let through.
constexpr int kMaxMetadataBytes = 16 * 1024;
// Of a client: its own, and both ends of its connection to gRPC.
constexpr std::uint64_t kFilesPerConnection = 3;
// A service has said meanwhile why the call ends.
constexpr std::chrono::seconds kUnreadGrace{5};
// For all else than clients: an index, workers of a front, logs.
constexpr std::uint64_t kOtherFiles = 1024;
// For clients to close their connections. An idle client may not look at its connection for
// seconds.
constexpr std::chrono::milliseconds kCloseGrace{200};
// Behind it, for what gRPC has on its way to clients at unix sockets.
constexpr std::chrono::milliseconds kEndGrace{800};

void Configure(const TransportLimits& limits, std::uint64_t grpc_window_bytes,
               grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("kerfd");
  quota.Resize(limits.memory_bytes);
  builder.SetResourceQuota(quota);
  RefuseCompression(builder);
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits.max_message_bytes) +
                                   kMessageMarginBytes);
  const std::uint64_t window_bytes =
      std::clamp(grpc_window_bytes / limits.max_streams, kMinWindowBytes, kMaxWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, static_cast<int>(window_bytes));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(limits.max_streams + kOtherCalls));
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

door::Refusal RefusalOf(const grpc::Status& status) {
  door::Refusal refusal;
  refusal.status = std::to_string(static_cast<int>(status.error_code()));
  refusal.message = status.error_message();
  absl::Base64Escape(status.error_details(), &refusal.details);
  return refusal;
}

// As kerf's services would say it. Of a server that is lost without a reason: nobody knows how far
// it has come.
absl::Status StatusOf(door::RefusedCallReason reason) {
  switch (reason) {
    case door::RefusedCallReason::kLargeMetadata:
      return MakeError(Reason::kMessageTooLarge, "the metadata of the call exceeds 7 KiB");
    case door::RefusedCallReason::kNoMemory:
      return MakeError(Reason::kMemoryExhausted, "there is no memory for one more call");
    case door::RefusedCallReason::kNoServer:
      return absl::UnavailableError("kerfd takes no calls any more, or has ended this one");
    case door::RefusedCallReason::kSlowRequest:
      return MakeError(Reason::kIdleTimeout, "the request has not gone on for 120 s");
    case door::RefusedCallReason::kManyConnections:
      break;
  }
  return QuotaExceeded("the caller", "as many connections as it may have are open",
                       limits::kRetryLater);
}

std::array<door::Refusal, door::kRefusedCallReasonCount> Refusals() {
  std::array<door::Refusal, door::kRefusedCallReasonCount> refusals;
  for (std::size_t index = 0; index < refusals.size(); ++index) {
    const absl::Status status = StatusOf(static_cast<door::RefusedCallReason>(index));
    refusals[index] =
        RefusalOf(ReasonNameOf(status).empty()
                      ? grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(MessageOf(status)))
                      : ToGrpcStatus(status));
  }
  return refusals;
}

TurnedAway Describe(door::TurnedAway client) {
  TurnedAway told{.peer = std::move(client.peer), .seen = ParseSeen(client.seen)};
  if (const auto* const reason = std::get_if<door::EndReason>(&client.why)) {
    told.outcome = door::NameOf(*reason);
    told.message = door::TextOf(*reason);
    return told;
  }
  const absl::Status status = StatusOf(std::get<door::RefusedCallReason>(client.why));
  told.is_call = true;
  told.method = std::move(client.method);
  told.request_id = std::move(client.request_id);
  told.outcome = ReasonNameOf(status);
  told.message = MessageOf(status);
  return told;
}

// gRPC tears its threads down when its last object goes, and then may wait 10 s for a poller of its
// own that nothing wakes (1.51). One reference that is never given back spares every stop that.
void KeepGrpc() {
  static const bool kept = (grpc_init(), true);
  static_cast<void>(kept);
}

}  // namespace

std::uint64_t FilesFor(std::size_t connection_count) {
  return connection_count * kFilesPerConnection + kOtherFiles;
}

std::size_t ConnectionsThatFit(std::uint64_t open_file_limit) {
  const std::uint64_t others = std::min(kOtherFiles, open_file_limit / 4);
  return std::max<std::uint64_t>(1, (open_file_limit - others) / kFilesPerConnection);
}

absl::StatusOr<std::unique_ptr<GrpcListener>> GrpcListener::Start(
    const std::vector<std::string>& listen, const TransportLimits& limits,
    const std::function<void(grpc::ServerBuilder&)>& add_services,
    std::vector<std::string> services) {
  KeepGrpc();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  std::unique_ptr<GrpcListener> listener(new GrpcListener);
  std::vector<UniqueFd> doors;
  std::vector<UniqueFd> unix_sockets;
  for (const std::string& text : listen) {
    KERF_ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress(text));
    if (address.is_unix) {
      KERF_RETURN_IF_ERROR(PrepareUnixSocket(address.path));
      KERF_ASSIGN_OR_RETURN(UniqueFd socket, ListenUnix(address.path));
      (limits.asks_who ? doors : unix_sockets).push_back(std::move(socket));
      listener->addresses_.push_back(address.target);
      listener->socket_paths_.push_back(address.path);
    } else {
      KERF_ASSIGN_OR_RETURN(TcpListeners tcp, ListenTcp(address.target));
      std::move(tcp.sockets.begin(), tcp.sockets.end(), std::back_inserter(doors));
      listener->addresses_.push_back(std::move(tcp.address));
    }
  }
  Configure(limits, doors.empty() ? limits.window_bytes : limits.window_bytes / 2, builder);
  listener->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  add_services(builder);
  listener->server_ = builder.BuildAndStart();
  if (listener->server_ == nullptr) {
    return absl::InternalError("gRPC did not start, and does not say why");
  }
  listener->services_ = std::move(services);
  for (const std::string& service : listener->services_) listener->SetServing(service, true);
  if (!unix_sockets.empty()) {
    listener->unix_ = std::make_unique<UnixAcceptor>(
        std::move(unix_sockets),
        [here = listener.get()](UniqueFd socket) { return here->Serve(std::move(socket)); },
        limits.shared_memories);
    listener->unix_->Start();
  }
  if (!doors.empty()) listener->OpenDoor(limits, std::move(doors));
  return listener;
}

bool GrpcListener::Serve(UniqueFd socket) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  // From then on gRPC does not take it, nor closes it.
  if (is_stopping_.load()) return false;
  parameters.fd = socket.Release();
  acceptor_->HandleNewConnection(&parameters);
  return true;
}

void GrpcListener::OpenDoor(const TransportLimits& limits, std::vector<UniqueFd> sockets) {
  const std::size_t max_calls = limits.max_streams + kOtherCalls;
  door::DoorOptions options;
  options.max_connections =
      std::min(limits.max_connections, ConnectionsThatFit(RaiseOpenFileLimit(0)));
  options.max_calls = static_cast<std::uint32_t>(max_calls);
  options.memory_bytes = limits.window_bytes / 2;
  options.expected_calls = max_calls;
  options.cancel_burst = static_cast<double>(max_calls * limits.clients_per_address);
  options.cancels_per_second *= static_cast<double>(limits.clients_per_address);
  options.is_behind_fronts = limits.clients_per_address > 1;
  options.refusals = Refusals();
  if (limits.asks_who && limits.max_connections_of) {
    options.max_connections_of = [of = limits.max_connections_of](std::string_view seen) {
      return of(ParseSeen(seen));
    };
  }
  if (limits.on_turned_away) {
    options.on_turned_away = [tell = limits.on_turned_away](door::TurnedAway client) {
      tell(Describe(std::move(client)));
    };
  }
  options.times.unread = limits.write_stall + kUnreadGrace;
  if (limits.tls != nullptr) {
    options.new_session = [tls = limits.tls] {
      TlsSession session = tls->current()->NewSession();
      SSL_set_accept_state(session.get());
      return session;
    };
  }
  door_ = std::make_unique<door::Door>(
      options, std::move(sockets), [this](UniqueFd socket) { return Serve(std::move(socket)); },
      door::Door::Headers{.peer = kPeerMetadata,
                          .seen = limits.asks_who ? std::string(kSeenMetadata) : "",
                          .stamp = PeerStamp()});
  door_->Start();
}

void GrpcListener::SetServing(bool is_serving) {
  SetServing("", is_serving);
  for (const std::string& service : services_) SetServing(service, is_serving);
}

void GrpcListener::SetServing(const std::string& part, bool is_serving) {
  if (auto* health = server_->GetHealthCheckService(); health != nullptr) {
    health->SetServingStatus(part, is_serving);
  }
}

void GrpcListener::AddMetrics(metrics::Page& page) const {
  if (door_ != nullptr) door_->AddMetrics(page);
}

GrpcListener::~GrpcListener() { RemoveSocketFiles(); }

void GrpcListener::RemoveSocketFiles() {
  for (const std::string& path : socket_paths_) unlink(path.c_str());
  socket_paths_.clear();
}

void GrpcListener::Stop() {
  is_stopping_.store(true);
  // While it listens: behind that, a file there may be the next kerfd's.
  RemoveSocketFiles();
  if (door_ != nullptr) door_->StopAccepting();
  // Then gRPC has cancelled what was left, and closed what it can.
  if (unix_ != nullptr) unix_->BeginStop(kCloseGrace + kEndGrace);
  server_->Shutdown(DeadlineIn(kCloseGrace));
  server_->Wait();
  unix_.reset();
  // What gRPC has said last is on its way to clients.
  if (door_ != nullptr) door_->Stop(kCloseGrace);
}

}  // namespace kerf
