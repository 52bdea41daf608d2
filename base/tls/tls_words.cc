#include "base/tls/tls_words.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <memory>

#include "base/strings.h"

namespace kerf {
namespace {

// Alerts of the other side, as OpenSSL numbers their reasons.
constexpr int kFirstAlertReason = 1000;

// Of which the certificate had to be.
std::string WantedName(SSL& session) {
  X509_VERIFY_PARAM* const rules = SSL_get0_param(&session);
  if (const char* const host = X509_VERIFY_PARAM_get0_host(rules, 0); host != nullptr) return host;
  const auto release = [](char* text) { OPENSSL_free(text); };
  const std::unique_ptr<char, decltype(release)> address(X509_VERIFY_PARAM_get1_ip_asc(rules),
                                                         release);
  return address == nullptr ? "the name that is wanted" : std::string(address.get());
}

std::string WordsOfCertificate(SSL& session, long verdict) {
  if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
    return Cat("its certificate is not of ", WantedName(session));
  }
  return Cat("its certificate is not accepted: ", X509_verify_cert_error_string(verdict));
}

std::string WordsOfReason(int reason, const std::string& text, bool is_up) {
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_BAD_RECORD_TYPE:
      return is_up ? Cat("TLS: ", text) : Cat("it does not speak TLS there (", text, ")");
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
      return is_up ? "it closed the connection" : "it closed the connection before TLS was up";
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
      return "it does not speak TLS 1.3";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return "it asks for a certificate, and none was shown to it";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
      return Cat("it refuses the certificate that was shown to it: ", text);
    default:
      return reason > kFirstAlertReason ? Cat("it ends TLS: ", text) : Cat("TLS: ", text);
  }
}

}  // namespace

std::string TlsFailureInWords(SSL& session, bool is_up) {
  const int reason = ERR_GET_REASON(ERR_peek_last_error());
  const long verdict = SSL_get_verify_result(&session);
  const char* const known = ERR_reason_error_string(ERR_peek_last_error());
  const std::string text = known == nullptr ? Cat("error ", reason) : known;
  ERR_clear_error();
  if (!is_up && reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verdict != X509_V_OK) {
    return WordsOfCertificate(session, verdict);
  }
  return WordsOfReason(reason, text, is_up);
}

}  // namespace kerf
