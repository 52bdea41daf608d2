// What every role of kerfd does alike: it says when it is ready, waits for a signal, and drains.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/strings.h"
#include "server/logging/logging.h"
#include "server/service_manager.h"

namespace kerf {

// SIGTERM and SIGINT, which are blocked from here on, so that they come here alone; signals that
// would end the process for nothing are ignored. SIGHUP ends nothing either: it is passed on once
// somebody asks here. To be made before the process has other threads that take signals.
class StopSignals {
 public:
  StopSignals();

  // What SIGHUP asks for from here on, by the thread that asks whether a signal has come, which it
  // must not hold up. What came before it, only the log has.
  void OnHangup(std::function<void()> on_hangup) { on_hangup_ = std::move(on_hangup); }

  // Whether one has come; takes it.
  bool HaveCome() const;
  // The same within `patience`.
  bool HaveCome(std::chrono::nanoseconds patience) const;
  // Until one comes, and says so in the log.
  void Wait() const;

 private:
  // False: it was SIGHUP, which has been passed on.
  bool EndsKerfd(int signal_number) const;

  sigset_t signals_;
  std::function<void()> on_hangup_;
};

// What tells kerfd what to do, and who is told how it is.
struct Supervision {
  StopSignals signals = {};
  ServiceManager manager;
};

// From when it serves, which the service manager hears, until it is told to stop. Until
// DrainAndStop the manager's watchdog hears of it for as long as `liveness` is OK, which a thread
// of its own asks.
void WaitForStop(Supervision& supervision, std::function<absl::Status()> liveness);

// One address a line; whole or not at all: whoever waits for the file may read it as soon as it is
// there. An empty path: nothing. `flag` is the setting that named it.
absl::Status WriteReadyFile(std::string_view flag, const std::string& path,
                            const std::vector<std::string>& addresses);

// How often a draining kerfd looks whether its streams have ended.
inline constexpr std::chrono::milliseconds kDrainPoll{50};

// Tells the service manager, and stops `server` once all its streams have ended, the time is over,
// or another signal comes.
template <typename AnyServer>
void DrainAndStop(AnyServer& server, Supervision& supervision, std::chrono::milliseconds drain) {
  const std::string doing =
      Cat("draining ", server.stream_count(), " streams for up to ", drain.count(), " ms");
  Log(LogLevel::kInfo, doing);
  server.BeginDrain(drain);
  const auto deadline = std::chrono::steady_clock::now() + drain;
  supervision.manager.BeginStop(doing);
  while (server.stream_count() > 0 && std::chrono::steady_clock::now() < deadline) {
    if (!supervision.signals.HaveCome(kDrainPoll)) continue;
    Log(LogLevel::kWarning, "second signal: stopping at once");
    break;
  }
  server.Stop();
}

}  // namespace kerf
