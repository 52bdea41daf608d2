// What every role of kerfd does alike: it says when it is ready, waits for a signal, and drains.
#pragma once

#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/strings.h"
#include "server/logging/logging.h"

namespace kerf {

// SIGTERM and SIGINT, which are blocked from here on, so that they come here alone; signals that
// would end the process for nothing are ignored. So is SIGHUP, of which the log tells once somebody
// asks here. To be made before the process has other threads that take signals.
class StopSignals {
 public:
  StopSignals();

  // Whether one has come; takes it.
  bool HaveCome() const;
  // The same within `patience`.
  bool HaveCome(std::chrono::nanoseconds patience) const;
  // Until one comes, and says so in the log.
  void Wait() const;

 private:
  sigset_t signals_;
};

// One address a line; whole or not at all: whoever waits for the file may read it as soon as it is
// there. An empty path: nothing. `flag` is the setting that named it.
absl::Status WriteReadyFile(std::string_view flag, const std::string& path,
                            const std::vector<std::string>& addresses);

// How often a draining kerfd looks whether its streams have ended.
inline constexpr std::chrono::milliseconds kDrainPoll{50};

// Stops `server` once all its streams have ended, the time is over, or another signal comes.
template <typename AnyServer>
void DrainAndStop(AnyServer& server, const StopSignals& signals, std::chrono::milliseconds drain) {
  Log(LogLevel::kInfo,
      Cat("draining ", server.stream_count(), " streams for up to ", drain.count(), " ms"));
  server.BeginDrain(drain);
  const auto deadline = std::chrono::steady_clock::now() + drain;
  while (server.stream_count() > 0 && std::chrono::steady_clock::now() < deadline) {
    if (!signals.HaveCome(kDrainPoll)) continue;
    Log(LogLevel::kWarning, "second signal: stopping at once");
    break;
  }
  server.Stop();
}

}  // namespace kerf
