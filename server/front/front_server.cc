#include "server/front/front_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "kerf/v1/index.grpc.pb.h"
#include "kerf/v1/repository.grpc.pb.h"
#include "kerf/v1/routing.grpc.pb.h"
#include "kerf/v1/status.grpc.pb.h"
#include "server/audit/call_record.h"
#include "server/audit/who_comes.h"
#include "server/errors/errors.h"
#include "server/front/forwarded_call.h"
#include "server/front/forwarded_calls.h"
#include "server/front/routing_service.h"
#include "server/listener/client_peer.h"
#include "server/listener/grpc_listener.h"
#include "server/logging/logging.h"
#include "server/logging/rated_log.h"
#include "server/net/refused_call.h"
#include "server/net/request_id_of.h"
#include "server/net/shard_key.h"

namespace kerf {
namespace {

using routing::CallKind;

// A worker that is sent too much ends the connection, which is that of all clients. Its door lets
// 7 KiB through, ours adds a client's address, and the front what it has to say itself.
constexpr std::size_t kMaxMetadataBytes = 7 * kKiB + 256;
// For workers that do not answer: the front then serves without having heard of them.
constexpr std::chrono::seconds kFirstChecksPatience{3};
// For calls to take their last status; after it they are cancelled.
constexpr std::chrono::seconds kStopGrace{2};
constexpr std::chrono::milliseconds kStopPoll{5};
// Of a message, beside its data: one whose data is just a share is not larger than it.
constexpr std::size_t kFramingBytes = 1024;

// Its own, and those that it passes on: clients take it for kerfd itself.
std::vector<std::string> ServiceNames() {
  return {v1::RoutingService::service_full_name(), v1::ChunkingService::service_full_name(),
          v1::IndexService::service_full_name(), v1::RepositoryService::service_full_name(),
          v1::StatusService::service_full_name()};
}

// Of a connection, and not of a worker: health, reflection. What of it this server has is not
// asked for here.
bool IsOfGrpc(std::string_view method) { return method.starts_with("/grpc."); }

// As HTTP/2 counts it.
std::size_t MetadataBytes(const grpc::GenericCallbackServerContext& context) {
  constexpr std::size_t kOverheadBytes = 32;
  std::size_t bytes = 0;
  for (const auto& [key, value] : context.client_metadata()) {
    bytes += key.size() + value.size() + kOverheadBytes;
  }
  return bytes;
}

std::optional<std::string_view> MetadataOf(const grpc::GenericCallbackServerContext& context,
                                           const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return std::nullopt;
  return std::string_view(found->second.data(), found->second.size());
}

routing::Avoid AvoidedBy(const grpc::GenericCallbackServerContext& context) {
  routing::Avoid avoid;
  const auto named = context.client_metadata().equal_range(routing::kAvoidMetadata);
  for (auto at = named.first; at != named.second && avoid.size() < routing::kMaxAvoided; ++at) {
    avoid.emplace_back(at->second.data(), at->second.size());
  }
  return avoid;
}

class GrpcFrontServer final : public FrontServer, private grpc::CallbackGenericService {
 public:
  explicit GrpcFrontServer(const FrontOptions& options)
      : options_(options),
        requests_(options.memory_bytes / 2 / options.max_streams + kFramingBytes,
                  options.memory_bytes / 8),
        answers_(options.memory_bytes / 16 / options.max_streams, options.memory_bytes / 16),
        gate_(options.access),
        calls_({.max_calls = {options.max_streams, options.max_calls},
                .idle_evict = options.idle_evict}),
        workers_(WithLiveness(options.workers)),
        routing_service_(&gate_, options.audit, &workers_, &metrics_, &options_.clock),
        call_options_{.write_stall = options.write_stall,
                      .stall_warn = options.stall_warn,
                      .clock = &options_.clock,
                      .gate = &gate_,
                      .is_tcp_private = options_.tls != nullptr,
                      .registry = &calls_,
                      .workers = &workers_,
                      .metrics = &metrics_,
                      .requests = &requests_,
                      .answers = &answers_} {}

  ~GrpcFrontServer() override { Stop(); }

  absl::Status Listen();
  const std::vector<std::string>& addresses() const override { return listener_->addresses(); }
  void BeginDrain(std::chrono::milliseconds drain) override;
  void Stop() override;
  std::size_t stream_count() const override { return calls_.count(CallKind::kUpload); }
  std::size_t call_count() const override { return calls_.count(CallKind::kOther); }
  std::size_t used_memory_bytes() const override {
    return requests_.used_bytes() + answers_.used_bytes();
  }
  std::size_t peak_memory_bytes() const override {
    return requests_.peak_bytes() + answers_.peak_bytes();
  }
  std::uint64_t idle_evicted_count() const override { return calls_.idle_evicted_count(); }
  std::uint64_t ended_for_memory_count() const override { return calls_.ended_for_memory_count(); }
  std::size_t live_worker_count() const override { return workers_.live_count(); }
  void AddMetrics(metrics::Page& page) const override;
  std::size_t CheckTimeouts() override {
    const TimePoint now = options_.clock();
    return calls_.CheckTime(now) + routing_service_.CheckTime(now);
  }

 private:
  routing::WorkerSetOptions WithLiveness(routing::WorkerSetOptions options) {
    options.on_liveness = [this](bool has_live) { OnLiveness(has_live); };
    options.on_unused = [this](const std::string& name, const std::string& why) {
      OnUnused(name, why);
    };
    return options;
  }
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
  grpc::ServerGenericBidiReactor* Refuse(const grpc::GenericCallbackServerContext& context,
                                         const absl::Status& status,
                                         const access::Identity& caller = {});
  // If the worker that has the key is full, an idle upload makes room.
  absl::StatusOr<routing::Route> PickWorker(std::string_view shard_key, CallKind kind,
                                            const routing::Avoid& avoid, TimePoint now);
  void OnLiveness(bool has_live);
  // Its uploads wait in vain, and would go on elsewhere.
  void OnUnused(const std::string& name, const std::string& why);
  void SetHealthLocked();
  void Watch();

  const FrontOptions options_;
  FrontMetrics metrics_;
  MessageMemory requests_;
  MessageMemory answers_;
  const access::Gate gate_;
  ForwardedCalls calls_;

  std::mutex mutex_;
  std::condition_variable watch_wakeup_;
  bool has_live_ = false;
  bool is_draining_ = false;
  bool is_stopping_ = false;
  std::unique_ptr<GrpcListener> listener_;

  // Behind what its thread tells.
  routing::WorkerSet workers_;
  RoutingService routing_service_;
  const ForwardedCall::Options call_options_;
  std::thread watchdog_;
};

absl::Status GrpcFrontServer::Listen() {
  TransportLimits limits{.max_message_bytes = options_.max_message_bytes,
                         // What surrounds messages in gRPC's buffers counts there, too.
                         .memory_bytes = 2 * options_.memory_bytes,
                         .window_bytes = options_.memory_bytes / 4,
                         .max_streams = options_.max_streams,
                         .max_connections = options_.max_connections,
                         .write_stall = options_.write_stall,
                         .tls = options_.tls};
  audit::AskWhoComes(&gate_, options_.audit, &limits);
  workers_.WaitForFirstChecks(kFirstChecksPatience);
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<GrpcListener> listener,
                        GrpcListener::Start(
                            options_.listen, limits,
                            [this](grpc::ServerBuilder& builder) {
                              builder.RegisterService(&routing_service_);
                              builder.RegisterCallbackGenericService(this);
                            },
                            ServiceNames()));
  {
    const std::lock_guard lock(mutex_);
    listener_ = std::move(listener);
    // Whoever tells of it may be on his way yet.
    has_live_ = has_live_ || workers_.live_count() > 0;
    SetHealthLocked();
  }
  if (options_.watchdog_interval.count() > 0) watchdog_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

grpc::ServerGenericBidiReactor* GrpcFrontServer::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  // UNIMPLEMENTED, by which a client knows that it is to ask for an earlier version, whoever it is.
  if (IsOfGrpc(context->method())) return CallbackGenericService::CreateReactor(context);
  if (context->client_metadata().count(routing::kFrontMetadata) > 0) {
    return Refuse(
        *context,
        MakeError(
            Reason::kFrontBehindFront,
            "this is a front, and the call comes from one: --workers of a front names workers "
            "(kerfd --role worker or all), and no front, nor the front itself"));
  }
  if (MetadataBytes(*context) > kMaxMetadataBytes) {
    return Refuse(*context,
                  MakeError(Reason::kMessageTooLarge, Cat("the metadata of the call exceeds ",
                                                          FormatByteSize(kMaxMetadataBytes))));
  }
  access::Identity proven;
  absl::StatusOr<access::Identity> caller = gate_.Admit(*context, &proven);
  if (!caller.ok()) return Refuse(*context, caller.status(), proven);
  const TimePoint now = options_.clock();
  const CallKind kind = ForwardedCall::KindOf(*context);
  // Nobody has an empty name: who asks for it is not to meet just any worker.
  const auto worker_name = MetadataOf(*context, routing::kWorkerMetadata);
  absl::StatusOr<routing::Route> route =
      worker_name.has_value() ? workers_.PickNamed(*worker_name, kind)
                              : PickWorker(MetadataOf(*context, kShardKeyMetadata).value_or(""),
                                           kind, AvoidedBy(*context), now);
  if (!route.ok()) return Refuse(*context, route.status(), proven);
  if (const absl::Status status = calls_.Enter(kind, now); !status.ok()) {
    return Refuse(*context, status, proven);
  }
  metrics_.started.Add();
  return ForwardedCall::Start(call_options_, context, *std::move(caller), *std::move(route));
}

grpc::ServerGenericBidiReactor* GrpcFrontServer::Refuse(
    const grpc::GenericCallbackServerContext& context, const absl::Status& status,
    const access::Identity& caller) {
  metrics_.refused.Count(status);
  audit::CallRecord::Refused(options_.audit,
                             // Without the slash that all begin with.
                             {.method = context.method().substr(context.method().starts_with('/')),
                              .peer = PeerOf(context),
                              .request_id = RequestIdOf(context),
                              .identity = caller.name,
                              .proof = std::string(NameOf(caller.proof))},
                             status);
  return new RefusedCall(status, RequestIdOf(context));
}

absl::StatusOr<routing::Route> GrpcFrontServer::PickWorker(std::string_view shard_key,
                                                           CallKind kind,
                                                           const routing::Avoid& avoid,
                                                           TimePoint now) {
  absl::StatusOr<routing::Route> route = workers_.Pick(shard_key, kind, avoid);
  if (route.ok() || kind != CallKind::kUpload || !absl::IsResourceExhausted(route.status())) {
    return route;
  }
  // One of its uploads may be idle.
  const absl::StatusOr<routing::WorkerPlace> full = workers_.Locate(shard_key, avoid);
  if (full.ok() && calls_.EvictIdle(full->name, now)) return workers_.Pick(shard_key, kind, avoid);
  return route;
}

void GrpcFrontServer::AddMetrics(metrics::Page& page) const {
  listener_->AddMetrics(page);
  gate_.AddMetrics(page);
  page.Add(metrics::kFrontCalls, stream_count() + call_count());
  page.Add(metrics::kFrontMaxCalls, options_.max_streams + options_.max_calls);
  page.Add(metrics::kFrontCallsStarted, metrics_.started.value());
  metrics_.refused.AddTo(page, metrics::kFrontCallsRefused);
  metrics_.ended.AddTo(page, metrics::kFrontCallsEnded, "PASSED_ON");
  page.Add(metrics::kFrontForwardedBytes, metrics_.to_worker_bytes.value(), {"to_worker"});
  page.Add(metrics::kFrontForwardedBytes, metrics_.to_client_bytes.value(), {"to_client"});
  const std::size_t live_count = workers_.live_count();
  page.Add(metrics::kFrontWorkers, live_count, {"live"});
  page.Add(metrics::kFrontWorkers, std::max(workers_.known_count(), live_count) - live_count,
           {"lost"});
  page.Add(metrics::kFrontLocates, metrics_.locates.value());
  for (const WaitPlace place : kFrontWaitPlaces) {
    page.Add(metrics::kFrontStalls, metrics_.stalls.begun_count(place), {NameOf(place)});
  }
  for (const WaitPlace place : kFrontWaitPlaces) {
    page.Add(metrics::kFrontStalledCalls, metrics_.stalls.stalled_count(place), {NameOf(place)});
  }
}

void GrpcFrontServer::OnLiveness(bool has_live) {
  const std::lock_guard lock(mutex_);
  has_live_ = has_live;
  SetHealthLocked();
}

void GrpcFrontServer::OnUnused(const std::string& name, const std::string& why) {
  const std::size_t count = calls_.FailUploadsTo(
      name, MakeError(Reason::kIndexUnavailable,
                      Cat("worker ", name, " is without the index that others have: ", why,
                          "; what was committed is kept: go on there"),
                      {{"worker", name}}));
  Log(LogLevel::kWarning,
      Cat("ended ", count, " uploads to worker ", name, ", which go on elsewhere: ", why));
}

void GrpcFrontServer::SetHealthLocked() {
  if (listener_ != nullptr && !is_stopping_) listener_->SetServing(has_live_ && !is_draining_);
}

void GrpcFrontServer::Watch() {
  std::unique_lock lock(mutex_);
  while (
      !watch_wakeup_.wait_for(lock, options_.watchdog_interval, [this] { return is_stopping_; })) {
    lock.unlock();
    CheckTimeouts();
    LogLeftOut();
    lock.lock();
  }
}

void GrpcFrontServer::BeginDrain(std::chrono::milliseconds drain) {
  {
    const std::lock_guard lock(mutex_);
    is_draining_ = true;
    SetHealthLocked();
  }
  calls_.Drain(drain);
}

void GrpcFrontServer::Stop() {
  if (listener_ == nullptr) return;
  BeginDrain(std::chrono::milliseconds(0));
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_stopping_, true)) return;
  }
  watch_wakeup_.notify_all();
  if (watchdog_.joinable()) watchdog_.join();
  calls_.FailAll(MakeError(Reason::kDraining, "the front has stopped"));
  const auto deadline = std::chrono::steady_clock::now() + kStopGrace;
  while (stream_count() + call_count() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kStopPoll);
  }
  listener_->Stop();
}

}  // namespace

absl::StatusOr<std::unique_ptr<FrontServer>> FrontServer::Start(const FrontOptions& options) {
  if (options.listen.empty()) return absl::InvalidArgumentError("no address to listen on");
  if (options.workers.workers.empty()) return absl::InvalidArgumentError("a front without workers");
  if (options.memory_bytes < kMinMemoryBytes) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat("a front needs at least ", FormatByteSize(kMinMemoryBytes), " of memory, not ",
                   FormatByteSize(options.memory_bytes))));
  }
  auto front = std::make_unique<GrpcFrontServer>(options);
  KERF_RETURN_IF_ERROR(front->Listen());
  return std::unique_ptr<FrontServer>(std::move(front));
}

}  // namespace kerf
