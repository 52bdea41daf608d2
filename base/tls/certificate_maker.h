// Keys and certificates for those who have no CA of their own: `kerf tls init`, and tests.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kerf {

// P-256, both PEM. The key is a secret.
struct CertifiedKey {
  std::string certificate;
  std::string key;
};

struct CertificateRequest {
  // For people; peers look at the names below.
  std::string common_name;
  // DNS names, IP addresses and URIs ("spiffe://..."), each told from the others by its form.
  std::vector<std::string> names = {};
  bool is_for_servers = false;
  bool is_for_clients = false;
  // From some minutes ago, for clocks that do not agree.
  std::chrono::hours valid_for{24 * 365};
};

// Signs certificates, and no CAs. InvalidArgument for a name that cannot stand in a certificate.
absl::StatusOr<CertifiedKey> MakeCertificateAuthority(const std::string& common_name,
                                                      std::chrono::hours valid_for);
absl::StatusOr<CertifiedKey> MakeCertificate(const CertificateRequest& request,
                                             const CertifiedKey& authority);
// Signed by itself, for whoever is shown it before. From 1970 on.
absl::StatusOr<CertifiedKey> MakeOwnCertificate(const CertificateRequest& request);

}  // namespace kerf
