#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "server/door/wire.h"

namespace kerf::door {
namespace {

// Of one record.
constexpr std::size_t kRecordBytes = std::size_t{16} << 10;
// Sealed before the socket gets it: one system call for some records, and not for each.
constexpr std::size_t kSealAheadBytes = 4 * kRecordBytes;
// Messages of TLS itself for so much data: more than any handshake has. Behind it they are for new
// keys, each of which costs us more than the peer.
constexpr int kMaxMessages = 64;
constexpr std::size_t kDataOfMessages = std::size_t{64} << 10;
// Of the socket at once, four records; less in a handshake, of which thousands may stand.
constexpr std::size_t kReadAheadBytes = std::size_t{64} << 10;
// Of a handshake: more than a greeting, a chain of certificates (TlsContext) and the rest.
constexpr std::size_t kMaxHandshakeBytes = std::size_t{40} << 10;
// Of the socket, by one Read, however little it brings: others have their turn.
constexpr std::size_t kMaxTakenBytes = std::size_t{192} << 10;
// Likewise, of records, each of which costs the same, whether it has a byte or 16 KiB.
constexpr int kMaxRecords = 1'024;
// What was sealed, and answers to such messages on top of it, if the peer reads neither.
constexpr std::size_t kMaxUnsentBytes = std::size_t{96} << 10;

bool IsNothingNow() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// What was sealed and not sent yet, of whichever connection of this thread is at work: a connection
// owns a copy only of what its socket does not take.
std::string& Scratch() {
  static thread_local std::string scratch;
  return scratch;
}

class TlsWire final : public Wire {
 public:
  TlsWire(UniqueFd socket, TlsSession session);
  ~TlsWire() override;

  Got Read(std::span<std::uint8_t> room) override;
  bool has_unread() const override { return has_unread_; }
  Put Write(std::span<const iovec> vectors) override;
  bool has_unsent() const override { return !unsent_.empty(); }
  bool is_open_for_writing() const override { return SSL_is_init_finished(session_.get()) == 1; }
  bool has_greeted() const override { return is_made_ || message_count_ > 0; }
  std::string seen() const override {
    const std::string name = ProvenName(*session_);
    return name.empty() ? "tls" : Cat("tls ", name);
  }
  std::optional<EndReason> failure() const override { return failure_; }

 private:
  static const BIO_METHOD* Methods();
  static TlsWire& Of(BIO* bio) { return *static_cast<TlsWire*>(BIO_get_data(bio)); }
  static int ReadSocket(BIO* bio, char* to, std::size_t room, std::size_t* size);
  static int WriteSealed(BIO* bio, const char* from, std::size_t size, std::size_t* taken);
  static long Control(BIO* bio, int command, long number, void* pointer);
  static void OnMessage(int is_written, int version, int type, const void* bytes, std::size_t size,
                        SSL* session, void* wire);

  void Fail();
  void CountData(std::size_t size);
  // Of what was to be written.
  std::size_t Seal(std::span<const iovec> vectors);
  bool Flush();
  bool SendSealed();
  bool Send(std::string_view bytes, std::size_t& sent_bytes);

  TlsSession session_;
  // Of an earlier round.
  std::string unsent_;
  // The socket had nothing when OpenSSL asked last.
  bool is_drained_ = false;
  bool has_unread_ = false;
  // By this Read.
  std::size_t taken_bytes_ = 0;
  // Of the socket, until the handshake is through.
  bool is_made_ = false;
  std::size_t handshake_bytes_ = 0;
  // Of TLS itself, and what came of data beside them.
  int message_count_ = 0;
  std::size_t data_bytes_ = 0;
  bool has_failed_ = false;
  bool is_ended_ = false;
  bool has_moved_ = false;
  std::optional<EndReason> failure_;
};

TlsWire::TlsWire(UniqueFd socket, TlsSession session)
    : Wire(std::move(socket)), session_(std::move(session)) {
  BIO* const bio = BIO_new(Methods());
  KERF_CHECK(bio != nullptr);
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(session_.get(), bio, bio);
  SSL_set_msg_callback(session_.get(), OnMessage);
  // As SSL_set_msg_callback_arg, whose macro casts as C does.
  SSL_ctrl(session_.get(), SSL_CTRL_SET_MSG_CALLBACK_ARG, 0, this);
}

// A peer that is still there learns that it was the end, and nobody's knife.
TlsWire::~TlsWire() {
  if (has_failed_ || !is_open_for_writing() || !unsent_.empty()) return;
  SSL_shutdown(session_.get());
  ERR_clear_error();
  SendSealed();
}

const BIO_METHOD* TlsWire::Methods() {
  static const BIO_METHOD* const methods = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "kerf door");
    KERF_CHECK(made != nullptr);
    BIO_meth_set_read_ex(made, ReadSocket);
    BIO_meth_set_write_ex(made, WriteSealed);
    BIO_meth_set_ctrl(made, Control);
    return made;
  }();
  return methods;
}

int TlsWire::ReadSocket(BIO* bio, char* to, std::size_t room, std::size_t* size) {
  TlsWire& wire = Of(bio);
  BIO_clear_retry_flags(bio);
  if (!wire.is_made_) room = std::min(room, kMaxHandshakeBytes - wire.handshake_bytes_);
  const bool is_enough =
      room == 0 || wire.taken_bytes_ >= kMaxTakenBytes || wire.message_count_ > kMaxMessages;
  const ssize_t count = is_enough ? -1 : recv(wire.socket(), to, room, 0);
  if (count > 0) {
    *size = static_cast<std::size_t>(count);
    wire.taken_bytes_ += *size;
    if (!wire.is_made_) wire.handshake_bytes_ += *size;
    return 1;
  }
  // What is left in the socket it will tell of.
  if (is_enough || (count < 0 && IsNothingNow())) {
    wire.is_drained_ = true;
    BIO_set_retry_read(bio);
  } else {
    wire.is_ended_ = true;
  }
  return 0;
}

int TlsWire::WriteSealed(BIO* /*bio*/, const char* from, std::size_t size, std::size_t* taken) {
  Scratch().append(from, size);
  *taken = size;
  return 1;
}

long TlsWire::Control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_EOF) return Of(bio).is_ended_ ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

void TlsWire::OnMessage(int is_written, int /*version*/, int type, const void* /*bytes*/,
                        std::size_t /*size*/, SSL* /*session*/, void* wire) {
  if (is_written == 0 && type == SSL3_RT_HANDSHAKE) {
    ++static_cast<TlsWire*>(wire)->message_count_;
  }
}

// By what OpenSSL says of a handshake that came to nothing, or of what came behind it.
EndReason FailureOf(const SSL& session, unsigned long error, bool is_made) {
  // Other libraries have other reasons by the same numbers.
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) return EndReason::kTlsFailed;
  switch (ERR_GET_REASON(error)) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_BAD_RECORD_TYPE:
      return is_made ? EndReason::kTlsFailed : EndReason::kNotTls;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
      return EndReason::kOldTls;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return EndReason::kNoCertificate;
    case SSL_R_CERTIFICATE_VERIFY_FAILED: {
      const long verdict = SSL_get_verify_result(&session);
      const bool is_time =
          verdict == X509_V_ERR_CERT_HAS_EXPIRED || verdict == X509_V_ERR_CERT_NOT_YET_VALID;
      return is_time ? EndReason::kExpiredCertificate : EndReason::kUnknownCertificate;
    }
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return EndReason::kRefusesCertificate;
    default:
      return EndReason::kTlsFailed;
  }
}

void TlsWire::Fail() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  if (std::exchange(has_failed_, true)) return;
  // Whoever goes in the middle of it may have many reasons.
  if (error == 0 || ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING) return;
  failure_ = FailureOf(*session_, error, is_made_);
}

void TlsWire::CountData(std::size_t size) {
  data_bytes_ += size;
  if (data_bytes_ < kDataOfMessages) return;
  data_bytes_ = 0;
  message_count_ = 0;
}

Wire::Got TlsWire::Read(std::span<std::uint8_t> room) {
  has_unread_ = false;
  if (has_failed_) return {Got::Kind::kEnded};
  std::size_t size = 0;
  taken_bytes_ = 0;
  for (int records = 0; size < room.size() && records < kMaxRecords; ++records) {
    std::size_t part = 0;
    is_drained_ = false;
    ERR_clear_error();
    const int result = SSL_read_ex(session_.get(), &room[size], room.size() - size, &part);
    size += part;
    if (!is_made_ && SSL_is_init_finished(session_.get()) == 1) {
      is_made_ = true;
      SSL_set_default_read_buffer_len(session_.get(), kReadAheadBytes);
    }
    // What has come before is to be heard: the next call says that it is the end.
    if (message_count_ > kMaxMessages || (!is_made_ && handshake_bytes_ >= kMaxHandshakeBytes)) {
      failure_ = EndReason::kTlsFailed;
      Fail();
      break;
    }
    if (result == 1) {
      CountData(part);
      continue;
    }
    if (SSL_get_error(session_.get(), result) != SSL_ERROR_WANT_READ) Fail();
    if (has_failed_ || is_drained_) break;
  }
  // Before it is the end, for what the peer has done wrong.
  if (!SendSealed()) has_failed_ = true;
  has_unread_ = (has_failed_ && size > 0) ||
                (!has_failed_ && !is_drained_ && SSL_has_pending(session_.get()) == 1);
  if (size > 0) {
    return {Got::Kind::kBytes, size};
  }
  return {has_failed_ ? Got::Kind::kEnded : Got::Kind::kNothing};
}

Wire::Put TlsWire::Write(std::span<const iovec> vectors) {
  has_moved_ = false;
  if (has_failed_ || !Flush()) return {.is_open = false};
  if (!unsent_.empty() || !is_open_for_writing()) return {.has_moved = has_moved_};
  const std::size_t size = Seal(vectors);
  const bool is_open = SendSealed() && !has_failed_;
  return {.is_open = is_open, .size_bytes = size, .has_moved = has_moved_};
}

// Small pieces, frames' headers among them, go into one record with what is behind them.
std::size_t TlsWire::Seal(std::span<const iovec> vectors) {
  std::array<char, kRecordBytes> record;
  std::size_t sealed = 0;
  std::size_t at = 0;
  while (!vectors.empty() && sealed < kSealAheadBytes) {
    const char* from = static_cast<const char*>(vectors.front().iov_base) + at;
    std::size_t size = 0;
    if (vectors.front().iov_len - at >= kRecordBytes) {
      size = kRecordBytes;
      at += size;
    } else {
      from = record.data();
      while (!vectors.empty() && size < kRecordBytes) {
        const iovec& front = vectors.front();
        const std::size_t part = std::min(front.iov_len - at, kRecordBytes - size);
        std::memcpy(&record[size], static_cast<const char*>(front.iov_base) + at, part);
        size += part;
        at += part;
        if (at < front.iov_len) break;
        vectors = vectors.subspan(1);
        at = 0;
      }
    }
    if (!vectors.empty() && at == vectors.front().iov_len) {
      vectors = vectors.subspan(1);
      at = 0;
    }
    std::size_t taken = 0;
    ERR_clear_error();
    if (SSL_write_ex(session_.get(), from, size, &taken) != 1 || taken != size) {
      Fail();
      break;
    }
    sealed += size;
  }
  return sealed;
}

bool TlsWire::Flush() {
  if (unsent_.empty()) return true;
  std::size_t sent = 0;
  const bool is_open = Send(unsent_, sent);
  unsent_.erase(0, sent);
  if (unsent_.empty()) unsent_.shrink_to_fit();
  return is_open;
}

// All that OpenSSL has put into the scratch, which is empty afterwards.
bool TlsWire::SendSealed() {
  std::string& scratch = Scratch();
  if (scratch.empty()) return true;
  std::size_t sent = 0;
  const bool is_open = !unsent_.empty() || Send(scratch, sent);
  unsent_.append(scratch, sent, std::string::npos);
  scratch.clear();
  return is_open && unsent_.size() < kMaxUnsentBytes;
}

bool TlsWire::Send(std::string_view bytes, std::size_t& sent_bytes) {
  while (sent_bytes < bytes.size()) {
    const ssize_t count = send(socket(), bytes.data() + sent_bytes, bytes.size() - sent_bytes,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return IsNothingNow();
    sent_bytes += static_cast<std::size_t>(count);
    has_moved_ = true;
  }
  return true;
}

}  // namespace

std::unique_ptr<Wire> MakeTlsWire(UniqueFd socket, TlsSession session) {
  return std::make_unique<TlsWire>(std::move(socket), std::move(session));
}

}  // namespace kerf::door
