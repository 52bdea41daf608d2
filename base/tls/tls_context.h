// Certificates and rules of TLS, as OpenSSL has them.
#pragma once

#include <openssl/ssl.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls/tls_files.h"

namespace kerf {

struct TlsFree {
  void operator()(SSL* session) const { SSL_free(session); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using TlsSession = std::unique_ptr<SSL, TlsFree>;

// What stands in the files.
struct TlsTexts {
  std::string certificate = "";
  std::string key = "";
  std::string ca = "";

  friend bool operator==(const TlsTexts&, const TlsTexts&) = default;
};

// NotFound, PermissionDenied and so on name the file.
absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsFiles& files);

struct TlsRules {
  enum class Side : std::uint8_t {
    // What is spoken with those who ask for a protocol by its name (ALPN): HTTP/2, or HTTP/1.1.
    kHttp2Server,
    kHttpServer,
    kClient,
  };
  Side side = Side::kHttp2Server;
  TlsFiles files = {};
  // Of a server with a CA: clients without a certificate come in, too.
  bool is_certificate_optional = false;
  // One more certificate (PEM) of which peers may be, beside those of the CA; empty: none.
  std::string also_trusted = "";
};

// One state of a peer's files. TLS 1.3 alone; no sessions are resumed, so that each connection's
// certificate is looked at. Thread-safe.
class TlsContext {
 public:
  // InvalidArgument says which of the files is wrong, and how.
  static absl::StatusOr<std::shared_ptr<const TlsContext>> Make(const TlsRules& rules,
                                                                const TlsTexts& texts);

  // Without a socket. A client's looks at nothing yet but the certificate's CA: see ExpectName.
  TlsSession NewSession() const;

  // The end of its own certificate's time, in seconds since 1970; 0: it has none.
  std::int64_t expires_at_s() const { return expires_at_s_; }
  // From now to there; negative behind it.
  std::chrono::hours TimeLeft() const;
  // Whether its own certificate may be shown to a server; true without one.
  bool is_for_clients() const { return is_for_clients_; }
  // What it was made of, for libraries that have TLS of their own.
  const TlsTexts& texts() const { return texts_; }

 private:
  TlsContext() = default;

  std::unique_ptr<SSL_CTX, TlsFree> context_;
  std::int64_t expires_at_s_ = 0;
  bool is_for_clients_ = true;
  TlsTexts texts_;
};

// The name (IdentityNameOf) of a peer whose certificate is of one of the CAs that were given;
// empty: it has shown none, or one without a name.
std::string ProvenName(const SSL& session);

// Whether the peer has shown a certificate of one of the CAs that were given, whatever its name.
bool IsProven(const SSL& session);

// When the certificate ends that the peer has shown, in seconds since 1970; nothing: it has shown
// none.
std::optional<std::int64_t> PeerExpiresAt(const SSL& session);

// The peer's certificate has to be of this name, or IP address.
void ExpectName(SSL& session, const std::string& host);

// What OpenSSL's queue of errors says last, in words; clears it.
std::string TakeTlsError();

}  // namespace kerf
