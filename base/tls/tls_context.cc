#include "base/tls/tls_context.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/small_file.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/tls/certificate_facts.h"

namespace kerf {
namespace {

// Of one file: some hundred certificates.
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
// Of what a peer shows; it is held while the handshake lasts.
constexpr long kMaxPeerCertificateBytes = 16 << 10;
// Between a certificate and its CA.
constexpr int kMaxChainLength = 8;
// Of those that are equally safe, what processors are fastest at.
constexpr const char* kCiphers =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
// Fast ones. OpenSSL has others by default whose answer costs a server a hundred times what it
// costs a client to ask for it (ffdhe8192).
constexpr const char* kGroups = "X25519:P-256:P-384";
// Of CAs that clients are told of; more are longer than what some of them read. Most know theirs.
constexpr std::size_t kMaxCaNamesBytes = std::size_t{8} << 10;
// Behind their lengths.
constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};
constexpr std::array<unsigned char, 9> kHttp = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;

absl::Status Wrong(std::string_view path, std::string_view why) {
  return absl::InvalidArgumentError(ToAbsl(Cat(path, ": ", why)));
}

// Nobody is asked for a password.
int NoPassword(char* /*buffer*/, int /*size*/, int /*is_written*/, void* /*user*/) { return -1; }

absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& path,
                                                           const std::string& text) {
  const std::unique_ptr<BIO, Free> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  std::vector<Certificate> certificates;
  ERR_clear_error();
  while (true) {
    Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr));
    if (certificate == nullptr) break;
    certificates.push_back(std::move(certificate));
  }
  const bool is_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string error = TakeTlsError();
  if (!is_end) return Wrong(path, Cat("a certificate in it cannot be read: ", error));
  if (certificates.empty()) {
    return Wrong(path, "there is no certificate in it (-----BEGIN CERTIFICATE-----)");
  }
  return certificates;
}

absl::Status UseCertificate(SSL_CTX& context, const TlsFiles& files, const TlsTexts& texts) {
  KERF_ASSIGN_OR_RETURN(const std::vector<Certificate> certificates,
                        ParseCertificates(files.certificate, texts.certificate));
  if (SSL_CTX_use_certificate(&context, certificates[0].get()) != 1) {
    return Wrong(files.certificate, TakeTlsError());
  }
  for (std::size_t index = 1; index < certificates.size(); ++index) {
    if (SSL_CTX_add1_chain_cert(&context, certificates[index].get()) != 1) {
      return Wrong(files.certificate, TakeTlsError());
    }
  }
  const std::unique_ptr<BIO, Free> bio(
      BIO_new_mem_buf(texts.key.data(), static_cast<int>(texts.key.size())));
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) {
    return Wrong(files.key, Cat("there is no private key in it, or one with a password, of which "
                                "there is nobody to ask: ",
                                TakeTlsError()));
  }
  if (X509_check_private_key(certificates[0].get(), key.get()) != 1) {
    TakeTlsError();
    return Wrong(files.key, Cat("it is not the key of the certificate in ", files.certificate));
  }
  if (SSL_CTX_use_PrivateKey(&context, key.get()) != 1) return Wrong(files.key, TakeTlsError());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Certificate>> Trust(SSL_CTX& context, const std::string& path,
                                               const std::string& text) {
  KERF_ASSIGN_OR_RETURN(std::vector<Certificate> certificates, ParseCertificates(path, text));
  X509_STORE* const store = SSL_CTX_get_cert_store(&context);
  for (const Certificate& certificate : certificates) {
    if (X509_STORE_add_cert(store, certificate.get()) != 1) return Wrong(path, TakeTlsError());
  }
  return certificates;
}

// For clients that have several certificates, and look for one that is wanted.
void TellOfCas(SSL_CTX& context, const std::vector<Certificate>& cas) {
  std::size_t size = 0;
  for (const Certificate& ca : cas) {
    size += static_cast<std::size_t>(
        std::max(0, i2d_X509_NAME(X509_get_subject_name(ca.get()), nullptr)));
  }
  if (size > kMaxCaNamesBytes) return;
  for (const Certificate& ca : cas) KERF_CHECK(SSL_CTX_add_client_CA(&context, ca.get()) == 1);
}

template <const auto& kProtocol>
int SelectProtocol(SSL* /*session*/, const unsigned char** out, unsigned char* out_size,
                   const unsigned char* in, unsigned in_size, void* /*user*/) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kProtocol.data(), kProtocol.size(), in, in_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

void SetProtocol(SSL_CTX& context, TlsRules::Side side) {
  KERF_CHECK(SSL_CTX_set_min_proto_version(&context, TLS1_3_VERSION) == 1);
  KERF_CHECK(SSL_CTX_set_ciphersuites(&context, kCiphers) == 1);
  // SSL_CTX_set1_groups_list, whose macro casts as C does.
  KERF_CHECK(SSL_CTX_ctrl(&context, SSL_CTRL_SET_GROUPS_LIST, 0, const_cast<char*>(kGroups)) == 1);
  SSL_CTX_set_options(&context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                    SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(&context, 0);
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  // Whoever waits has no buffers. What is shown is what stands in the file, and is not looked for
  // among the CAs in each handshake.
  SSL_CTX_set_mode(&context, SSL_MODE_NO_AUTO_CHAIN | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  // A client may send nothing but records that bring no data: a server looks at each of them, or
  // would be OpenSSL's for as long as they come.
  const bool is_server = side != TlsRules::Side::kClient;
  if (is_server) SSL_CTX_clear_mode(&context, SSL_MODE_AUTO_RETRY);
  if (is_server) SSL_CTX_set_max_cert_list(&context, kMaxPeerCertificateBytes);
  // Not where libevent reads: it waits for the socket while OpenSSL holds what has come, and what
  // comes with the end of a handshake would never be seen.
  SSL_CTX_set_read_ahead(&context, side == TlsRules::Side::kHttpServer ? 0 : 1);
  SSL_CTX_set_verify_depth(&context, kMaxChainLength);
}

std::int64_t EndOf(const X509& certificate) {
  std::tm fields{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &fields) != 1) return 0;
  return timegm(&fields);
}

}  // namespace

absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsFiles& files) {
  TlsTexts texts;
  if (!files.certificate.empty()) {
    KERF_ASSIGN_OR_RETURN(texts.certificate, ReadSmallFile(files.certificate, kMaxFileBytes));
    KERF_ASSIGN_OR_RETURN(texts.key, ReadSmallFile(files.key, kMaxFileBytes));
  }
  if (!files.ca.empty()) {
    KERF_ASSIGN_OR_RETURN(texts.ca, ReadSmallFile(files.ca, kMaxFileBytes));
  }
  return texts;
}

absl::StatusOr<std::shared_ptr<const TlsContext>> TlsContext::Make(const TlsRules& rules,
                                                                   const TlsTexts& texts) {
  const TlsFiles& files = rules.files;
  const bool is_server = rules.side != TlsRules::Side::kClient;
  std::shared_ptr<TlsContext> made(new TlsContext);
  made->context_.reset(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method()));
  KERF_CHECK(made->context_ != nullptr);
  SSL_CTX& context = *made->context_;
  SetProtocol(context, rules.side);
  // A file that is empty is a wrong one, as one is that is being written: without a certificate
  // nobody would come in any more.
  if (is_server || !files.certificate.empty() || !texts.certificate.empty()) {
    KERF_RETURN_IF_ERROR(UseCertificate(context, files, texts));
    X509* const own = SSL_CTX_get0_certificate(&context);
    made->expires_at_s_ = EndOf(*own);
    made->is_for_clients_ = X509_check_purpose(own, X509_PURPOSE_SSL_CLIENT, 0) == 1;
  }
  if (!files.ca.empty()) {
    KERF_ASSIGN_OR_RETURN(const std::vector<Certificate> cas, Trust(context, files.ca, texts.ca));
    if (is_server) TellOfCas(context, cas);
    if (!rules.also_trusted.empty()) {
      KERF_RETURN_IF_ERROR(Trust(context, "this process's own", rules.also_trusted).status());
    }
  } else if (!is_server && SSL_CTX_set_default_verify_paths(&context) != 1) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat("the CAs that the system knows cannot be read: ", TakeTlsError())));
  }
  if (is_server) {
    const bool is_http2 = rules.side == TlsRules::Side::kHttp2Server;
    SSL_CTX_set_alpn_select_cb(&context, is_http2 ? SelectProtocol<kHttp2> : SelectProtocol<kHttp>,
                               nullptr);
    int who = files.ca.empty() ? SSL_VERIFY_NONE : SSL_VERIFY_PEER;
    if (!files.ca.empty() && !rules.is_certificate_optional) who |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_CTX_set_verify(&context, who, nullptr);
  } else {
    SSL_CTX_set_verify(&context, SSL_VERIFY_PEER, nullptr);
  }
  made->texts_ = texts;
  return made;
}

std::chrono::hours TlsContext::TimeLeft() const {
  // What a certificate says is by the clock of the wall.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::floor<std::chrono::hours>(std::chrono::seconds(expires_at_s_) - now);
}

TlsSession TlsContext::NewSession() const {
  TlsSession session(SSL_new(context_.get()));
  KERF_CHECK(session != nullptr);
  return session;
}

std::string ProvenName(const SSL& session) {
  return IsProven(session) ? IdentityNameOf(*SSL_get0_peer_certificate(&session)) : "";
}

bool IsProven(const SSL& session) {
  return SSL_get0_peer_certificate(&session) != nullptr &&
         SSL_get_verify_mode(&session) != SSL_VERIFY_NONE &&
         SSL_get_verify_result(&session) == X509_V_OK;
}

std::optional<std::int64_t> PeerExpiresAt(const SSL& session) {
  const X509* const certificate = SSL_get0_peer_certificate(&session);
  if (certificate == nullptr) return std::nullopt;
  return FactsOf(*certificate).expires_at_s;
}

void ExpectName(SSL& session, const std::string& host) {
  X509_VERIFY_PARAM* const rules = SSL_get0_param(&session);
  std::array<unsigned char, sizeof(in6_addr)> address;
  const bool is_address = inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
                          inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
  if (is_address) {
    KERF_CHECK(X509_VERIFY_PARAM_set1_ip_asc(rules, host.c_str()) == 1);
    return;
  }
  X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  KERF_CHECK(X509_VERIFY_PARAM_set1_host(rules, host.data(), host.size()) == 1);
  // SSL_set_tlsext_host_name, whose macro casts as C does.
  KERF_CHECK(SSL_ctrl(&session, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                      const_cast<char*>(host.c_str())) == 1);
}

std::string TakeTlsError() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  if (error == 0) return "no reason is given";
  const char* const reason = ERR_reason_error_string(error);
  return reason == nullptr ? Cat("error ", error) : std::string(reason);
}

}  // namespace kerf
