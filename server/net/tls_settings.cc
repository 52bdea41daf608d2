#include "server/net/tls_settings.h"

#include "base/strings.h"
#include "server/net/listen_address.h"

namespace kerf {

void AddTlsSettings(OptionSet& options, TlsSettings& settings) {
  options.AddText({"tls-cert",
                   "Serve over TLS 1.3 alone, with this certificate (PEM; behind it those between "
                   "it and its CA). It and the files below are read anew when they change. Unix "
                   "sockets stay as they are",
                   "FILE"},
                  settings.files.certificate);
  options.AddText({"tls-key", "The key of --tls-cert (PEM, without a password)", "FILE"},
                  settings.files.key);
  options.AddText({"tls-client-ca",
                   "Serve only clients that show a certificate of one of these CAs (PEM); who "
                   "reads metrics is for --metrics-client-ca to say",
                   "FILE"},
                  settings.files.ca);
  options.AddBool({"tls-client-optional",
                   "Serve clients without a certificate, too: those who show a token (--access)"},
                  settings.is_client_certificate_optional);
  options.AddBool({"insecure",
                   "Serve other machines without TLS: whoever can reach --listen reads and changes "
                   "what is sent"},
                  settings.is_insecure);
}

std::string FindTlsContradiction(const TlsSettings& settings,
                                 const std::vector<std::string>& listen) {
  const TlsFiles& files = settings.files;
  if (files.certificate.empty() != files.key.empty()) {
    return "--tls-cert and --tls-key belong together: a certificate, and its key";
  }
  if (files.ca.empty() && settings.is_client_certificate_optional) {
    return "--tls-client-optional is for --tls-client-ca: without it no certificate is asked for";
  }
  if (!files.certificate.empty()) {
    return settings.is_insecure ? "--insecure and --tls-cert: with TLS nothing is insecure" : "";
  }
  if (!files.ca.empty()) return "--tls-client-ca is for TLS: add --tls-cert and --tls-key";
  if (settings.is_insecure) return "";
  for (const std::string& text : listen) {
    const auto address = ParseListenAddress(text);
    if (!address.ok() || address->is_unix || IsLoopback(*address)) continue;
    return Cat("--listen ", text,
               ": other machines are served over TLS: add --tls-cert and --tls-key (`kerf tls "
               "init` makes them), or --insecure if you trust everybody who can reach it");
  }
  return "";
}

}  // namespace kerf
