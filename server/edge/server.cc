#include "server/edge/server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/memory_budget.h"
#include "base/shared_budget.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "base/version.h"
#include "kernels/cuda/pipeline/gpu_set.h"
#include "server/audit/who_comes.h"
#include "server/edge/chunking_service.h"
#include "server/edge/epoch_pace.h"
#include "server/edge/epoch_raises.h"
#include "server/edge/index_request.h"
#include "server/edge/index_service.h"
#include "server/edge/repository_service.h"
#include "server/edge/status_service.h"
#include "server/edge/stream_registry.h"
#include "server/edge/worker_page.h"
#include "server/errors/errors.h"
#include "server/hints/hint_cache.h"
#include "server/listener/grpc_listener.h"
#include "server/logging/rated_log.h"
#include "server/net/listen_address.h"
#include "server/net/shared_memories.h"
#include "server/quota/quota_index.h"
#include "server/quota/quotas.h"
#include "server/worker/buffer_pool.h"
#include "server/worker/deadline_index.h"
#include "server/worker/known_repositories.h"
#include "server/worker/metered_index.h"

namespace kerf {
namespace {

// Half of a second-level cache: what is cut there is fingerprinted and checked there.
constexpr std::size_t kCutBufferBytes = 512 * 1024;
// Answers that wait for a client: those of about 20 MiB of data.
constexpr std::size_t kAnswerBudgetBytes = 256 * 1024;
constexpr std::size_t kMinStreamMemoryBytes = 4 << 20;
constexpr std::size_t kIndexCallThreads = 4;
// Who cancel as many calls as they may, before their front is taken for one of them.
constexpr std::size_t kClientsOfAFront = 16;
// Of the memory of all streams, beside it: for answers of the index that clients have not read.
constexpr std::size_t kUnreadAnswersPart = 8;
// For requests that the index has had for long.
constexpr std::size_t kSlowCallsPart = 32;
// For streams to take their last status; after it they are cancelled.
constexpr std::chrono::seconds kStopGrace{2};
constexpr std::chrono::milliseconds kStopPoll{5};
// Of the health service: whether all GPUs are well that kerfd was started with. There is no such
// service where it was started with none. The server itself serves without them.
constexpr const char* kGpuHealthService = "kerf.gpu";

std::vector<std::string> ServiceNames() {
  return {v1::ChunkingService::service_full_name(), v1::IndexService::service_full_name(),
          v1::RepositoryService::service_full_name(), v1::StatusService::service_full_name()};
}

// Not 0, which says nothing.
std::uint64_t DrawProcess() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device() | 1;
}

class GrpcServer final : public Server {
 public:
  GrpcServer(const ServerOptions& options, Index* index)
      : options_(options),
        work_budget_(options.memory_bytes / 2),
        input_budget_(options.memory_bytes / 4),
        buffers_(kCutBufferBytes, options.worker_threads + 2),
        registry_(options.max_streams, options.timeouts.idle_evict),
        gate_(options.access),
        shared_memories_(options.max_streams),
        quotas_(&gate_, &options_.clock),
        quota_index_(index, &quotas_, &options_.clock),
        deadline_index_(&quota_index_, options.timeouts.index, &options_.clock),
        metered_index_(&deadline_index_, &metrics_),
        known_repositories_(&deadline_index_, &options_.clock,
                            {.only_created = options.only_created_repositories}),
        epoch_pace_(&options_.clock),
        epoch_raises_(&quota_index_),
        engine_{.index = &metered_index_,
                .repositories = &known_repositories_,
                .pool = &pool_,
                .input_budget = &input_budget_,
                .work_budget = &work_budget_,
                .buffers = &buffers_,
                .limits = options.limits,
                .input_budget_bytes = options.stream_memory_bytes / 4,
                .answer_budget_bytes = kAnswerBudgetBytes,
                .max_cut_buffer_bytes = options.stream_memory_bytes / 2,
                .worker_name = options.worker_name,
                .shared_memories = TakesMemory() ? &shared_memories_ : nullptr,
                .hints = options.hints,
                .gpus = options.gpus,
                .asks_ahead = index->is_remote(),
                .rapid_totals = &rapid_totals_,
                .metrics = &metrics_},
        chunking_({.engine = &engine_,
                   .timeouts = &options_.timeouts,
                   .clock = &options_.clock,
                   .registry = &registry_,
                   .gate = &gate_,
                   .quotas = &quotas_,
                   .audit = options_.audit}),
        index_calls_({.max_calls = options.index_calls.max_calls,
                      .timeout = options.index_calls.timeout,
                      .max_unread_bytes = options.memory_bytes / kUnreadAnswersPart,
                      .max_slow_bytes = options.memory_bytes / kSlowCallsPart},
                     &index_pool_, &options_.clock),
        asked_{.index = &quota_index_,
               .pool = &index_pool_,
               .gate = &gate_,
               .audit = options_.audit,
               .pace = &epoch_pace_,
               .raises = &epoch_raises_,
               .quotas = &quotas_,
               .max_calls = options.index_calls.max_calls,
               .repositories = &known_repositories_},
        index_service_(asked_, &index_calls_),
        repository_service_(asked_, &index_calls_),
        status_service_(
            &gate_, options.audit, index, options.gpus,
            [this](v1::WorkerCounts& counts) { Count(counts); },
            [this](v1::IndexState& state) { ShowIndex(state); }),
        index_(*index),
        pool_(options.worker_threads),
        index_pool_(kIndexCallThreads) {}

  ~GrpcServer() override { Stop(); }

  absl::Status Listen();
  const std::vector<std::string>& addresses() const override { return listener_->addresses(); }
  void BeginDrain(std::chrono::milliseconds drain) override;
  void Stop() override;
  std::size_t stream_count() const override { return registry_.stream_count(); }
  std::size_t used_memory_bytes() const override {
    return work_budget_.used_bytes() + input_budget_.total().used_bytes();
  }
  std::size_t peak_memory_bytes() const override {
    return work_budget_.peak_bytes() + input_budget_.total().peak_bytes();
  }
  const RapidTotals& rapid_totals() const override { return rapid_totals_; }
  void AddMetrics(metrics::Page& page) const override;
  std::size_t CheckTimeouts() override {
    const bool has_lost_gpu = options_.gpus != nullptr && options_.gpus->lost_count() > 0;
    // Who watches it is told each time.
    if (has_lost_gpu && !is_gpu_loss_told_.exchange(true)) SetGpuHealth(false);
    SetIndexHealth();
    const TimePoint now = options_.clock();
    registry_.ResumePaced();
    std::size_t ended_count =
        deadline_index_.CheckTime(now) + registry_.CheckTime(now) + index_calls_.CheckTime(now);
    if (work_budget_.TakeShortage()) {
      ended_count += registry_.FreeMemory(now, work_budget_.limit_bytes());
    }
    return ended_count;
  }

 private:
  // Whoever shares memory is at a unix socket, at which nobody asks who he is.
  bool TakesMemory() const;
  void Watch();
  void Count(v1::WorkerCounts& counts) const;
  void ShowIndex(v1::IndexState& state) const;
  // Whoever has another server to go to should, while this one has no index.
  void SetIndexHealth();
  void SetGpuHealth(bool is_well) { listener_->SetServing(kGpuHealthService, is_well); }

  const ServerOptions options_;
  MemoryBudget work_budget_;
  SharedBudget input_budget_;
  BufferPool buffers_;
  StreamRegistry registry_;
  const access::Gate gate_;
  SharedMemories shared_memories_;
  Quotas quotas_;
  const TimePoint started_at_ = std::chrono::steady_clock::now();
  const std::uint64_t process_ = DrawProcess();
  RapidTotals rapid_totals_;
  StreamMetrics metrics_;
  // What streams ask: metered_index_, which asks deadline_index_, which asks this one.
  QuotaIndex quota_index_;
  DeadlineIndex deadline_index_;
  MeteredIndex metered_index_;
  KnownRepositories known_repositories_;
  EpochPace epoch_pace_;
  EpochRaises epoch_raises_;
  const EngineContext engine_;
  ChunkingService chunking_;
  IndexCalls index_calls_;
  const AskedIndex asked_;
  IndexService index_service_;
  RepositoryService repository_service_;
  StatusService status_service_;
  const Index& index_;
  // Behind what its last tasks use: the ends of streams.
  ThreadPool pool_;
  // Calls of the Index service may keep the threads in which they ask: not those that cut.
  ThreadPool index_pool_;
  std::unique_ptr<GrpcListener> listener_;
  std::atomic<bool> is_gpu_loss_told_{false};

  std::mutex health_mutex_;
  bool has_index_ = true;
  bool is_draining_ = false;

  std::mutex watch_mutex_;
  std::condition_variable watch_wakeup_;
  bool stopping_ = false;
  std::thread watchdog_;
};

bool GrpcServer::TakesMemory() const {
  if (!gate_.is_open()) return false;
  return std::any_of(options_.listen.begin(), options_.listen.end(), [](const std::string& text) {
    const auto address = ParseListenAddress(text);
    return address.ok() && address->is_unix;
  });
}

absl::Status GrpcServer::Listen() {
  TransportLimits limits{.max_message_bytes = options_.limits.max_message_bytes,
                         .memory_bytes = options_.memory_bytes,
                         .window_bytes = options_.memory_bytes / 2,
                         .max_streams = options_.max_streams,
                         .max_connections = options_.max_connections,
                         .clients_per_address = options_.is_behind_fronts ? kClientsOfAFront : 1,
                         .write_stall = options_.timeouts.write_stall,
                         .tls = options_.tls,
                         .shared_memories = TakesMemory() ? &shared_memories_ : nullptr};
  audit::AskWhoComes(&gate_, options_.audit, &limits);
  KERF_ASSIGN_OR_RETURN(listener_, GrpcListener::Start(
                                       options_.listen, limits,
                                       [this](grpc::ServerBuilder& builder) {
                                         builder.RegisterService(&chunking_);
                                         builder.RegisterService(&index_service_);
                                         builder.RegisterService(&repository_service_);
                                         builder.RegisterService(&status_service_);
                                       },
                                       ServiceNames()));
  if (options_.gpus != nullptr) SetGpuHealth(true);
  SetIndexHealth();
  if (options_.watchdog_interval.count() > 0) watchdog_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

void GrpcServer::AddMetrics(metrics::Page& page) const {
  page.Add(metrics::kStreams, registry_.stream_count());
  page.Add(metrics::kMaxStreams, registry_.max_streams());
  page.Add(metrics::kStreamsStarted, registry_.started_count());
  registry_.refused().AddTo(page, metrics::kStreamsRefused);
  registry_.ended().AddTo(page, metrics::kStreamsEnded, "OK");
  listener_->AddMetrics(page);
  gate_.AddMetrics(page);
  quotas_.AddMetrics(page);
  AddStreams(page, metrics_);
  AddStalls(page, registry_.stalls());
  AddBudgets(page, input_budget_.total(), work_budget_);
  page.Add(metrics::kIndexCalls, index_calls_.waiting_count());
  AddIndex(page, index_);
  AddRapid(page, rapid_totals_);
  if (options_.hints != nullptr) AddHintCache(page, options_.hints->counters());
  if (options_.gpus != nullptr) AddGpus(page, *options_.gpus);
}

void GrpcServer::Count(v1::WorkerCounts& counts) const {
  counts.set_worker(options_.worker_name);
  counts.set_version(std::string(kVersion));
  counts.set_process(process_);
  const auto uptime = std::chrono::steady_clock::now() - started_at_;
  counts.set_uptime_ms(static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(uptime).count()));
  counts.set_draining(registry_.is_draining());
  counts.set_stream_count(registry_.stream_count());
  counts.set_max_stream_count(registry_.max_streams());
  counts.set_stalled_stream_count(registry_.stalls().stalled_count());
  counts.set_ingest_byte_count(metrics_.ingest_bytes.value());
  counts.set_new_chunk_count(metrics_.verdicts[0].chunks.value());
  counts.set_duplicate_chunk_count(metrics_.verdicts[1].chunks.value());
  counts.set_unverified_chunk_count(metrics_.verdicts[2].chunks.value());
  counts.set_new_byte_count(metrics_.verdicts[0].bytes.value());
  counts.set_duplicate_byte_count(metrics_.verdicts[1].bytes.value());
  counts.set_unverified_byte_count(metrics_.verdicts[2].bytes.value());
  counts.set_hints_accepted_count(rapid_totals_.hints_accepted.load());
  counts.set_hints_rejected_count(rapid_totals_.hints_rejected.load());
  counts.set_hints_absent_count(rapid_totals_.hints_absent.load());
  counts.set_hints_late_count(rapid_totals_.hints_late.load());
  counts.set_pending_byte_count(input_budget_.total().used_bytes());
  counts.set_memory_byte_count(used_memory_bytes());
  counts.set_max_memory_byte_count(input_budget_.total().limit_bytes() +
                                   work_budget_.limit_bytes());
}

void GrpcServer::ShowIndex(v1::IndexState& state) const {
  const IndexHealth health = index_.health();
  state.set_identity(health.identity);
  // Whoever drains has no use for anybody, whatever its index is worth.
  if (!health.status.ok() && !registry_.is_draining()) {
    state.set_trouble(std::string(MessageOf(health.status)));
  }
}

void GrpcServer::SetIndexHealth() {
  const bool has_index = index_.health().status.ok();
  const std::lock_guard lock(health_mutex_);
  if (std::exchange(has_index_, has_index) != has_index && !is_draining_) {
    listener_->SetServing(has_index);
  }
}

void GrpcServer::Watch() {
  std::unique_lock lock(watch_mutex_);
  while (!watch_wakeup_.wait_for(lock, options_.watchdog_interval, [this] { return stopping_; })) {
    lock.unlock();
    CheckTimeouts();
    LogLeftOut();
    lock.lock();
  }
}

void GrpcServer::BeginDrain(std::chrono::milliseconds drain) {
  {
    const std::lock_guard lock(health_mutex_);
    is_draining_ = true;
    listener_->SetServing(false);
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
  if (listener_ == nullptr) return;
  BeginDrain(std::chrono::milliseconds(0));
  registry_.FailAll(MakeError(Reason::kDraining, "the server has stopped"));
  const auto deadline = std::chrono::steady_clock::now() + kStopGrace;
  while (registry_.stream_count() + index_calls_.waiting_count() > 0 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kStopPoll);
  }
  index_calls_.FailAll(MakeError(Reason::kDraining, "the server has stopped"));
  listener_->Stop();
  // What streams that are gone have asked holds nothing any more.
  deadline_index_.Close();
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

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Index* index) {
  KERF_RETURN_IF_ERROR(CheckOptions(options));
  ServerOptions effective = options;
  if (effective.worker_threads == 0) {
    effective.worker_threads = std::max(1u, std::thread::hardware_concurrency());
  }
  auto server = std::make_unique<GrpcServer>(effective, index);
  KERF_RETURN_IF_ERROR(server->Listen());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace kerf
