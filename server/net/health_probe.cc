#include "server/net/health_probe.h"

#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/tls/tls_context.h"
#include "base/unique_fd.h"
#include "server/net/listen_address.h"

namespace kerf {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

// How soon a probe that is stopped ends.
constexpr std::chrono::milliseconds kStopPoll{50};
// Of what a server says before it answers: its settings, and little else.
constexpr std::size_t kMaxAnswerBytes = 64 << 10;

// HTTP/2 (RFC 9113): what frames are, and how their headers look.
constexpr std::size_t kFrameHeaderBytes = 9;
constexpr std::uint8_t kData = 0;
constexpr std::uint8_t kHeaders = 1;
constexpr std::uint8_t kResetStream = 3;
constexpr std::uint8_t kSettings = 4;
constexpr std::uint8_t kGoAway = 7;
constexpr std::uint8_t kEndStream = 1;
constexpr std::uint8_t kEndHeaders = 4;

std::string FrameOf(std::uint8_t type, std::uint8_t flags, std::uint8_t stream,
                    std::string_view payload) {
  std::string frame(kFrameHeaderBytes, '\0');
  frame[1] = static_cast<char>(payload.size() >> 8);
  frame[2] = static_cast<char>(payload.size() & 0xFF);
  frame[3] = static_cast<char>(type);
  frame[4] = static_cast<char>(flags);
  frame[8] = static_cast<char>(stream);
  return frame.append(payload);
}

// Its length in one byte, and no Huffman coding (RFC 7541).
std::string TextOf(std::string_view text) {
  return std::string(1, static_cast<char>(text.size())).append(text);
}

// All that the client has to say.
std::string Request() {
  // By their numbers in HPACK's static table: POST, http; then literals that nobody remembers.
  const std::string headers =
      Cat("\x83\x86", "\x04", TextOf("/grpc.health.v1.Health/Check"), "\x01", TextOf("localhost"),
          "\x0F\x10", TextOf("application/grpc"), std::string(1, '\0'), TextOf("te"),
          TextOf("trailers"));
  // Not compressed, and of no bytes.
  const std::string message(5, '\0');
  return Cat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", FrameOf(kSettings, 0, 0, ""),
             FrameOf(kHeaders, kEndHeaders, 1, headers), FrameOf(kData, kEndStream, 1, message));
}

absl::Status SystemError(std::string_view doing, int error) {
  return absl::UnavailableError(ToAbsl(Cat(doing, ": ", std::strerror(error))));
}

// One address of loopback, of this process alone: what the door counts of an address (cancelled
// calls, hostile connections) would else be that of everybody who comes by way of this machine, a
// proxy's strangers among them, who could so have the process taken for deaf.
sockaddr_in OwnLoopback() {
  static const std::uint32_t address = 0x7F00'0000u | (std::random_device()() & 0x00FF'FFFFu) | 2u;
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(address);
  return own;
}

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family != AF_INET) return false;
  sockaddr_in ipv4{};
  std::memcpy(&ipv4, &address, sizeof ipv4);
  return ntohl(ipv4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

class Probe {
 public:
  Probe(TimePoint deadline, const std::stop_token& stop, const TlsContext* tls)
      : deadline_(deadline), stop_(stop), tls_(tls) {}

  absl::Status Ask(const sockaddr* address, socklen_t length);

 private:
  // Until the socket is ready for that.
  absl::Status WaitFor(short events) const;
  absl::Status Connect(const sockaddr* address, socklen_t length);
  // What OpenSSL does once its socket lets it, and gives 1 for.
  absl::Status DoWithTls(const std::function<int()>& act) const;
  absl::Status Send(std::string_view text) const;
  absl::StatusOr<std::size_t> Receive(std::span<char> room) const;
  absl::Status WaitForAnswer() const;

  const TimePoint deadline_;
  const std::stop_token& stop_;
  const TlsContext* const tls_;
  UniqueFd socket_;
  // Null: in the clear.
  TlsSession session_;
};

absl::Status Probe::WaitFor(short events) const {
  while (true) {
    if (stop_.stop_requested()) return absl::CancelledError("stopped");
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
    if (left.count() <= 0) return absl::UnavailableError("no answer in time");
    pollfd ready{socket_.get(), events, 0};
    const int count = poll(&ready, 1, static_cast<int>(std::min(left, kStopPoll).count()));
    if (count > 0) return absl::OkStatus();
    if (count < 0 && errno != EINTR) return SystemError("waiting", errno);
  }
}

absl::Status Probe::Connect(const sockaddr* address, socklen_t length) {
  socket_ = UniqueFd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid()) return SystemError("a socket", errno);
  if (IsLoopback(*address)) {
    const sockaddr_in own = OwnLoopback();
    // Where it cannot be had, any will do.
    [[maybe_unused]] const int bound =
        bind(socket_.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own);
  }
  if (connect(socket_.get(), address, length) == 0) return absl::OkStatus();
  // EAGAIN: a unix socket at which too many wait already.
  if (errno != EINPROGRESS) return SystemError("connecting", errno);
  KERF_RETURN_IF_ERROR(WaitFor(POLLOUT));
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? absl::OkStatus() : SystemError("connecting", error);
}

absl::Status Probe::DoWithTls(const std::function<int()>& act) const {
  while (true) {
    ERR_clear_error();
    const int result = act();
    if (result == 1) return absl::OkStatus();
    switch (SSL_get_error(session_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        KERF_RETURN_IF_ERROR(WaitFor(POLLIN));
        break;
      case SSL_ERROR_WANT_WRITE:
        KERF_RETURN_IF_ERROR(WaitFor(POLLOUT));
        break;
      default:
        return absl::UnavailableError(ToAbsl(Cat("TLS has ended: ", TakeTlsError())));
    }
  }
}

absl::Status Probe::Send(std::string_view text) const {
  if (session_ != nullptr) {
    std::size_t sent = 0;
    return DoWithTls([&] { return SSL_write_ex(session_.get(), text.data(), text.size(), &sent); });
  }
  while (!text.empty()) {
    KERF_RETURN_IF_ERROR(WaitFor(POLLOUT));
    const ssize_t count = send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return SystemError("sending", errno);
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> Probe::Receive(std::span<char> room) const {
  std::size_t size = 0;
  if (session_ != nullptr) {
    KERF_RETURN_IF_ERROR(
        DoWithTls([&] { return SSL_read_ex(session_.get(), room.data(), room.size(), &size); }));
    return size;
  }
  while (true) {
    KERF_RETURN_IF_ERROR(WaitFor(POLLIN));
    const ssize_t count = recv(socket_.get(), room.data(), room.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return SystemError("reading", errno);
    if (count == 0) return absl::UnavailableError("it has closed the connection");
    return static_cast<std::size_t>(count);
  }
}

absl::Status Probe::WaitForAnswer() const {
  std::string said;
  std::size_t begin = 0;
  std::array<char, 4096> part;
  while (said.size() < kMaxAnswerBytes) {
    // Frames that are there in full.
    while (said.size() - begin >= kFrameHeaderBytes) {
      const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(said[begin + at]); };
      const std::uint8_t type = byte(3);
      // Whatever its health is, it says so in a message: nothing but headers is a refusal.
      const bool is_all = (byte(4) & kEndStream) != 0;
      if (type == kHeaders && is_all) return absl::ResourceExhaustedError("it refuses the call");
      if (type == kHeaders) return absl::OkStatus();
      if (type == kResetStream || type == kGoAway) {
        return absl::UnavailableError("it does not take the call");
      }
      const std::size_t size =
          (std::size_t{byte(0)} << 16) | (std::size_t{byte(1)} << 8) | std::size_t{byte(2)};
      if (said.size() - begin - kFrameHeaderBytes < size) break;
      begin += kFrameHeaderBytes + size;
    }
    KERF_ASSIGN_OR_RETURN(const std::size_t size, Receive(part));
    said.append(part.data(), size);
  }
  return absl::UnavailableError("what it says is no answer");
}

absl::Status Probe::Ask(const sockaddr* address, socklen_t length) {
  session_.reset();
  KERF_RETURN_IF_ERROR(Connect(address, length));
  if (tls_ != nullptr) {
    session_ = tls_->NewSession();
    SSL_set_verify(session_.get(), SSL_VERIFY_NONE, nullptr);
    SSL_set_fd(session_.get(), socket_.get());
    KERF_RETURN_IF_ERROR(DoWithTls([&] { return SSL_connect(session_.get()); }));
  }
  KERF_RETURN_IF_ERROR(Send(Request()));
  return WaitForAnswer();
}

absl::Status AskAtSocket(const std::string& path, Probe& probe) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return SystemError(path, ENAMETOOLONG);
  std::memcpy(address.sun_path, path.data(), path.size());
  return probe.Ask(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

// At all addresses that the host has: the last one says why none answers.
absl::Status AskAtHost(const std::string& text, Probe& probe) {
  const std::size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  // All addresses of the machine, for gRPC those of both families: it may have loopback of one
  // alone.
  const bool is_any = host == "::" || host == "0.0.0.0";
  const int error =
      getaddrinfo(is_any ? nullptr : host.c_str(), text.c_str() + colon + 1, &hints, &found);
  // Of a resolver that is away nothing follows for kerfd, which has bound its address already.
  if (error != 0) return absl::OkStatus();
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> freed(found, freeaddrinfo);
  absl::Status status;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    status = probe.Ask(at->ai_addr, at->ai_addrlen);
    if (status.ok() || absl::IsCancelled(status)) return status;
  }
  return status;
}

}  // namespace

absl::Status ProbeHealth(const std::string& address, std::chrono::milliseconds timeout,
                         const std::stop_token& stop, const TlsContext* tls) {
  KERF_ASSIGN_OR_RETURN(const ListenAddress parsed, ParseListenAddress(address));
  Probe probe(std::chrono::steady_clock::now() + timeout, stop, parsed.is_unix ? nullptr : tls);
  return parsed.is_unix ? AskAtSocket(parsed.path, probe) : AskAtHost(address, probe);
}

}  // namespace kerf
