// What a certificate says of itself.
#pragma once

#include <openssl/x509.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kerf {

struct CertificateFacts {
  // DNS names, IP addresses and URIs, as certificate_maker.h takes them.
  std::vector<std::string> names;
  // Seconds since 1970.
  std::int64_t begins_at_s = 0;
  std::int64_t expires_at_s = 0;
};

CertificateFacts FactsOf(const X509& certificate);

// Whose certificate it is, for whoever asks who calls: its first URI, or else its first DNS name,
// never its common name. Empty: it has neither, or what stands there is not 1 to 256 visible
// characters of ASCII.
std::string IdentityNameOf(const X509& certificate);

// Of the first certificate in a text of PEM; InvalidArgument if there is none.
absl::StatusOr<CertificateFacts> ReadCertificateFacts(std::string_view text);

// Whether the first certificate of a text of PEM is signed by the CA that is the first of another.
// Says nothing of times and purposes.
bool IsSignedBy(std::string_view certificate, std::string_view ca);

// "2026-11-25 18:00 UTC".
std::string FormatCertificateTime(std::int64_t at_s);

}  // namespace kerf
