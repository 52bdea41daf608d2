#include "client/cpp/channel.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "base/limits.h"
#include "base/rpc/refuse_compression.h"
#include "base/strings.h"
#include "base/trusted_socket.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/token_file.h"
#include "google/rpc/status.pb.h"
#include "grpc/grpc.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace kerf::client {
namespace {

// Wide enough for a fast link; measured figures are in docs/performance.md.
constexpr int kLookaheadBytes = 8 << 20;
constexpr int kMaxReconnectBackoffMs = 2'000;
// Where there are others to be asked.
constexpr std::chrono::seconds kConnectPatience{3};
// By which a message that is a detail of an error is named.
constexpr char kMessageTypePrefix[] = "type.googleapis.com/";
// How soon a cancellation is noticed meanwhile.
constexpr std::chrono::milliseconds kCancellationPoll{100};

// gRPC's own words, with the code of a quota, where a peer sends a larger message, or more metadata
// with it, than there may be; channel_test.cc hears the first of them from gRPC itself.
constexpr const char* kTooLargeWords[] = {"eceived message larger than max",
                                          "metadata size exceeds limit"};

// Whoever is a kerf's server gives a reason, and has limits for what it sends and is sent.
bool IsPeersFault(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) return false;
  return status.error_details().empty() &&
         std::any_of(std::begin(kTooLargeWords), std::end(kTooLargeWords),
                     [&status](const char* words) {
                       return absl::StrContains(status.error_message(), words);
                     });
}

bool IsPort(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port > 0 && port <= 65535;
}

bool IsUnixSocket(std::string_view server) { return server.starts_with("unix:"); }

absl::StatusOr<std::string> GrpcTarget(std::string_view server) {
  if (IsUnixSocket(server)) {
    if (server.size() > 5) return std::string(server);
  } else if (const std::size_t colon = server.rfind(':');
             colon != std::string_view::npos && colon > 0 && IsPort(server.substr(colon + 1))) {
    return Cat("dns:///", server);
  }
  return absl::InvalidArgumentError(
      Cat("'", server, "' is not a server address: write unix:PATH or HOST:PORT"));
}

// Without this, closing the last channel of the process shuts gRPC down, which joins a poller that
// may sleep for 10 s.
void KeepGrpc() {
  static const bool kept = (grpc_init(), true);
  static_cast<void>(kept);
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& server, const TlsChoice& tls) {
  grpc::ChannelArguments arguments;
  RefuseCompression(arguments);
  arguments.SetInt("grpc.http2.lookahead_bytes", kLookaheadBytes);
  arguments.SetInt("grpc.http2.bdp_probe", 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A proxy meant for web pages must not carry backups.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(limits::kAgentPing.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   static_cast<int>(limits::kAgentPingTimeout.count()));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  arguments.SetMaxReceiveMessageSize(limits::kMaxReceivedBytes);
  std::string target = *GrpcTarget(server);
  if (tls.IsFor(server) && !tls.name().empty()) arguments.SetSslTargetNameOverride(tls.name());
  const auto credentials =
      tls.IsFor(server) ? tls.credentials() : grpc::InsecureChannelCredentials();
  if (tls.token() == nullptr) return grpc::CreateCustomChannel(target, credentials, arguments);
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  std::shared_ptr<TrustedSocket> socket;
  if (IsUnixSocket(server)) {
    socket = std::make_shared<TrustedSocket>(SocketPathOf(server), tls.server_user());
    socket->Look().IgnoreError();
    target = Cat("unix:", socket->target());
  }
  interceptors.push_back(ShowToken(tls.token(), std::move(socket)));
  return grpc::experimental::CreateCustomChannelWithInterceptors(target, credentials, arguments,
                                                                 std::move(interceptors));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseServers(std::string_view text) {
  std::vector<std::string> servers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view server = text.substr(begin, end - begin);
    if (const auto target = GrpcTarget(server); !target.ok()) return target.status();
    servers.emplace_back(server);
    begin = end + 1;
  }
  return servers;
}

bool Connects(grpc::Channel& channel, const CallCancellation* cancellation) {
  const auto deadline = std::chrono::system_clock::now() + kConnectPatience;
  while (cancellation == nullptr || !cancellation->cancelled()) {
    const auto now = std::chrono::system_clock::now();
    if (now >= deadline) return false;
    const grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return true;
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) return false;
    channel.WaitForStateChange(state, std::min(deadline, now + kCancellationPoll));
  }
  return false;
}

absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> OpenChannels(
    const ServerAddress& server, const CallCancellation* cancellation) {
  KeepGrpc();
  const absl::StatusOr<std::vector<std::string>> servers = ParseServers(server.text);
  if (!servers.ok()) return servers.status();
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (const std::string& one : *servers) {
    if (server.tls.token() != nullptr && !server.tls.IsFor(one) && !IsUnixSocket(one)) {
      return absl::InvalidArgumentError(
          Cat("a token is shown over TLS or a unix socket alone, and not to ", one,
              " in the clear: add --tls-ca"));
    }
    channels.push_back(MakeChannel(one, server.tls));
  }
  if (channels.size() == 1) return channels;
  const auto first = std::find_if(channels.begin(), channels.end(), [&](const auto& channel) {
    return Connects(*channel, cancellation);
  });
  // Where nobody answers it is the last one that says why.
  std::rotate(channels.begin(), first == channels.end() ? std::prev(first) : first, channels.end());
  return channels;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const ServerAddress& server,
                                                           const CallCancellation* cancellation) {
  auto channels = OpenChannels(server, cancellation);
  if (!channels.ok()) return channels.status();
  return std::move(channels->front());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  if (IsPeersFault(status)) {
    return WrongAnswer(
        Cat("the server, or a proxy before it, does not keep to the sizes of kerf's "
            "protocol: ",
            status.error_message()));
  }
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()),
                      ToAbsl(status.error_message()));
  google::rpc::Status details;
  // What cannot be read says nothing.
  if (details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : details.details()) {
      // Other names are those of this library (client/cpp/failed_call.h), for which nobody else
      // speaks.
      if (!absl::StartsWith(detail.type_url(), kMessageTypePrefix)) continue;
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return result;
}

}  // namespace kerf::client
