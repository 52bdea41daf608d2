// What started kerfd and wants to hear how it is, as systemd does (Type=notify): lines of text,
// each time a datagram to a unix socket that the environment names. The protocol is sd_notify(3)'s,
// which systemd keeps stable; why it is spoken without libsystemd: docs/adr/0028-packages.md.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"

namespace kerf {

// How it wants to be told.
struct ServiceManagerOptions {
  // An absolute path, or one of the abstract namespace with '@' for its first byte (unix(7)).
  // Empty: nobody wants to hear anything.
  std::string socket;
  // A kerfd of which it has heard nothing for so long is ended by it. 0: never.
  std::chrono::microseconds watchdog{0};
  // For a socket that is full, but for the watchdog's word, which never waits.
  std::chrono::milliseconds patience{5'000};
};

// NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID of this process. What makes no sense there is
// logged, and as if it were not there.
ServiceManagerOptions ReadServiceManagerOptions(const char* const* environment);

// Thread-safe. That somebody cannot be told is logged, once until he can be again, and never an
// error: uploads are worth more than who watches them.
class ServiceManager {
 public:
  explicit ServiceManager(ServiceManagerOptions options);
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;
  ~ServiceManager() = default;

  // It does not serve yet, and waits for somebody; for people: "waiting for Redis". Each word gives
  // it so much more time, beyond what the manager allows for a start (TimeoutStartSec): else it
  // would be ended there before it has given up and said why.
  static constexpr std::chrono::microseconds kWaitExtension = std::chrono::seconds(60);
  void TellWait(std::string_view status);

  // It serves. From here on the watchdog hears of it for as long as `liveness` is OK; asked by a
  // thread of its own, until BeginStop.
  void TellReady(std::string_view status, std::function<absl::Status()> liveness);

  // Around a reload: who asked for it waits for its end. Neither is told before it serves, nor once
  // it stops.
  void BeginReload();
  void EndReload(std::string_view status);

  // It drains, and ends. No other state comes behind it.
  void BeginStop(std::string_view status);

 private:
  enum class State : std::uint8_t { kStarting, kServing, kStopping };

  void RunWatchdog(const std::stop_token& stop, const std::function<absl::Status()>& liveness);
  // `waits`: for a full socket.
  void SendLocked(const std::string& lines, bool waits);

  const ServiceManagerOptions options_;

  std::mutex mutex_;
  std::condition_variable_any stops_;
  State state_ = State::kStarting;
  bool is_reached_ = true;

  // Last: it uses all of them.
  std::jthread watchdog_;
};

}  // namespace kerf
