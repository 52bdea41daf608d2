#include "base/tls/certificate_maker.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf {
namespace {

constexpr std::chrono::minutes kBefore{10};
constexpr std::size_t kSerialBytes = 16;
// What a common name may be long.
constexpr std::size_t kMaxCommonNameBytes = 64;
constexpr long kX509Version3 = 2;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(BIGNUM* number) const { BN_free(number); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

// A key that is made, and the certificate that it is to be signed with.
struct Signer {
  Owned<X509> certificate;
  Owned<EVP_PKEY> key;
};

std::string TextOf(BIO& bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(&bio, &text);
  return {text, static_cast<std::size_t>(size)};
}

std::string PemOf(X509& certificate) {
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  KERF_CHECK(PEM_write_bio_X509(bio.get(), &certificate) == 1);
  return TextOf(*bio);
}

std::string PemOf(EVP_PKEY& key) {
  const Owned<BIO> bio(BIO_new(BIO_s_mem()));
  KERF_CHECK(
      PEM_write_bio_PKCS8PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return TextOf(*bio);
}

absl::StatusOr<Signer> Parse(const CertifiedKey& authority) {
  const auto bio_of = [](const std::string& text) {
    return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  };
  Signer signer;
  signer.certificate.reset(
      PEM_read_bio_X509(bio_of(authority.certificate).get(), nullptr, nullptr, nullptr));
  signer.key.reset(PEM_read_bio_PrivateKey(bio_of(authority.key).get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (signer.certificate == nullptr || signer.key == nullptr ||
      X509_check_private_key(signer.certificate.get(), signer.key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError("the CA is not a certificate and its key, both PEM");
  }
  return signer;
}

// "DNS:", "IP:" or "URI:" before it. What would end it and begin another one is refused.
absl::StatusOr<std::string> AlternativeName(std::string_view name) {
  std::array<unsigned char, sizeof(in6_addr)> address;
  const std::string text(name);
  if (inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
      inet_pton(AF_INET6, text.c_str(), address.data()) == 1) {
    return Cat("IP:", name);
  }
  if (name.find("://") != std::string_view::npos) {
    if (name.find_first_of(",\\\n\r ") == std::string_view::npos) return Cat("URI:", name);
  } else if (!name.empty() && name.size() < 254 &&
             name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789-._*") == std::string_view::npos) {
    return Cat("DNS:", name);
  }
  return absl::InvalidArgumentError(
      ToAbsl(Cat("'", name, "' is no name of a host, IP address or URI")));
}

void AddExtension(X509& certificate, X509& issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  const Owned<X509_EXTENSION> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  KERF_CHECK(extension != nullptr);
  KERF_CHECK(X509_add_ext(&certificate, extension.get(), -1) == 1);
}

void SetSerial(X509& certificate) {
  std::array<unsigned char, kSerialBytes> bytes;
  KERF_CHECK(RAND_bytes(bytes.data(), bytes.size()) == 1);
  // Positive, and not 0.
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x3F) | 0x40);
  const Owned<BIGNUM> number(BN_bin2bn(bytes.data(), bytes.size(), nullptr));
  KERF_CHECK(BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(&certificate)) != nullptr);
}

// A new key, and a certificate of it that has no issuer and no signature yet.
absl::StatusOr<Signer> Begin(const std::string& common_name, std::chrono::hours valid_for) {
  if (common_name.empty() || common_name.size() > kMaxCommonNameBytes) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat("'", common_name, "': a certificate's name has 1 to 64 bytes")));
  }
  Signer made{Owned<X509>(X509_new()), Owned<EVP_PKEY>(EVP_EC_gen("P-256"))};
  KERF_CHECK(made.certificate != nullptr && made.key != nullptr);
  X509& certificate = *made.certificate;
  X509_set_version(&certificate, kX509Version3);
  SetSerial(certificate);
  const auto seconds = [](auto duration) {
    return static_cast<long>(std::chrono::seconds(duration).count());
  };
  X509_gmtime_adj(X509_getm_notBefore(&certificate), -seconds(kBefore));
  X509_gmtime_adj(X509_getm_notAfter(&certificate), seconds(valid_for));
  X509_NAME* const name = X509_get_subject_name(&certificate);
  if (X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(common_name.data()),
                                 static_cast<int>(common_name.size()), -1, 0) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        ToAbsl(Cat("'", common_name, "' cannot be a certificate's name")));
  }
  X509_set_pubkey(&certificate, made.key.get());
  return made;
}

CertifiedKey Sign(Signer& made, EVP_PKEY& key) {
  KERF_CHECK(X509_sign(made.certificate.get(), &key, EVP_sha256()) != 0);
  return {.certificate = PemOf(*made.certificate), .key = PemOf(*made.key)};
}

absl::Status AddPurpose(const CertificateRequest& request, X509& certificate, X509& issuer) {
  std::string names;
  for (const std::string& name : request.names) {
    KERF_ASSIGN_OR_RETURN(const std::string one, AlternativeName(name));
    names += Cat(names.empty() ? "" : ",", one);
  }
  if (!names.empty()) AddExtension(certificate, issuer, NID_subject_alt_name, names);
  AddExtension(certificate, issuer, NID_key_usage, "critical,digitalSignature");
  std::string purposes;
  if (request.is_for_servers) purposes = "serverAuth";
  if (request.is_for_clients) purposes += purposes.empty() ? "clientAuth" : ",clientAuth";
  if (!purposes.empty()) AddExtension(certificate, issuer, NID_ext_key_usage, purposes);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CertifiedKey> MakeCertificateAuthority(const std::string& common_name,
                                                      std::chrono::hours valid_for) {
  KERF_ASSIGN_OR_RETURN(Signer made, Begin(common_name, valid_for));
  X509& certificate = *made.certificate;
  X509_set_issuer_name(&certificate, X509_get_subject_name(&certificate));
  AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  AddExtension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  AddExtension(certificate, certificate, NID_subject_key_identifier, "hash");
  return Sign(made, *made.key);
}

absl::StatusOr<CertifiedKey> MakeCertificate(const CertificateRequest& request,
                                             const CertifiedKey& authority) {
  KERF_ASSIGN_OR_RETURN(const Signer signer, Parse(authority));
  KERF_ASSIGN_OR_RETURN(Signer made, Begin(request.common_name, request.valid_for));
  X509& certificate = *made.certificate;
  X509_set_issuer_name(&certificate, X509_get_subject_name(signer.certificate.get()));
  AddExtension(certificate, *signer.certificate, NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(certificate, *signer.certificate, NID_subject_key_identifier, "hash");
  AddExtension(certificate, *signer.certificate, NID_authority_key_identifier, "keyid");
  KERF_RETURN_IF_ERROR(AddPurpose(request, certificate, *signer.certificate));
  return Sign(made, *signer.key);
}

absl::StatusOr<CertifiedKey> MakeOwnCertificate(const CertificateRequest& request) {
  KERF_ASSIGN_OR_RETURN(Signer made, Begin(request.common_name, request.valid_for));
  X509& certificate = *made.certificate;
  X509_set_issuer_name(&certificate, X509_get_subject_name(&certificate));
  // Whoever is shown it believes it whatever the time is, which may be set back at any moment.
  KERF_CHECK(ASN1_TIME_set(X509_getm_notBefore(&certificate), 0) != nullptr);
  AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(certificate, certificate, NID_subject_key_identifier, "hash");
  KERF_RETURN_IF_ERROR(AddPurpose(request, certificate, certificate));
  return Sign(made, *made.key);
}

}  // namespace kerf
