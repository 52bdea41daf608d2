#include "server/listener/unix_acceptor.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/overflow_user.h"
#include "base/passed_file.h"
#include "base/shared_memory.h"
#include "base/status.h"
#include "base/strings.h"
#include "server/logging/rated_log.h"

namespace kerf {
namespace {

constexpr int kMaxEvents = 64;
// Others have their turn in between.
constexpr int kAcceptsPerTurn = 64;
// When a listener that could not accept is tried again.
constexpr std::chrono::milliseconds kArmInterval{250};
constexpr std::chrono::milliseconds kStopPoll{20};

// A memory that comes is one message, and so is its token, for which an empty socket has room.
absl::StatusOr<ForeignMemory> ReceiveMemory(int socket) {
  std::array<std::uint8_t, kSharedMemoryHello.size()> hello{};
  KERF_ASSIGN_OR_RETURN(UniqueFd fd, ReceiveFile(socket, hello));
  if (!std::equal(hello.begin(), hello.end(), kSharedMemoryHello.begin())) {
    return absl::InvalidArgumentError("what came with it is not what kerf says");
  }
  return ForeignMemory::Take(std::move(fd));
}

bool SendToken(int socket, const SharedMemories::Token& token) {
  return send(socket, token.data(), token.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(token.size());
}

void LogNoMemory(std::string_view why) {
  LogRated(
      LogLevel::kWarning, "no shared memory",
      Cat("does not take the memory that a client shares; its bytes come over the stream: ", why));
}

void LogNoSockets(int error) {
  LogRated(LogLevel::kError, "no unix sockets",
           Cat("takes no connections at unix sockets until there are file descriptors again: ",
               std::strerror(error)));
}

}  // namespace

UnixAcceptor::UnixAcceptor(std::vector<UniqueFd> listeners, std::function<bool(UniqueFd)> serve,
                           SharedMemories* memories)
    : listeners_(std::move(listeners)),
      serve_(std::move(serve)),
      memories_(memories),
      own_user_(geteuid()),
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

void UnixAcceptor::WatchFor(int socket, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = socket;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket, &event);
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

int UnixAcceptor::WaitMs() const {
  if (is_stopping_.load()) return static_cast<int>(kStopPoll.count());
  auto wait = kArmInterval;
  if (!silent_.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(silent_.front().since +
                                                                   kFirstByteWait - Clock::now());
    wait = std::clamp(left, std::chrono::milliseconds(0), kArmInterval);
  }
  return static_cast<int>(wait.count());
}

void UnixAcceptor::Run() {
  while (!is_closing_.load()) {
    Arm();
    RunOnce();
    ServeSilent();
    if (!is_stopping_.load()) continue;
    if (ends_at_ == Clock::time_point::max()) {
      ends_at_ = Clock::now() + std::chrono::milliseconds(grace_ms_.load());
    }
    if (Clock::now() >= ends_at_) EndAll();
  }
  EndAll();
}

void UnixAcceptor::RunOnce() {
  std::array<epoll_event, kMaxEvents> events{};
  const int count = epoll_wait(epoll_.get(), events.data(), kMaxEvents, WaitMs());
  for (int index = 0; index < count; ++index) {
    const int socket = events[index].data.fd;
    eventfd_t wakeups = 0;
    if (socket == wakeup_.get()) {
      eventfd_read(socket, &wakeups);
    } else if (connections_.contains(socket)) {
      OnEvent(socket);
    } else {
      Accept(socket);
    }
  }
}

void UnixAcceptor::OnEvent(int number) {
  const Connection& connection = connections_.at(number);
  // Both directions are over: the client is gone, or gRPC has closed it. Whoever shares memory has
  // nothing more to say.
  if (!connection.unserved.valid()) return Forget(number);
  char first = 0;
  const ssize_t count = recv(number, &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return Forget(number);
  if (first == kSharedMemoryHello.front()) return TakeMemory(number);
  Serve(number);
}

void UnixAcceptor::Serve(int number) {
  UniqueFd socket = std::move(connections_.at(number).unserved);
  // From now on nothing but its end is waited for.
  if (memories_ != nullptr) WatchFor(number, 0);
  if (!serve_(std::move(socket))) Forget(number);
}

bool UnixAcceptor::IsTrusted(int socket) const {
  const absl::StatusOr<uid_t> user = UserOfPeer(socket);
  return user.ok() && !MayBeAnybody(*user) && (*user == 0 || *user == own_user_);
}

void UnixAcceptor::TakeMemory(int number) {
  Connection& connection = connections_.at(number);
  if (!IsTrusted(number)) {
    LogNoMemory("it is neither root's nor this kerfd's own user's");
    return Forget(number);
  }
  auto memory = ReceiveMemory(number);
  if (!memory.ok()) {
    LogNoMemory(MessageOf(memory.status()));
    return Forget(number);
  }
  connection.token = memories_->Add(*std::move(memory));
  if (!connection.token.has_value()) {
    LogNoMemory("as many clients share theirs as may");
    return Forget(number);
  }
  if (!SendToken(number, *connection.token)) return Forget(number);
  connection.unserved.Reset();
  WatchFor(number, EPOLLIN | EPOLLRDHUP);
}

void UnixAcceptor::ServeSilent() {
  const Clock::time_point now = Clock::now();
  while (!silent_.empty() && silent_.front().since + kFirstByteWait <= now) {
    const Silent silent = silent_.front();
    silent_.pop_front();
    const auto found = connections_.find(silent.number);
    if (found == connections_.end() || found->second.since != silent.since) continue;
    if (found->second.unserved.valid()) Serve(silent.number);
  }
}

void UnixAcceptor::Accept(int listener) {
  for (int turn = 0; turn < kAcceptsPerTurn && !is_stopping_.load(); ++turn) {
    if (!AcceptOne(listener)) return;
  }
}

bool UnixAcceptor::AcceptOne(int listener) {
  UniqueFd socket(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  UniqueFd second(socket.valid() ? fcntl(socket.get(), F_DUPFD_CLOEXEC, 0) : -1);
  const std::uint32_t awaited = memories_ == nullptr ? 0u : std::uint32_t{EPOLLIN};
  // A connection that cannot be ended is none that is taken.
  if (!second.valid() || !Watch(second.get(), awaited)) {
    // A listener that was just shut down says EINVAL.
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED || is_stopping_.load()) {
      return false;
    }
    // Descriptors or memory are short. It would be called again at once, for nothing.
    LogNoSockets(errno);
    arms_at_ = Clock::now() + kArmInterval;
    const auto at = std::find_if(listeners_.begin(), listeners_.end(),
                                 [&](const UniqueFd& one) { return one.get() == listener; });
    if (at == listeners_.end()) return false;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener, nullptr);
    is_armed_[static_cast<std::size_t>(at - listeners_.begin())] = false;
    return false;
  }
  const int number = second.get();
  const Clock::time_point now = Clock::now();
  connections_.emplace(number, Connection{.second = std::move(second),
                                          .unserved = std::move(socket),
                                          .since = now,
                                          .token = std::nullopt});
  connection_count_.fetch_add(1);
  if (memories_ == nullptr) {
    Serve(number);
  } else {
    silent_.push_back({number, now});
  }
  return true;
}

void UnixAcceptor::Forget(int number) {
  const auto found = connections_.find(number);
  if (found->second.token.has_value()) memories_->Remove(*found->second.token);
  // The system would go on telling of it as long as gRPC has its own descriptor.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, number, nullptr);
  connections_.erase(found);
  connection_count_.fetch_sub(1);
}

void UnixAcceptor::EndAll() {
  for (const auto& [number, connection] : connections_) shutdown(number, SHUT_RDWR);
}

}  // namespace kerf
