// kerfd as an object: everything between an index and its sockets.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "base/units.h"
#include "kernels/cuda/pipeline/gpu_set.h"
#include "server/edge/index_calls.h"
#include "server/edge/upload_reactor.h"
#include "server/hints/hint_cache.h"
#include "server/index/index.h"
#include "server/metrics/page.h"
#include "server/net/clock.h"
#include "server/session/session_limits.h"
#include "server/worker/rapid_totals.h"

namespace kerf {

class TlsSource;
namespace access {
class AccessSource;
}  // namespace access
namespace audit {
class Sink;
}  // namespace audit

struct ServerOptions {
  // At least one, as ParseListenAddress takes them.
  std::vector<std::string> listen;
  SessionLimits limits;
  StreamTimeouts timeouts;
  IndexCallLimits index_calls;
  // Only those that were created may be used; else a repository is met when it is named.
  bool only_created_repositories = false;
  // 0: one for each core.
  std::size_t worker_threads = 0;
  // At least 1.
  std::size_t max_streams = 1024;
  // Over TCP, at once.
  std::size_t max_connections = 4096;
  // With which TCP is served; outlives the server. Null: it is served in the clear.
  const TlsSource* tls = nullptr;
  // Who may do what; outlives the server. Null: everybody may do everything.
  const access::AccessSource* access = nullptr;
  // Over TCP it is fronts that come, each with many clients.
  bool is_behind_fronts = false;
  // Of all streams. Half is for cutting and for what is not committed yet, a quarter for messages
  // that wait. gRPC's own buffers, which hold those messages too, have the same limit once more.
  std::uint64_t memory_bytes = kGiB;
  // Of one stream: half at most is its cut buffer, a quarter messages that wait.
  std::uint64_t stream_memory_bytes = 16 * kMiB;
  std::string worker_name = "kerfd";
  // Null: files are cut without hints.
  std::shared_ptr<HintCache> hints;
  // Null: the CPU cuts. They outlive the server, and are closed before it is destroyed.
  cuda::GpuSet* gpus = nullptr;
  // Where calls that change anything, or are refused, are recorded. It outlives the server. Null:
  // nowhere.
  audit::Sink* audit = nullptr;
  Clock clock = [] { return std::chrono::steady_clock::now(); };
  // How often streams are looked at for their timeouts; 0: never, tests call CheckTimeouts.
  std::chrono::milliseconds watchdog_interval = limits::kWatchdogInterval;
};

// Thread-safe. Must be stopped before it is destroyed.
class Server {
 public:
  // Serves when it returns. `index` outlives it. From Stop on it may be closed; it must have
  // answered everything, or answer nothing more, before this is destroyed. InvalidArgument for
  // options that make no sense, FailedPrecondition for an address that is taken.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options, Index* index);

  // InvalidArgument for options that make no sense.
  static absl::Status CheckOptions(const ServerOptions& options);

  virtual ~Server() = default;

  // The bound addresses, with the ports that were picked, in the order of `listen`.
  virtual const std::vector<std::string>& addresses() const = 0;

  // Health says NOT_SERVING (as it does while the index takes no commits), new streams are refused,
  // open ones are told (GoAway) and have `drain` left for their commits.
  virtual void BeginDrain(std::chrono::milliseconds drain) = 0;

  // Ends all streams, waits for them, and closes the sockets.
  virtual void Stop() = 0;

  virtual std::size_t stream_count() const = 0;
  // Held and at most held by streams, of ServerOptions::memory_bytes.
  virtual std::size_t used_memory_bytes() const = 0;
  virtual std::size_t peak_memory_bytes() const = 0;
  virtual const RapidTotals& rapid_totals() const = 0;
  // What it and its streams have done.
  virtual void AddMetrics(metrics::Page& page) const = 0;
  // Ends the streams whose peers are too slow, or idle while memory is short, and what waits for
  // the index too long; returns how many, those that are late twice twice.
  virtual std::size_t CheckTimeouts() = 0;
};

}  // namespace kerf
