#include "server/service_manager.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "server/logging/logging.h"

namespace kerf {
namespace {

// Empty: it is not set.
std::string_view ValueOf(const char* const* environment, std::string_view name) {
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('=')) {
      return entry.substr(name.size() + 1);
    }
  }
  return "";
}

std::optional<std::int64_t> NumberOf(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number <= 0) return std::nullopt;
  return number;
}

// A path ends with a zero. A name could have one byte more; no manager has any that long.
constexpr std::size_t kMaxSocketBytes = sizeof(sockaddr_un::sun_path) - 1;

bool IsSocket(std::string_view text) {
  return text.size() > 1 && text.size() <= kMaxSocketBytes && (text[0] == '/' || text[0] == '@');
}

// One line: parts of it may come from elsewhere, and each line is a word of the protocol.
std::string StatusLine(std::string_view status) {
  std::string line = Cat("STATUS=", status);
  std::replace_if(line.begin(), line.end(), [](char byte) { return byte == '\n'; }, ' ');
  return line;
}

// That clock tells systemd which of two reloads it hears of.
std::int64_t MonotonicUs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1'000;
}

// 0, or an errno.
int SendDatagram(const std::string& socket_name, const std::string& lines,
                 std::chrono::milliseconds patience) {
  const UniqueFd file(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!file.valid()) return errno;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_name.data(), socket_name.size());
  const bool is_abstract = socket_name[0] == '@';
  if (is_abstract) address.sun_path[0] = '\0';
  const auto size_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                                 socket_name.size() + (is_abstract ? 0 : 1));
  if (patience.count() > 0) {
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(patience);
    const timeval limit{whole.count(), std::chrono::microseconds(patience - whole).count()};
    setsockopt(file.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  const int flags = MSG_NOSIGNAL | (patience.count() > 0 ? 0 : MSG_DONTWAIT);
  const ssize_t sent = sendto(file.get(), lines.data(), lines.size(), flags,
                              reinterpret_cast<const sockaddr*>(&address), size_bytes);
  return sent == static_cast<ssize_t>(lines.size()) ? 0 : errno;
}

}  // namespace

ServiceManagerOptions ReadServiceManagerOptions(const char* const* environment) {
  ServiceManagerOptions options;
  const std::string_view socket = ValueOf(environment, "NOTIFY_SOCKET");
  if (socket.empty()) return options;
  if (!IsSocket(socket)) {
    Log(LogLevel::kWarning,
        Cat("NOTIFY_SOCKET=", socket,
            " is no unix socket (a path from / or a name behind @, of at most ", kMaxSocketBytes,
            " bytes): the service manager will not hear that kerfd serves"));
    return options;
  }
  options.socket = socket;
  const std::string_view watchdog = ValueOf(environment, "WATCHDOG_USEC");
  // Of a process that started this one and has left its environment.
  const std::string_view whose = ValueOf(environment, "WATCHDOG_PID");
  if (watchdog.empty() || (!whose.empty() && NumberOf(whose) != getpid())) return options;
  const std::optional<std::int64_t> watchdog_us = NumberOf(watchdog);
  if (!watchdog_us.has_value()) {
    Log(LogLevel::kWarning, Cat("WATCHDOG_USEC=", watchdog, " is no time in microseconds"));
  }
  options.watchdog = std::chrono::microseconds(watchdog_us.value_or(0));
  return options;
}

ServiceManager::ServiceManager(ServiceManagerOptions options) : options_(std::move(options)) {}

void ServiceManager::TellWait(std::string_view status) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kStarting) return;
  SendLocked(Cat("EXTEND_TIMEOUT_USEC=", kWaitExtension.count(), "\n", StatusLine(status)),
             /*waits=*/true);
}

void ServiceManager::TellReady(std::string_view status, std::function<absl::Status()> liveness) {
  const std::lock_guard lock(mutex_);
  state_ = State::kServing;
  SendLocked(Cat("READY=1\n", StatusLine(status)), /*waits=*/true);
  if (options_.socket.empty() || options_.watchdog.count() == 0) return;
  watchdog_ = std::jthread([this, liveness = std::move(liveness)](const std::stop_token& stop) {
    RunWatchdog(stop, liveness);
  });
}

void ServiceManager::BeginReload() {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kServing) return;
  SendLocked(Cat("RELOADING=1\nMONOTONIC_USEC=", MonotonicUs()), /*waits=*/true);
}

void ServiceManager::EndReload(std::string_view status) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kServing) return;
  SendLocked(Cat("READY=1\n", StatusLine(status)), /*waits=*/true);
}

void ServiceManager::BeginStop(std::string_view status) {
  {
    const std::lock_guard lock(mutex_);
    state_ = State::kStopping;
    SendLocked(Cat("STOPPING=1\n", StatusLine(status)), /*waits=*/true);
  }
  watchdog_ = std::jthread();
}

void ServiceManager::RunWatchdog(const std::stop_token& stop,
                                 const std::function<absl::Status()>& liveness) {
  std::unique_lock lock(mutex_);
  while (true) {
    // Twice as often as is needed, as sd_watchdog_enabled(3) wants it.
    stops_.wait_for(lock, stop, options_.watchdog / 2, [] { return false; });
    if (stop.stop_requested()) return;
    lock.unlock();
    const absl::Status status = liveness();
    lock.lock();
    if (status.ok() && !stop.stop_requested()) SendLocked("WATCHDOG=1", /*waits=*/false);
  }
}

void ServiceManager::SendLocked(const std::string& lines, bool waits) {
  if (options_.socket.empty()) return;
  const int error = SendDatagram(options_.socket, lines,
                                 waits ? options_.patience : std::chrono::milliseconds(0));
  if (error != 0 && is_reached_) {
    Log(LogLevel::kWarning, Cat("the service manager at NOTIFY_SOCKET=", options_.socket,
                                " does not hear how kerfd is: ", std::strerror(error)));
  }
  is_reached_ = error == 0;
}

}  // namespace kerf
