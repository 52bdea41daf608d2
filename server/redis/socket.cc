#include "server/redis/socket.h"

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <hiredis/read.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "base/tls/tls_words.h"
#include "base/unique_fd.h"

namespace kerf::redis {
namespace {

// Of one turn of the loop, so that no connection has it for itself.
constexpr int kMaxReadsPerTurn = 16;
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
// Written away in front of what is left, before that is moved to the front.
constexpr std::size_t kMaxGapBytes = std::size_t{64} << 10;

struct Freed {
  void operator()(event* waited) const { event_free(waited); }
  void operator()(redisReader* reader) const { redisReaderFree(reader); }
  void operator()(void* reply) const { freeReplyObject(reply); }
};
using Event = std::unique_ptr<event, Freed>;
using Reader = std::unique_ptr<redisReader, Freed>;

class EventSocket final : public Socket {
 public:
  EventSocket(UniqueFd file, TlsSession session, Owner* owner)
      : file_(std::move(file)),
        session_(std::move(session)),
        owner_(owner),
        reader_(redisReaderCreate()) {
    KERF_CHECK(reader_ != nullptr);
  }
  // Before its descriptor, whose number somebody else may have next.
  ~EventSocket() override {
    readable_.reset();
    writable_.reset();
    *is_gone_ = true;
    // What OpenSSL says of a connection that nobody has any more.
    if (session_ != nullptr) ERR_clear_error();
  }

  void Begin(event_base* base) {
    if (session_ != nullptr) KERF_CHECK(SSL_set_fd(session_.get(), file_.get()) == 1);
    const auto on_event = [](evutil_socket_t, short what, void* self) {
      static_cast<EventSocket*>(self)->OnEvent((what & EV_READ) != 0);
    };
    readable_.reset(event_new(base, file_.get(), EV_READ | EV_PERSIST, on_event, this));
    writable_.reset(event_new(base, file_.get(), EV_WRITE, on_event, this));
    KERF_CHECK(readable_ != nullptr && writable_ != nullptr);
    WaitToWrite();
  }

  void Write(std::string_view bytes) override {
    if (written_ > kMaxGapBytes && written_ > output_.size() / 2) {
      output_.erase(0, written_);
      written_ = 0;
    }
    output_ += bytes;
    if (state_ == State::kUp) WaitToWrite();
  }

  std::optional<std::int64_t> PeerExpiresAt() const override {
    return session_ == nullptr ? std::nullopt : kerf::PeerExpiresAt(*session_);
  }

  std::string WaitsFor() const override {
    return state_ == State::kShakingHands
               ? "it does not answer as one that speaks TLS; is it TLS's port?"
               : "it cannot be reached";
  }

 private:
  enum class State : std::uint8_t { kConnecting, kShakingHands, kUp, kClosed };
  // More than 0: bytes. Nothing has been done if it is one of these.
  static constexpr ssize_t kBlocked = -1;
  static constexpr ssize_t kFailed = -2;

  void WaitToRead() { KERF_CHECK(event_add(readable_.get(), nullptr) == 0); }
  void WaitToWrite() { KERF_CHECK(event_add(writable_.get(), nullptr) == 0); }

  void OnEvent(bool is_readable) {
    // The owner may drop this in each of the steps.
    const std::shared_ptr<const bool> is_gone = is_gone_;
    if (state_ == State::kConnecting) {
      FinishConnect();
    } else if (state_ == State::kShakingHands) {
      ShakeHands();
    } else if (state_ == State::kUp && is_readable) {
      ReadAll(*is_gone);
    }
    // TLS may want to read so as to write, and the other way.
    if (!*is_gone && state_ == State::kUp) WriteAll(*is_gone);
  }

  void FinishConnect() {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(file_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return Fail(std::strerror(error));
    state_ = State::kShakingHands;
    WaitToRead();
    if (session_ == nullptr) return ComeUp();
    SSL_set_connect_state(session_.get());
    ShakeHands();
  }

  void ShakeHands() {
    ERR_clear_error();
    const int result = SSL_do_handshake(session_.get());
    if (result == 1) return ComeUp();
    TakeTlsResult(result);
  }

  void ComeUp() {
    state_ = State::kUp;
    owner_->OnUp();
    // TLS may have taken it from the system already.
    if (session_ != nullptr) event_active(readable_.get(), EV_READ, 0);
  }

  // What comes of a call of OpenSSL that has not brought anything.
  ssize_t TakeTlsResult(int result) {
    const int error_number = errno;
    switch (SSL_get_error(session_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return kBlocked;
      case SSL_ERROR_WANT_WRITE:
        WaitToWrite();
        return kBlocked;
      case SSL_ERROR_ZERO_RETURN:
        Fail("it closed the connection");
        return kFailed;
      case SSL_ERROR_SYSCALL:
        FailBySystem(error_number);
        return kFailed;
      default:
        Fail(TlsFailureInWords(*session_, state_ == State::kUp));
        return kFailed;
    }
  }

  // An alert that says why may be lost with the connection.
  void FailBySystem(int error_number) {
    const std::string why =
        error_number == 0 ? "it closed the connection" : std::strerror(error_number);
    const bool is_first = state_ == State::kUp && !has_heard_;
    Fail(is_first ? Cat(why,
                        ", right behind the handshake of TLS: it may ask for a certificate, or "
                        "not take the one that was shown to it")
                  : why);
  }

  ssize_t Read(char* data, std::size_t size) {
    if (session_ != nullptr) {
      ERR_clear_error();
      const int count = SSL_read(session_.get(), data, static_cast<int>(size));
      has_heard_ = has_heard_ || count > 0;
      return count > 0 ? count : TakeTlsResult(count);
    }
    const ssize_t count = read(file_.get(), data, size);
    if (count > 0) return count;
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return kBlocked;
    Fail(count == 0 ? "it closed the connection" : std::strerror(errno));
    return kFailed;
  }

  void ReadAll(const bool& is_gone) {
    // Of a thread: each is done with it before it looks at the answers.
    static thread_local std::array<char, kReadBytes> buffer;
    for (int turn = 0; turn < kMaxReadsPerTurn; ++turn) {
      const ssize_t count = Read(buffer.data(), buffer.size());
      if (count <= 0) return;
      if (redisReaderFeed(reader_.get(), buffer.data(), static_cast<std::size_t>(count)) !=
          REDIS_OK) {
        return Fail(reader_->errstr);
      }
      if (!TakeReplies(is_gone)) return;
      // Less than there was room for: there is no more, unless TLS has it.
      if (session_ == nullptr && static_cast<std::size_t>(count) < buffer.size()) return;
    }
    // OpenSSL may hold what the system does not tell of any more.
    event_active(readable_.get(), EV_READ, 0);
  }

  // False if nobody is there to go on.
  bool TakeReplies(const bool& is_gone) {
    while (true) {
      void* taken = nullptr;
      if (redisReaderGetReply(reader_.get(), &taken) != REDIS_OK) {
        Fail(reader_->errstr);
        return false;
      }
      if (taken == nullptr) return true;
      const std::unique_ptr<void, Freed> reply(taken);
      owner_->OnReply(*static_cast<const redisReply*>(taken));
      if (is_gone || state_ == State::kClosed) return false;
    }
  }

  void WriteAll(const bool& is_gone) {
    while (written_ < output_.size()) {
      const std::size_t left = output_.size() - written_;
      ssize_t count = 0;
      if (session_ != nullptr) {
        ERR_clear_error();
        const int most = static_cast<int>(std::min(left, kReadBytes));
        const int result = SSL_write(session_.get(), output_.data() + written_, most);
        if (result <= 0 && SSL_get_error(session_.get(), result) == SSL_ERROR_SYSCALL) {
          const int error_number = errno;
          // It may have said why before it went.
          ReadAll(is_gone);
          if (!is_gone && state_ == State::kUp) FailBySystem(error_number);
          return;
        }
        count = result > 0 ? result : TakeTlsResult(result);
      } else {
        count = write(file_.get(), output_.data() + written_, left);
        if (count < 0 && errno != EAGAIN && errno != EINTR) return Fail(std::strerror(errno));
        if (count < 0) WaitToWrite();
      }
      if (count <= 0) return;
      written_ += static_cast<std::size_t>(count);
    }
    output_.clear();
    written_ = 0;
  }

  void Fail(const std::string& why) {
    state_ = State::kClosed;
    event_del(readable_.get());
    event_del(writable_.get());
    owner_->OnClosed(why);
  }

  const UniqueFd file_;
  const TlsSession session_;
  Owner* const owner_;
  const Reader reader_;
  State state_ = State::kConnecting;
  Event readable_;
  Event writable_;
  // Behind `written_` bytes that are.
  std::string output_;
  std::size_t written_ = 0;
  // Anything, within TLS.
  bool has_heard_ = false;
  // Outlives this for the turn of the loop that runs.
  const std::shared_ptr<bool> is_gone_ = std::make_shared<bool>(false);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Socket>> Socket::Connect(event_base* base, const std::string& host,
                                                        int port, TlsSession session,
                                                        Owner* owner) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), Cat(port).c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, freeaddrinfo);
  UniqueFd file(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!file.valid()) return absl::UnavailableError(std::strerror(errno));
  const int on = 1;
  if (setsockopt(file.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
      (connect(file.get(), address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS)) {
    return absl::UnavailableError(std::strerror(errno));
  }
  auto made = std::make_unique<EventSocket>(std::move(file), std::move(session), owner);
  made->Begin(base);
  return made;
}

}  // namespace kerf::redis
