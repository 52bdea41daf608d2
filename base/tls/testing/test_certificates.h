// A CA, and those that it vouches for, for tests: made anew in each process.
#pragma once

#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/tls/certificate_maker.h"
#include "base/tls/tls_context.h"

namespace kerf {

// Thread-safe, as long as nobody changes it.
struct TestCertificates {
  TestCertificates()
      : ca(*MakeCertificateAuthority("kerf test CA", kYear)),
        server(Of("server", {"localhost", "127.0.0.1", "::1"}, true, false)),
        client(Of("client", {"spiffe://kerf.test/agent"}, false, true)) {}

  static const TestCertificates& Get() {
    static const TestCertificates all;
    return all;
  }

  CertifiedKey Of(const std::string& name, const std::vector<std::string>& names,
                  bool is_for_servers, bool is_for_clients,
                  std::chrono::hours valid_for = kYear) const {
    return *MakeCertificate({.common_name = name,
                             .names = names,
                             .is_for_servers = is_for_servers,
                             .is_for_clients = is_for_clients,
                             .valid_for = valid_for},
                            ca);
  }

  // Without files. Of a server: with_ca asks clients for certificates.
  std::shared_ptr<const TlsContext> ContextOf(TlsRules::Side side, const CertifiedKey& own,
                                              bool with_ca = true) const {
    const auto made = TlsContext::Make(
        {.side = side, .files = {.certificate = "own", .key = "key", .ca = with_ca ? "ca" : ""}},
        {.certificate = own.certificate, .key = own.key, .ca = with_ca ? ca.certificate : ""});
    KERF_CHECK(made.ok());
    return *made;
  }

  static constexpr std::chrono::hours kYear{24 * 365};
  CertifiedKey ca;
  CertifiedKey server;
  CertifiedKey client;
};

inline void WriteTlsFile(const std::string& path, std::string_view text) {
  std::ofstream(path) << text;
}

// NAME.pem and NAME.key in `folder`.
inline TlsFiles WriteTlsFiles(const std::string& folder, const std::string& name,
                              const CertifiedKey& key, const std::string& ca_path = "") {
  TlsFiles files{.certificate = folder + "/" + name + ".pem",
                 .key = folder + "/" + name + ".key",
                 .ca = ca_path};
  WriteTlsFile(files.certificate, key.certificate);
  WriteTlsFile(files.key, key.key);
  return files;
}

}  // namespace kerf
