#include "server/listener/unix_acceptor.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/strings.h"
#include "server/logging/rated_log.h"

namespace kerf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxEvents = 64;
// Others have their turn in between.
constexpr int kAcceptsPerTurn = 64;
// When a listener that could not accept is tried again.
constexpr std::chrono::milliseconds kArmInterval{250};
constexpr std::chrono::milliseconds kStopPoll{20};

void LogNoSockets(int error) {
  LogRated(LogLevel::kError, "no unix sockets",
           Cat("takes no connections at unix sockets until there are file descriptors again: ",
               std::strerror(error)));
}

}  // namespace

UnixAcceptor::UnixAcceptor(std::vector<UniqueFd> listeners, std::function<bool(UniqueFd)> serve)
    : listeners_(std::move(listeners)),
      serve_(std::move(serve)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      is_armed_(listeners_.size(), false) {}

UnixAcceptor::~UnixAcceptor() {
  if (!thread_.joinable()) return;
  BeginStop(std::chrono::milliseconds(0));
  is_closing_.store(true);
  eventfd_write(wakeup_.get(), 1);
  thread_.join();
}

void UnixAcceptor::Start() {
  Watch(wakeup_.get(), EPOLLIN);
  thread_ = std::thread([this] { Run(); });
}

void UnixAcceptor::BeginStop(std::chrono::milliseconds grace) {
  if (!is_stopping_.load()) {
    grace_ms_.store(grace.count());
    is_stopping_.store(true);
  }
  eventfd_write(wakeup_.get(), 1);
  // Those that wait to be accepted, too.
  for (const UniqueFd& listener : listeners_) shutdown(listener.get(), SHUT_RDWR);
}

bool UnixAcceptor::Watch(int socket, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = socket;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event) == 0;
}

void UnixAcceptor::Arm() {
  const bool is_wanted = !is_stopping_.load();
  if (is_wanted && Clock::now() < arms_at_) return;
  for (std::size_t index = 0; index < listeners_.size(); ++index) {
    if (is_armed_[index] == is_wanted) continue;
    if (is_wanted) {
      is_armed_[index] = Watch(listeners_[index].get(), EPOLLIN);
    } else {
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listeners_[index].get(), nullptr);
      is_armed_[index] = false;
    }
  }
}

void UnixAcceptor::Run() {
  std::array<epoll_event, kMaxEvents> events{};
  Clock::time_point ends_at = Clock::time_point::max();
  while (!is_closing_.load()) {
    Arm();
    const auto wait = is_stopping_.load() ? kStopPoll : kArmInterval;
    const int count =
        epoll_wait(epoll_.get(), events.data(), kMaxEvents, static_cast<int>(wait.count()));
    for (int index = 0; index < count; ++index) {
      const int socket = events[index].data.fd;
      eventfd_t wakeups = 0;
      if (socket == wakeup_.get()) {
        eventfd_read(socket, &wakeups);
      } else if (connections_.contains(socket)) {
        // Both directions are over: the client is gone, or gRPC has closed it.
        Forget(socket);
      } else {
        Accept(socket);
      }
    }
    if (!is_stopping_.load()) continue;
    if (ends_at == Clock::time_point::max()) {
      ends_at = Clock::now() + std::chrono::milliseconds(grace_ms_.load());
    }
    if (Clock::now() >= ends_at) EndAll();
  }
  EndAll();
}

void UnixAcceptor::Accept(int listener) {
  for (int turn = 0; turn < kAcceptsPerTurn && !is_stopping_.load(); ++turn) {
    UniqueFd socket(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    UniqueFd second(socket.valid() ? fcntl(socket.get(), F_DUPFD_CLOEXEC, 0) : -1);
    // Of it nothing but its end is waited for. A connection that cannot be ended is none that is
    // taken.
    if (!second.valid() || !Watch(second.get(), 0)) {
      // A listener that was just shut down says EINVAL.
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED || is_stopping_.load()) return;
      // Descriptors or memory are short. It would be called again at once, for nothing.
      LogNoSockets(errno);
      arms_at_ = Clock::now() + kArmInterval;
      const auto at = std::find_if(listeners_.begin(), listeners_.end(),
                                   [&](const UniqueFd& one) { return one.get() == listener; });
      if (at == listeners_.end()) return;
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener, nullptr);
      is_armed_[static_cast<std::size_t>(at - listeners_.begin())] = false;
      return;
    }
    const int number = second.get();
    connections_.emplace(number, std::move(second));
    connection_count_.fetch_add(1);
    if (!serve_(std::move(socket))) Forget(number);
  }
}

void UnixAcceptor::Forget(int number) {
  // The system would go on telling of it as long as gRPC has its own descriptor.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, number, nullptr);
  connections_.erase(number);
  connection_count_.fetch_sub(1);
}

void UnixAcceptor::EndAll() {
  for (const auto& [number, connection] : connections_) shutdown(number, SHUT_RDWR);
}

}  // namespace kerf
