#include "server/door/door.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "server/metrics/catalog.h"

namespace kerf::door {
namespace {

// A thread moves 2 GB/s and more, which is what some processors cut.
constexpr unsigned kProcessorsPerLoop = 4;
constexpr unsigned kMinLoops = 2;
constexpr unsigned kMaxLoops = 8;
// Of the memory, for each call that is expected: its first windows in both directions, and as many
// again three times over, for windows that grow and for calls that nobody expected.
constexpr std::size_t kWindowsPerCall = 8;
// Windows grow into this part of the memory: what is left is there for calls that begin.
constexpr std::size_t kGrowthPart = 2;

unsigned LoopCount() {
  return std::clamp(std::thread::hardware_concurrency() / kProcessorsPerLoop, kMinLoops, kMaxLoops);
}

UniqueFd Connect(const std::function<bool(UniqueFd)>& serve) {
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return UniqueFd();
  }
  UniqueFd ours(ends[0]);
  return serve(UniqueFd(ends[1])) ? std::move(ours) : UniqueFd();
}

}  // namespace

Door::Door(const DoorOptions& options, std::vector<UniqueFd> listeners,
           std::function<bool(UniqueFd)> serve, const Headers& headers)
    : options_(options),
      listeners_(std::move(listeners)),
      serve_(std::move(serve)),
      memory_(options.memory_bytes),
      windows_(options.memory_bytes / kGrowthPart),
      cancels_({.burst = options.cancel_burst, .per_second = options.cancels_per_second}) {
  context_.options = &options_;
  context_.first_window_bytes = std::clamp<std::size_t>(
      options.memory_bytes / kWindowsPerCall / std::max<std::size_t>(1, options.expected_calls),
      kMinWindowBytes, kMaxFirstWindowBytes);
  context_.memory = &memory_;
  context_.windows = &windows_;
  context_.cancels = &cancels_;
  context_.places = &places_;
  context_.metrics = &metrics_;
  context_.new_session = options_.new_session;
  context_.max_shared_bytes = options.memory_bytes / LoopCount();
  context_.connect = [this] { return Connect(serve_); };
  context_.peer_header = headers.peer;
  context_.seen_header = headers.seen;
  context_.peer_stamp = headers.stamp;
}

Door::~Door() { Stop(std::chrono::milliseconds(0)); }

void Door::Start() {
  for (unsigned count = 0; count < LoopCount(); ++count) {
    loops_.push_back(std::make_unique<DoorLoop>(context_, listeners_));
  }
  for (const auto& loop : loops_) loop->Start(loops_);
}

void Door::StopAccepting() {
  for (const auto& loop : loops_) loop->StopAccepting();
  // Those that wait to be accepted, too.
  for (const UniqueFd& listener : listeners_) shutdown(listener.get(), SHUT_RDWR);
}

void Door::Stop(std::chrono::milliseconds grace) {
  StopAccepting();
  for (const auto& loop : loops_) loop->BeginStop(grace);
  // All of them, before the first is gone: one may still give another a client.
  for (const auto& loop : loops_) loop->Wait();
  loops_.clear();
}

std::vector<std::size_t> Door::client_counts() const {
  std::vector<std::size_t> counts;
  counts.reserve(loops_.size());
  for (const auto& loop : loops_) counts.push_back(loop->client_count());
  return counts;
}

void Door::AddMetrics(metrics::Page& page) const {
  page.Add(metrics::kDoorConnections, metrics_.connections.load());
  page.Add(metrics::kDoorMaxConnections, options_.max_connections);
  page.Add(metrics::kDoorConnectionsAccepted, metrics_.connections_accepted.value());
  for (std::size_t index = 0; index < kEndReasonCount; ++index) {
    page.Add(metrics::kDoorConnectionsEnded, metrics_.connections_ended[index].value(),
             {NameOf(static_cast<EndReason>(index))});
  }
  page.Add(metrics::kDoorCalls, metrics_.calls.value());
  for (std::size_t index = 0; index < kRefusedCallReasonCount; ++index) {
    page.Add(metrics::kDoorCallsRefused, metrics_.calls_refused[index].value(),
             {NameOf(static_cast<RefusedCallReason>(index))});
  }
  page.Add(metrics::kDoorCallsCancelled, metrics_.calls_cancelled.value());
  page.Add(metrics::kDoorMemoryBytes, memory_.used_bytes());
  page.Add(metrics::kDoorMemoryLimitBytes, memory_.limit_bytes());
}

}  // namespace kerf::door
