#include "server/routing/worker.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/rpc/refuse_compression.h"
#include "base/strings.h"

namespace kerf::routing {
namespace {

// What a stream may have on its way to a front whose client does not read on: the answers of some
// 10 MiB of data.
constexpr int kLookaheadBytes = 64 << 10;
// Of one attempt to connect; gRPC takes it as the least pause between two that hang.
constexpr int kConnectTimeoutMs = 5'000;
constexpr int kFirstReconnectMs = 100;
constexpr int kMaxReconnectMs = 1'000;
// A worker that is named may come back at another address.
constexpr int kMinLookupPauseMs = 1'000;

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  RefuseCompression(arguments);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // A worker that is paused or cut off is noticed after both, also by calls that wait for nothing.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(limits::kFrontPing.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   static_cast<int>(limits::kFrontPingTimeout.count()));
  // A silent stream is no less cut off.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kMinLookupPauseMs);
  arguments.SetMaxReceiveMessageSize(limits::kMaxReceivedBytes);
  return arguments;
}

std::shared_ptr<grpc::Channel> ConnectInTheClear(const std::string& target) {
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), Arguments());
}

std::shared_ptr<grpc::Channel> Connect(
    const Endpoint& endpoint, const WorkerTls* tls,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  if (tls == nullptr) return ConnectInTheClear(GrpcTargetOf(endpoint));
  grpc::ChannelArguments arguments = Arguments();
  arguments.SetSslTargetNameOverride(tls->NameOf(endpoint));
  return grpc::CreateCustomChannel(GrpcTargetOf(endpoint), credentials, arguments);
}

}  // namespace

Worker::Worker(Endpoint endpoint, const CallCounts& max_calls, const WorkerTls* tls)
    : endpoint_(std::move(endpoint)),
      max_calls_(max_calls),
      tls_(endpoint_.host.empty() ? nullptr : tls) {
  const auto credentials = tls_ == nullptr ? nullptr : tls_->credentials();
  for (OpenedChannel& opened : channels_) {
    opened = {Connect(endpoint_, tls_, credentials), credentials};
  }
}

std::shared_ptr<grpc::Channel> Worker::TakeChannel() {
  return ChannelAt(next_channel_.fetch_add(1, std::memory_order_relaxed) % kConnectionsPerWorker);
}

std::shared_ptr<grpc::Channel> Worker::TakeTokenChannel() {
  if (!endpoint_.host.empty()) return tls_ == nullptr ? nullptr : TakeChannel();
  const std::lock_guard lock(mutex_);
  if (socket_ == nullptr) {
    // One of gRPC's few threads asks: whoever keeps connections waiting there keeps only his own.
    socket_ = std::make_unique<TrustedSocket>(SocketPathOf(endpoint_.address), std::nullopt,
                                              std::chrono::milliseconds(0));
  }
  if (!socket_->Look().ok()) return nullptr;
  std::shared_ptr<grpc::Channel>& channel =
      token_channels_[next_channel_.fetch_add(1, std::memory_order_relaxed) %
                      kConnectionsPerWorker];
  if (channel == nullptr) channel = ConnectInTheClear(Cat("unix:", socket_->target()));
  return channel;
}

std::shared_ptr<grpc::Channel> Worker::TakeCheckChannel() {
  return ChannelAt(kConnectionsPerWorker);
}

std::shared_ptr<grpc::Channel> Worker::ChannelAt(std::size_t index) {
  // These never change.
  if (tls_ == nullptr) return channels_[index].channel;
  const std::shared_ptr<grpc::ChannelCredentials> credentials = tls_->credentials();
  const std::lock_guard lock(mutex_);
  OpenedChannel& opened = channels_[index];
  if (opened.credentials != credentials &&
      opened.channel->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_READY) {
    old_channels_.push_back(std::move(opened.channel));
    opened = {Connect(endpoint_, tls_, credentials), credentials};
  }
  return opened.channel;
}

void Worker::DropOldChannels() {
  const std::lock_guard lock(mutex_);
  std::erase_if(old_channels_, [](const auto& channel) { return channel.use_count() == 1; });
}

CallPermit CallPermit::TryEnter(const std::shared_ptr<Worker>& worker, CallKind kind) {
  std::atomic<std::size_t>& count = worker->call_counts_[static_cast<std::size_t>(kind)];
  if (count.fetch_add(1) < worker->max_calls(kind)) return {worker, kind};
  count.fetch_sub(1);
  return {};
}

CallPermit& CallPermit::operator=(CallPermit&& other) noexcept {
  if (this == &other) return *this;
  Leave();
  worker_ = std::move(other.worker_);
  kind_ = other.kind_;
  return *this;
}

void CallPermit::Leave() {
  if (worker_ == nullptr) return;
  worker_->call_counts_[static_cast<std::size_t>(kind_)].fetch_sub(1);
  worker_.reset();
}

}  // namespace kerf::routing
