#include "e2e/slow_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace kerf::e2e {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadBytes = 64 * 1024;
// What one direction holds at most: it reads no further then.
constexpr std::size_t kMaxDelayed = 1024;
// How soon a connection that is held goes on.
constexpr int kHeldPoll_ms = 5;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool WriteAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

UniqueFd SlowProxy::Listen(int port) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(port);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  KERF_CHECK(bind(listener.get(), generic, sizeof address) == 0);
  KERF_CHECK(listen(listener.get(), 64) == 0);
  return listener;
}

UniqueFd SlowProxy::ListenIn(const NetworkNamespace& there, int port) {
  const NetworkNamespace::Scope inside(there);
  return Listen(port);
}

SlowProxy::SlowProxy(UniqueFd listener, int port, std::chrono::milliseconds delay)
    : target_port_(port), delay_(delay), listener_(std::move(listener)) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  KERF_CHECK(getsockname(listener_.get(), generic, &length) == 0);
  port_ = ntohs(address.sin_port);
  accepter_ = std::thread([this] { Accept(); });
}

SlowProxy::~SlowProxy() {
  is_stopping_.store(true);
  Release();
  shutdown(listener_.get(), SHUT_RDWR);
  accepter_.join();
  for (Pair& pair : pairs_) {
    shutdown(pair.near.get(), SHUT_RDWR);
    shutdown(pair.far.get(), SHUT_RDWR);
    pair.there.join();
    pair.back.join();
  }
}

bool SlowProxy::WaitUntilHeld(std::chrono::milliseconds patience) const {
  const auto deadline = Clock::now() + patience;
  while (limits_.left_bytes.load() > 0) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(kHeldPoll_ms));
  }
  return true;
}

std::string SlowProxy::address() const { return Cat("127.0.0.1:", port_); }

void SlowProxy::Forward(int from, int to, std::chrono::milliseconds delay, Limits* limits) {
  struct Delayed {
    Clock::time_point due;
    std::string bytes;
  };
  std::deque<Delayed> delayed;
  std::array<char, kReadBytes> buffer;
  bool is_open = true;
  bool is_lost = false;
  while (is_open || !delayed.empty()) {
    int wait_ms = -1;
    if (!delayed.empty()) {
      const auto rest =
          std::chrono::ceil<std::chrono::milliseconds>(delayed.front().due - Clock::now());
      wait_ms = static_cast<int>(std::max<long>(0, rest.count()));
    }
    pollfd ready{from, POLLIN, 0};
    const bool is_held = limits != nullptr && limits->left_bytes.load() <= 0;
    if (is_held) wait_ms = wait_ms < 0 ? kHeldPoll_ms : std::min(wait_ms, kHeldPoll_ms);
    const bool reads = is_open && delayed.size() < kMaxDelayed && !is_held;
    if (poll(&ready, reads ? 1 : 0, wait_ms) > 0) {
      const ssize_t count = read(from, buffer.data(), buffer.size());
      is_open = count > 0;
      if (is_open && limits != nullptr) {
        if (limits->left_bytes.load() != kNoLimit) limits->left_bytes.fetch_sub(count);
        is_lost = is_lost || count > limits->max_piece_bytes.load();
      }
      if (is_open && !is_lost) {
        delayed.push_back({Clock::now() + delay, {buffer.data(), static_cast<std::size_t>(count)}});
      }
    }
    while (!delayed.empty() && delayed.front().due <= Clock::now()) {
      if (!WriteAll(to, delayed.front().bytes)) return static_cast<void>(shutdown(from, SHUT_RDWR));
      delayed.pop_front();
    }
  }
  shutdown(to, SHUT_WR);
}

void SlowProxy::Accept() {
  while (!is_stopping_.load()) {
    UniqueFd near(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (near.get() < 0) return;
    UniqueFd far(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = Loopback(target_port_);
    if (connect(far.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      continue;
    }
    const int on = 1;
    for (const int file : {near.get(), far.get()}) {
      setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    Pair& pair = pairs_.emplace_back();
    pair.near = std::move(near);
    pair.far = std::move(far);
    pair.there = std::thread(Forward, pair.near.get(), pair.far.get(), delay_, &limits_);
    pair.back = std::thread(Forward, pair.far.get(), pair.near.get(), delay_, nullptr);
    connection_count_.fetch_add(1);
  }
}

}  // namespace kerf::e2e
