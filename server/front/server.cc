#include "server/front/server.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/front/chunking_service.h"
#include "server/front/index_service.h"
#include "server/front/listen_address.h"
#include "server/front/status_service.h"
#include "server/worker/memory_budget.h"
#include "server/worker/thread_pool.h"

namespace kerf {
namespace {

// A stream's window: what gRPC itself buffers of it while it is not read. All windows together fit
// into half the memory, so that gRPC never has to cancel a stream of its own choice.
constexpr std::uint64_t kMinWindowBytes = 64 * kKiB;
constexpr std::uint64_t kMaxWindowBytes = 4 * kMiB;
// gRPC answers larger messages itself, without kerf's details; the margin lets kerf answer those
// that are a little too large.
constexpr int kMessageMarginBytes = 64 * 1024;
// Half of a second-level cache: what is cut there is fingerprinted and checked there.
constexpr std::size_t kCutBufferBytes = 512 * 1024;
// Answers that wait for a client: those of about 20 MiB of data.
constexpr std::size_t kAnswerBudgetBytes = 256 * 1024;
constexpr std::size_t kMinStreamMemoryBytes = 4 << 20;
// Calls of one connection beside max_streams of Upload: calls of the index, and uploads on their
// way to being refused. A client with more waits, and then learns that they are refused; without a
// limit a burst of them would hold some 15 KiB each at once.
constexpr std::size_t kOtherCalls = 256;
constexpr std::size_t kIndexCallThreads = 4;
constexpr std::chrono::seconds kKeepalive{60};
constexpr std::chrono::seconds kKeepaliveTimeout{20};
constexpr std::chrono::seconds kMinPingInterval{5};
// For streams to take their last status; after it they are cancelled.
constexpr std::chrono::seconds kStopGrace{2};
constexpr std::chrono::milliseconds kStopPoll{5};
// Of the health service: whether all GPUs are well that kerfd was started with. There is no such
// service where it was started with none. The server itself serves without them.
constexpr const char* kGpuHealthService = "kerf.gpu";
// For clients to close their connections. An idle client may not look at its connection for
// seconds.
constexpr std::chrono::milliseconds kCloseGrace{200};

class GrpcServer final : public Server {
 public:
  GrpcServer(const ServerOptions& options, Index* index, AsyncIndex* stream_index)
      : options_(options),
        work_budget_(options.memory_bytes / 2),
        input_budget_(options.memory_bytes / 4),
        buffers_(kCutBufferBytes, options.worker_threads + 2),
        registry_(options.max_streams, options.timeouts.idle_evict),
        inline_index_(index),
        engine_{.index = stream_index != nullptr ? stream_index : &inline_index_,
                .pool = &pool_,
                .input_budget = &input_budget_,
                .work_budget = &work_budget_,
                .buffers = &buffers_,
                .limits = options.limits,
                .input_budget_bytes = options.stream_memory_bytes / 4,
                .answer_budget_bytes = kAnswerBudgetBytes,
                .max_cut_buffer_bytes = options.stream_memory_bytes / 2,
                .worker_name = options.worker_name,
                .hints = options.hints,
                .gpus = options.gpus,
                .asks_ahead = stream_index != nullptr,
                .rapid_totals = &rapid_totals_},
        chunking_({.engine = &engine_,
                   .timeouts = &options_.timeouts,
                   .clock = &options_.clock,
                   .registry = &registry_}),
        index_calls_(options.index_calls, &index_pool_, &options_.clock),
        index_service_(index, &index_calls_),
        status_service_(options.gpus),
        pool_(options.worker_threads),
        index_pool_(kIndexCallThreads) {}

  ~GrpcServer() override { Stop(); }

  absl::Status Listen();
  const std::vector<std::string>& addresses() const override { return addresses_; }
  void BeginDrain(std::chrono::milliseconds drain) override;
  void Stop() override;
  std::size_t stream_count() const override { return registry_.stream_count(); }
  std::size_t used_memory_bytes() const override {
    return work_budget_.used_bytes() + input_budget_.used_bytes();
  }
  std::size_t peak_memory_bytes() const override {
    return work_budget_.peak_bytes() + input_budget_.peak_bytes();
  }
  const RapidTotals& rapid_totals() const override { return rapid_totals_; }
  std::size_t CheckTimeouts() override {
    const bool has_lost_gpu = options_.gpus != nullptr && options_.gpus->lost_count() > 0;
    // Who watches it is told each time.
    if (has_lost_gpu && !is_gpu_loss_told_.exchange(true)) SetGpuHealth(false);
    const TimePoint now = options_.clock();
    std::size_t ended_count = registry_.CheckTime(now) + index_calls_.CheckTime(now);
    if (work_budget_.TakeShortage()) {
      ended_count += registry_.FreeMemory(now, work_budget_.limit_bytes());
    }
    return ended_count;
  }

 private:
  void Watch();
  void SetGpuHealth(bool is_well) {
    if (auto* health = server_->GetHealthCheckService(); health != nullptr) {
      health->SetServingStatus(kGpuHealthService, is_well);
    }
  }

  const ServerOptions options_;
  MemoryBudget work_budget_;
  MemoryBudget input_budget_;
  BufferPool buffers_;
  StreamRegistry registry_;
  InlineIndex inline_index_;
  RapidTotals rapid_totals_;
  const EngineContext engine_;
  ChunkingService chunking_;
  IndexCalls index_calls_;
  IndexService index_service_;
  StatusService status_service_;
  // Behind what its last tasks use: the ends of streams.
  ThreadPool pool_;
  // Calls of the Index service may wait for the index: not in the threads that cut.
  ThreadPool index_pool_;
  std::vector<std::string> addresses_;
  std::vector<std::string> socket_paths_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> is_gpu_loss_told_{false};

  std::mutex watch_mutex_;
  std::condition_variable watch_wakeup_;
  bool stopping_ = false;
  std::thread watchdog_;
};

void Configure(const ServerOptions& options, grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("kerfd");
  quota.Resize(options.memory_bytes);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.limits.max_message_bytes) +
                                   kMessageMarginBytes);
  const std::uint64_t window_bytes =
      std::clamp(options.memory_bytes / 2 / options.max_streams, kMinWindowBytes, kMaxWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, static_cast<int>(window_bytes));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(options.max_streams + kOtherCalls));
  // Two servers on one port would share its clients without a word.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  const auto milliseconds = [](std::chrono::milliseconds duration) {
    return static_cast<int>(duration.count());
  };
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds(kKeepalive));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, milliseconds(kKeepaliveTimeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             milliseconds(kMinPingInterval));
}

// gRPC tears its threads down when its last object goes, and then may wait 10 s for a poller of its
// own that nothing wakes (1.51). One reference that is never given back spares every stop that.
void KeepGrpc() {
  static const bool kept = (grpc_init(), true);
  static_cast<void>(kept);
}

absl::Status GrpcServer::Listen() {
  KeepGrpc();
  std::vector<ListenAddress> parsed;
  for (const std::string& text : options_.listen) {
    KERF_ASSIGN_OR_RETURN(ListenAddress address, ParseListenAddress(text));
    if (address.is_unix) KERF_RETURN_IF_ERROR(PrepareUnixSocket(address.path));
    parsed.push_back(std::move(address));
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(options_, builder);
  std::vector<int> ports(parsed.size(), 0);
  for (std::size_t index = 0; index < parsed.size(); ++index) {
    builder.AddListeningPort(parsed[index].target, grpc::InsecureServerCredentials(),
                             &ports[index]);
  }
  builder.RegisterService(&chunking_);
  builder.RegisterService(&index_service_);
  builder.RegisterService(&status_service_);
  server_ = builder.BuildAndStart();
  for (std::size_t index = 0; index < parsed.size(); ++index) {
    // gRPC gives 1 for a unix socket and 0 for what it could not bind.
    if (server_ == nullptr && ports[index] == 0) {
      return absl::FailedPreconditionError(
          ToAbsl(Cat("cannot listen on ", parsed[index].target,
                     ": the address is in use, not of this machine, or not permitted")));
    }
    const std::string& target = parsed[index].target;
    addresses_.push_back(parsed[index].is_unix
                             ? target
                             : Cat(target.substr(0, target.rfind(':') + 1), ports[index]));
    if (parsed[index].is_unix) socket_paths_.push_back(parsed[index].path);
  }
  if (server_ == nullptr) return absl::InternalError("gRPC did not start, and does not say why");
  if (options_.gpus != nullptr) SetGpuHealth(true);
  if (options_.watchdog_interval.count() > 0) watchdog_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

void GrpcServer::Watch() {
  std::unique_lock lock(watch_mutex_);
  while (!watch_wakeup_.wait_for(lock, options_.watchdog_interval, [this] { return stopping_; })) {
    lock.unlock();
    CheckTimeouts();
    lock.lock();
  }
}

void GrpcServer::BeginDrain(std::chrono::milliseconds drain) {
  if (auto* health = server_->GetHealthCheckService(); health != nullptr) {
    health->SetServingStatus(false);
  }
  registry_.Drain(drain);
}

void GrpcServer::Stop() {
  {
    const std::lock_guard lock(watch_mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  watch_wakeup_.notify_all();
  if (watchdog_.joinable()) watchdog_.join();
  if (server_ == nullptr) return;
  BeginDrain(std::chrono::milliseconds(0));
  registry_.FailAll(MakeError(Reason::kDraining, "the server has stopped"));
  const auto deadline = std::chrono::steady_clock::now() + kStopGrace;
  while (registry_.stream_count() + index_calls_.waiting_count() > 0 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kStopPoll);
  }
  index_calls_.FailAll(MakeError(Reason::kDraining, "the server has stopped"));
  server_->Shutdown(std::chrono::system_clock::now() + kCloseGrace);
  server_->Wait();
  for (const std::string& path : socket_paths_) unlink(path.c_str());
}

}  // namespace

absl::Status Server::CheckOptions(const ServerOptions& options) {
  if (options.listen.empty()) return absl::InvalidArgumentError("no address to listen on");
  if (options.stream_memory_bytes < kMinStreamMemoryBytes) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat("a stream needs at least ", FormatByteSize(kMinStreamMemoryBytes), ", not ",
                   FormatByteSize(options.stream_memory_bytes))));
  }
  if (options.memory_bytes / 2 < options.stream_memory_bytes) {
    return absl::InvalidArgumentError(ToAbsl(Cat(
        "the memory of all streams, ", FormatByteSize(options.memory_bytes),
        ", must be at least twice that of one, ", FormatByteSize(options.stream_memory_bytes))));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Index* index,
                                                      AsyncIndex* stream_index) {
  KERF_RETURN_IF_ERROR(CheckOptions(options));
  ServerOptions effective = options;
  if (effective.worker_threads == 0) {
    effective.worker_threads = std::max(1u, std::thread::hardware_concurrency());
  }
  auto server = std::make_unique<GrpcServer>(effective, index, stream_index);
  KERF_RETURN_IF_ERROR(server->Listen());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace kerf
