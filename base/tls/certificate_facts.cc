#include "base/tls/certificate_facts.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>

#include "base/strings.h"

namespace kerf {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};

using Names = std::unique_ptr<GENERAL_NAMES, Free>;

constexpr std::size_t kMaxIdentityBytes = 256;

std::string TextOf(const ASN1_STRING& text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(&text)),
          static_cast<std::size_t>(ASN1_STRING_length(&text))};
}

// Empty: of a kind that no program of kerf looks at.
std::string NameOf(const GENERAL_NAME& name) {
  switch (name.type) {
    case GEN_DNS:
      return TextOf(*name.d.dNSName);
    case GEN_URI:
      return TextOf(*name.d.uniformResourceIdentifier);
    case GEN_IPADD: {
      const std::string bytes = TextOf(*name.d.iPAddress);
      const bool is_short = bytes.size() == sizeof(in_addr);
      if (!is_short && bytes.size() != sizeof(in6_addr)) return "";
      std::array<char, INET6_ADDRSTRLEN> text{};
      inet_ntop(is_short ? AF_INET : AF_INET6, bytes.data(), text.data(), text.size());
      return text.data();
    }
    default:
      return "";
  }
}

// Null, of which there are none, if it has none.
Names NamesOf(const X509& certificate) {
  Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  ERR_clear_error();
  return names;
}

bool IsVisible(std::string_view text) {
  return !text.empty() && text.size() <= kMaxIdentityBytes &&
         std::all_of(text.begin(), text.end(),
                     [](char character) { return character > ' ' && character <= '~'; });
}

std::int64_t SecondsOf(const ASN1_TIME* time) {
  std::tm fields{};
  return ASN1_TIME_to_tm(time, &fields) == 1 ? timegm(&fields) : 0;
}

// Null: there is none.
std::unique_ptr<X509, Free> Parse(std::string_view text) {
  const std::unique_ptr<BIO, Free> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  std::unique_ptr<X509, Free> certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}

}  // namespace

std::string IdentityNameOf(const X509& certificate) {
  const Names names = NamesOf(certificate);
  for (const int type : {GEN_URI, GEN_DNS}) {
    for (int index = 0; index < sk_GENERAL_NAME_num(names.get()); ++index) {
      const GENERAL_NAME& name = *sk_GENERAL_NAME_value(names.get(), index);
      if (name.type != type) continue;
      const std::string text = NameOf(name);
      return IsVisible(text) ? text : "";
    }
  }
  return "";
}

CertificateFacts FactsOf(const X509& certificate) {
  CertificateFacts facts;
  facts.begins_at_s = SecondsOf(X509_get0_notBefore(&certificate));
  facts.expires_at_s = SecondsOf(X509_get0_notAfter(&certificate));
  const Names names = NamesOf(certificate);
  for (int index = 0; index < sk_GENERAL_NAME_num(names.get()); ++index) {
    const std::string name = NameOf(*sk_GENERAL_NAME_value(names.get(), index));
    if (!name.empty()) facts.names.push_back(name);
  }
  return facts;
}

absl::StatusOr<CertificateFacts> ReadCertificateFacts(std::string_view text) {
  const std::unique_ptr<X509, Free> certificate = Parse(text);
  if (certificate == nullptr) return absl::InvalidArgumentError("there is no certificate in it");
  return FactsOf(*certificate);
}

bool IsSignedBy(std::string_view certificate, std::string_view ca) {
  const std::unique_ptr<X509, Free> signed_one = Parse(certificate);
  const std::unique_ptr<X509, Free> signer = Parse(ca);
  if (signed_one == nullptr || signer == nullptr) return false;
  const bool is_signed = X509_check_issued(signer.get(), signed_one.get()) == X509_V_OK &&
                         X509_verify(signed_one.get(), X509_get0_pubkey(signer.get())) == 1;
  ERR_clear_error();
  return is_signed;
}

std::string FormatCertificateTime(std::int64_t at_s) {
  const std::time_t time = at_s;
  std::tm fields{};
  std::array<char, 64> text{};
  if (gmtime_r(&time, &fields) == nullptr) return Cat(at_s, " s after 1970");
  strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &fields);
  return text.data();
}

}  // namespace kerf
