// kerfd as a front: takes every call that kerfd knows and passes it on to the worker that has its
// shard key. docs/spec/routing.md has the rules.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "base/units.h"
#include "server/metrics/page.h"
#include "server/net/clock.h"
#include "server/routing/worker_set.h"

namespace kerf {

class TlsSource;
namespace access {
class AccessSource;
}  // namespace access
namespace audit {
class Sink;
}  // namespace audit

struct FrontOptions {
  // At least one, as ParseListenAddress takes them.
  std::vector<std::string> listen;
  // `on_liveness` is the front's own.
  routing::WorkerSetOptions workers;
  // Uploads at once; at least 1.
  std::size_t max_streams = 1024;
  // Over TCP, at once.
  std::size_t max_connections = 4096;
  // With which TCP is served; outlives the server. Null: it is served in the clear.
  const TlsSource* tls = nullptr;
  // Who may do what; outlives the server. Null: everybody may do everything, as far as workers let
  // him.
  const access::AccessSource* access = nullptr;
  // The same of all other calls.
  std::size_t max_calls = 256;
  // Of all calls: half for messages to workers, in equal shares of the uploads, and an eighth for
  // those that are larger than a share, or read ahead; an eighth for answers, in the same way; a
  // quarter for what clients send before it is read. gRPC's buffers around them may take as much
  // once more. At least kMinMemoryBytes.
  std::uint64_t memory_bytes = kGiB;
  // Encoded; as the workers take them.
  std::uint32_t max_message_bytes = limits::kMaxMessageBytes;
  std::chrono::milliseconds write_stall = limits::kWriteStall;
  // Of a wait for one and the same thing, after which the log tells of it.
  std::chrono::milliseconds stall_warn = limits::kStallWarn;
  // After which a silent upload may have to make room for others.
  std::chrono::milliseconds idle_evict = limits::kIdleEvict;
  // Where calls that the front refuses are recorded. It outlives the server. Null: nowhere.
  audit::Sink* audit = nullptr;
  Clock clock = [] { return std::chrono::steady_clock::now(); };
  // How often calls are looked at for their timeouts; 0: never, tests call CheckTimeouts.
  std::chrono::milliseconds watchdog_interval = limits::kWatchdogInterval;
};

// Thread-safe. Must be stopped before it is destroyed.
class FrontServer {
 public:
  // So that there is room for the largest message.
  static constexpr std::uint64_t kMinMemoryBytes = 32 * kMiB;

  // Serves when it returns, and has asked its workers once, or waited for them for a few seconds.
  // Health says SERVING while at least one of them is alive. FailedPrecondition for an address that
  // is taken, InvalidArgument for one that is none and for options that make no sense.
  static absl::StatusOr<std::unique_ptr<FrontServer>> Start(const FrontOptions& options);

  virtual ~FrontServer() = default;

  // The bound addresses, in the order of `listen`.
  virtual const std::vector<std::string>& addresses() const = 0;

  // Health says NOT_SERVING, new calls are refused, and the workers are asked to tell the open
  // streams (GoAway); these have `drain` left for their commits.
  virtual void BeginDrain(std::chrono::milliseconds drain) = 0;

  // Ends all calls, waits for them, and closes the sockets.
  virtual void Stop() = 0;

  // Uploads that are under way, and other calls.
  virtual std::size_t stream_count() const = 0;
  virtual std::size_t call_count() const = 0;
  // Held, and at most held, by messages, of FrontOptions::memory_bytes.
  virtual std::size_t used_memory_bytes() const = 0;
  virtual std::size_t peak_memory_bytes() const = 0;
  // Uploads that were ended for others, and calls that there was no memory for.
  virtual std::uint64_t idle_evicted_count() const = 0;
  virtual std::uint64_t ended_for_memory_count() const = 0;
  virtual std::size_t live_worker_count() const = 0;
  // What it has passed on, and its workers.
  virtual void AddMetrics(metrics::Page& page) const = 0;
  // Ends calls whose clients are too slow; how many.
  virtual std::size_t CheckTimeouts() = 0;
};

}  // namespace kerf
