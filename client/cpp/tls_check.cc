#include "client/cpp/tls_check.h"

#include <netdb.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "base/tls/certificate_facts.h"
#include "base/tls/tls_context.h"
#include "base/trusted_socket.h"
#include "base/unique_fd.h"
#include "client/cpp/channel.h"
#include "client/cpp/name_lookup.h"
#include "client/cpp/retry.h"

namespace kerf::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// For the name, the connection and the handshake, each.
constexpr milliseconds kPatience{3'000};
// For what the server says of this client's certificate: it answers at once, whatever it is.
constexpr milliseconds kVerdictPatience{1'000};
constexpr milliseconds kCancellationPoll{50};
// Of a stranger's certificate.
constexpr std::size_t kMaxNamesBytes = 200;
constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};

// What is wrong with the certificate that the server shows.
struct Verdict {
  int error = X509_V_OK;
  CertificateFacts facts;
};

// One connection.
class Meeting {
 public:
  explicit Meeting(const CallCancellation* cancellation) : cancellation_(cancellation) {}

  // False: nobody is there, or nobody answers in time.
  bool Connect(const std::string& server);
  // What OpenSSL said last of a handshake: 0 if it went through, nothing if the peer went away or
  // took too long.
  std::optional<int> ShakeHands(const TlsContext& context, const std::string& name);
  // The same of what the server says behind it.
  std::optional<int> WaitForVerdict();

  const Verdict& verdict() const { return verdict_; }

 private:
  bool WaitFor(short events, steady_clock::time_point deadline) const;
  bool ConnectTo(const addrinfo& address);
  std::optional<int> Do(int (*act)(SSL*), milliseconds patience);
  // Between OpenSSL and the socket, which OpenSSL itself would write to with a SIGPIPE. False: the
  // peer has gone away, or takes too long.
  bool Send(steady_clock::time_point deadline);
  bool Receive(steady_clock::time_point deadline);
  // Called for each thing that is wrong with it.
  static int OnVerify(int is_good, X509_STORE_CTX* store);

  const CallCancellation* const cancellation_;
  UniqueFd socket_;
  TlsSession session_;
  Verdict verdict_;
};

bool Meeting::WaitFor(short events, steady_clock::time_point deadline) const {
  while (cancellation_ == nullptr || !cancellation_->cancelled()) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd ready{socket_.get(), events, 0};
    const int count = poll(&ready, 1, static_cast<int>(std::min(left, kCancellationPoll).count()));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
  }
  return false;
}

bool Meeting::ConnectTo(const addrinfo& address) {
  socket_ =
      UniqueFd(socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_.valid()) return false;
  if (connect(socket_.get(), address.ai_addr, address.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS || !WaitFor(POLLOUT, steady_clock::now() + kPatience)) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

bool Meeting::Connect(const std::string& server) {
  const std::string port = server.substr(server.rfind(':') + 1);
  // gRPC has looked it up just now, which may be why nobody was reached.
  const Addresses found = LookUpName(HostOfAddress(server), port, kPatience, cancellation_);
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    if (ConnectTo(*one)) return true;
  }
  return false;
}

int Meeting::OnVerify(int is_good, X509_STORE_CTX* store) {
  if (is_good == 1) return 1;
  const auto* const session =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  Verdict& verdict = *static_cast<Verdict*>(SSL_get_app_data(session));
  verdict.error = X509_STORE_CTX_get_error(store);
  // That in question, which is not always the server's own.
  if (const X509* certificate = X509_STORE_CTX_get_current_cert(store); certificate != nullptr) {
    verdict.facts = FactsOf(*certificate);
  }
  return 0;
}

bool Meeting::Send(steady_clock::time_point deadline) {
  std::array<char, 4096> bytes;
  int size = 0;
  while ((size = BIO_read(SSL_get_wbio(session_.get()), bytes.data(), bytes.size())) > 0) {
    std::string_view rest(bytes.data(), static_cast<std::size_t>(size));
    while (!rest.empty()) {
      if (!WaitFor(POLLOUT, deadline)) return false;
      const ssize_t count = send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (count > 0) rest.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  return true;
}

bool Meeting::Receive(steady_clock::time_point deadline) {
  std::array<char, 4096> bytes;
  while (WaitFor(POLLIN, deadline)) {
    const ssize_t count = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) return false;
    BIO* const bio = SSL_get_rbio(session_.get());
    return BIO_write(bio, bytes.data(), static_cast<int>(count)) == count;
  }
  return false;
}

std::optional<int> Meeting::Do(int (*act)(SSL*), milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  while (true) {
    ERR_clear_error();
    const int result = act(session_.get());
    const int why = SSL_get_error(session_.get(), result);
    const int reason = ERR_GET_REASON(ERR_peek_last_error());
    ERR_clear_error();
    const bool is_sent = Send(deadline);
    if (result == 1) return 0;
    if (why == SSL_ERROR_SSL) return reason;
    if (why != SSL_ERROR_WANT_READ || !is_sent || !Receive(deadline)) return std::nullopt;
  }
}

std::optional<int> Meeting::ShakeHands(const TlsContext& context, const std::string& name) {
  session_ = context.NewSession();
  SSL_set_app_data(session_.get(), &verdict_);
  if (name.empty()) {
    SSL_set_verify(session_.get(), SSL_VERIFY_NONE, nullptr);
  } else {
    SSL_set_verify(session_.get(), SSL_VERIFY_PEER, OnVerify);
    ExpectName(*session_, name);
  }
  SSL_set_alpn_protos(session_.get(), kHttp2.data(), kHttp2.size());
  SSL_set_bio(session_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  return Do(SSL_connect, kPatience);
}

std::optional<int> Meeting::WaitForVerdict() {
  return Do(
      [](SSL* session) {
        char byte = 0;
        return SSL_read(session, &byte, 1);
      },
      kVerdictPatience);
}

bool IsNoTls(int reason) {
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_RECORD_LENGTH_MISMATCH:
      return true;
    default:
      return false;
  }
}

// Why the server does not take the client's certificate; empty: that is not what it says.
std::string_view RefusalOf(int reason) {
  switch (reason) {
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return "its CA is not one of those that the server trusts";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "its time is over";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
      return "it was revoked";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
      return "it is not one for clients, or not as the server wants it";
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
      return "its owner may not come in";
    default:
      return "";
  }
}

std::string NamesOf(const CertificateFacts& facts) {
  std::string names;
  for (const std::string& name : facts.names) {
    if (names.size() + name.size() > kMaxNamesBytes) return Cat(names, ", ...");
    names += Cat(names.empty() ? "" : ", ", name);
  }
  return names.empty() ? "no host at all" : names;
}

absl::Status ExplainVerdict(const std::string& server, const TlsChoice& tls,
                            const std::string& name, const Verdict& verdict) {
  switch (verdict.error) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return TlsTrouble(Cat(
          server, " is not known to be ", name, ": its certificate is for ", NamesOf(verdict.facts),
          ". If that is the right server, name it so in --server, or with --tls-name; "
          "else somebody is in its place"));
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return TlsTrouble(Cat("the certificate of ", server, " has ended on ",
                            FormatCertificateTime(verdict.facts.expires_at_s),
                            ": give that kerfd a new one, or look at this machine's clock"));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return TlsTrouble(Cat("the certificate of ", server, " is valid from ",
                            FormatCertificateTime(verdict.facts.begins_at_s),
                            " on: look at this machine's clock"));
    case X509_V_ERR_INVALID_PURPOSE:
      return TlsTrouble(Cat("the certificate of ", server,
                            " is not one for servers: give that kerfd ", "another one"));
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return TlsTrouble(
          Cat("the certificate of ", server, " is of no CA in ", tls.files().ca,
              ": give the CA of that kerfd with --tls-ca; if it is that, somebody is in "
              "the server's place"));
    default:
      return TlsTrouble(Cat("the certificate of ", server, " is not to be trusted: ",
                            X509_verify_cert_error_string(verdict.error)));
  }
}

absl::Status ExplainRefusal(const std::string& server, const TlsChoice& tls, int reason) {
  if (reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED) {
    return TlsTrouble(
        Cat(server,
            " serves those alone who show a certificate: give yours with --tls-cert and "
            "--tls-key"));
  }
  const std::string_view why = RefusalOf(reason);
  if (why.empty()) return absl::OkStatus();
  const std::string& file = tls.files().certificate;
  return TlsTrouble(Cat(server, " refuses ", file.empty() ? "whoever shows no certificate" : file,
                        ": ", why, ". Give another one with --tls-cert and --tls-key"));
}

absl::Status CheckWithTls(const std::string& server, const TlsChoice& tls, Meeting& meeting) {
  const auto texts = ReadTlsFiles(tls.files());
  if (!texts.ok()) return TlsTrouble(MessageOf(texts.status()));
  const auto context =
      TlsContext::Make({.side = TlsRules::Side::kClient, .files = tls.files()}, *texts);
  if (!context.ok()) return TlsTrouble(MessageOf(context.status()));
  const std::string name = tls.name().empty() ? HostOfAddress(server) : tls.name();
  std::optional<int> reason = meeting.ShakeHands(**context, name);
  if (reason == 0) reason = meeting.WaitForVerdict();
  if (!reason.has_value() || *reason == 0) return absl::OkStatus();
  if (meeting.verdict().error != X509_V_OK) {
    return ExplainVerdict(server, tls, name, meeting.verdict());
  }
  if (IsNoTls(*reason)) {
    return TlsTrouble(
        Cat(server,
            " speaks no TLS: give that kerfd --tls-cert and --tls-key; or, where nobody "
            "else can reach it, leave --tls-ca and --tls-cert out here"));
  }
  return ExplainRefusal(server, tls, *reason);
}

absl::Status CheckInTheClear(const std::string& server, Meeting& meeting) {
  const auto context = TlsContext::Make({.side = TlsRules::Side::kClient}, {});
  if (!context.ok()) return absl::OkStatus();
  const std::optional<int> reason = meeting.ShakeHands(**context, "");
  if (!reason.has_value() || IsNoTls(*reason)) return absl::OkStatus();
  return TlsTrouble(
      Cat(server,
          " speaks TLS: give the CA of its certificate with --tls-ca, and, if it asks for "
          "one, a certificate of your own with --tls-cert and --tls-key"));
}

// Whether a token may be shown there.
absl::Status CheckSocket(const std::string& server, const TlsChoice& tls) {
  if (tls.token() == nullptr) return absl::OkStatus();
  const absl::Status status = TrustedSocket(SocketPathOf(server), tls.server_user()).Look();
  if (status.ok()) return status;
  if (absl::IsFailedPrecondition(status)) {
    return TlsTrouble(Cat(MessageOf(status),
                          ", and no token is shown there: run kerfd as a user that has a number "
                          "here"));
  }
  if (!absl::IsUnauthenticated(status)) return absl::UnavailableError(status.message());
  return TlsTrouble(
      Cat(MessageOf(status),
          ", and a token is shown to root, to your own user and to that of --server-user alone: if "
          "kerfd is meant to run as that user, name it with --server-user; else somebody is in its "
          "place"));
}

}  // namespace

absl::Status CheckTls(const std::string& server, const TlsChoice& tls,
                      const CallCancellation* cancellation) {
  if (server.starts_with("unix:")) return CheckSocket(server, tls);
  Meeting meeting(cancellation);
  if (!meeting.Connect(server)) return absl::OkStatus();
  return tls.is_tls() ? CheckWithTls(server, tls, meeting) : CheckInTheClear(server, meeting);
}

absl::Status ExplainByTls(const absl::Status& status, const ServerAddress& servers,
                          const CallCancellation* cancellation) {
  // Kerf's own words come from a server that was met.
  if (!absl::IsUnavailable(status) || !ReasonOfLoss(status).empty()) return status;
  const auto all = ParseServers(servers.text);
  if (!all.ok()) return status;
  for (const std::string& server : *all) {
    const absl::Status found = CheckTls(server, servers.tls, cancellation);
    if (!found.ok()) return found;
  }
  return status;
}

}  // namespace kerf::client
