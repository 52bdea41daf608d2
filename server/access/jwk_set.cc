#include "server/access/jwk_set.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/strings.h"
#include "server/access/base64_url.h"

namespace kerf::access {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxKeys = 256;
// What others can factor is no key.
constexpr int kMinRsaBits = 2048;
constexpr std::size_t kMaxRsaBytes = 1024;
constexpr std::size_t kP256Bytes = 32;
constexpr std::size_t kEd25519Bytes = 32;
constexpr unsigned char kUncompressedPoint = 4;

struct Free {
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
  void operator()(OSSL_PARAM* parameters) const { OSSL_PARAM_free(parameters); }
  void operator()(OSSL_PARAM_BLD* builder) const { OSSL_PARAM_BLD_free(builder); }
  void operator()(BIGNUM* number) const { BN_free(number); }
};
template <typename Thing>
using Owned = std::unique_ptr<Thing, Free>;
using Key = std::unique_ptr<EVP_PKEY, KeyFree>;

// Empty: it is not there, or no text.
std::string TextOf(const json& key, const char* member) {
  const auto found = key.find(member);
  return found == key.end() || !found->is_string() ? "" : found->get<std::string>();
}

// Empty: it is not there, or none.
std::string BytesOf(const json& key, const char* member) {
  return DecodeBase64Url(TextOf(key, member)).value_or("");
}

Key MakeKey(const char* type, OSSL_PARAM_BLD& builder) {
  const Owned<OSSL_PARAM> parameters(OSSL_PARAM_BLD_to_param(&builder));
  const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  const bool is_made =
      parameters != nullptr && context != nullptr && EVP_PKEY_fromdata_init(context.get()) == 1 &&
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) == 1;
  Key made(is_made ? key : nullptr);
  if (made != nullptr) {
    // That by it not everybody can sign.
    const Owned<EVP_PKEY_CTX> check(EVP_PKEY_CTX_new_from_pkey(nullptr, made.get(), nullptr));
    if (check == nullptr || EVP_PKEY_public_check(check.get()) != 1) made = nullptr;
  }
  ERR_clear_error();
  return made;
}

Owned<BIGNUM> NumberOf(const std::string& bytes) {
  return Owned<BIGNUM>(BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()),
                                 static_cast<int>(bytes.size()), nullptr));
}

Key RsaKey(const json& jwk) {
  const std::string modulus = BytesOf(jwk, "n");
  const std::string exponent = BytesOf(jwk, "e");
  if (modulus.empty() || modulus.size() > kMaxRsaBytes || exponent.empty() ||
      exponent.size() > sizeof(std::uint64_t)) {
    return nullptr;
  }
  const Owned<BIGNUM> n = NumberOf(modulus);
  const Owned<BIGNUM> e = NumberOf(exponent);
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get());
  Key key = MakeKey("RSA", *builder);
  if (key != nullptr && EVP_PKEY_get_bits(key.get()) < kMinRsaBits) return nullptr;
  return key;
}

Key P256Key(const json& jwk) {
  const std::string x = BytesOf(jwk, "x");
  const std::string y = BytesOf(jwk, "y");
  if (x.size() != kP256Bytes || y.size() != kP256Bytes) return nullptr;
  const std::string point = Cat(std::string(1, kUncompressedPoint), x, y);
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0);
  OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                   point.size());
  return MakeKey("EC", *builder);
}

Key Ed25519Key(const json& jwk) {
  const std::string x = BytesOf(jwk, "x");
  if (x.size() != kEd25519Bytes) return nullptr;
  return Key(EVP_PKEY_new_raw_public_key(
      EVP_PKEY_ED25519, nullptr, reinterpret_cast<const unsigned char*>(x.data()), x.size()));
}

// What a key is used with, by its kind; nothing: it is of no use here.
std::optional<SignatureAlgorithm> AlgorithmOf(const json& jwk) {
  const std::string type = TextOf(jwk, "kty");
  const std::string curve = TextOf(jwk, "crv");
  const std::string algorithm = TextOf(jwk, "alg");
  const std::string use = TextOf(jwk, "use");
  if (!use.empty() && use != "sig") return std::nullopt;
  const auto is_for = [&](std::string_view name) { return algorithm.empty() || algorithm == name; };
  if (type == "RSA" && is_for("RS256")) return SignatureAlgorithm::kRs256;
  if (type == "EC" && curve == "P-256" && is_for("ES256")) return SignatureAlgorithm::kEs256;
  if (type == "OKP" && curve == "Ed25519" && is_for("EdDSA")) return SignatureAlgorithm::kEdDsa;
  return std::nullopt;
}

Key KeyOf(SignatureAlgorithm algorithm, const json& jwk) {
  switch (algorithm) {
    case SignatureAlgorithm::kRs256:
      return RsaKey(jwk);
    case SignatureAlgorithm::kEs256:
      return P256Key(jwk);
    case SignatureAlgorithm::kEdDsa:
      break;
  }
  return Ed25519Key(jwk);
}

ProofHash HashOf(EVP_PKEY& key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(&key, &der);
  ProofHash hash{};
  SHA256(der, static_cast<std::size_t>(std::max(0, size)), hash.data());
  OPENSSL_free(der);
  return hash;
}

absl::Status Wrong(std::string_view what) {
  return absl::InvalidArgumentError(ToAbsl(Cat("no set of public keys (JWKS): ", what)));
}

}  // namespace

absl::StatusOr<JwkSet> JwkSet::Parse(std::string_view text) {
  constexpr auto kMaxSame = static_cast<std::ptrdiff_t>(kMaxKeysOfOneName);
  const json set = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!set.is_object() || !set.contains("keys") || !set["keys"].is_array()) {
    return Wrong("it is {\"keys\": [...]}");
  }
  if (set["keys"].size() > kMaxKeys) return Wrong(Cat("more than ", kMaxKeys, " keys"));
  JwkSet result;
  for (const json& jwk : set["keys"]) {
    const std::string where = Cat("key ", &jwk - &set["keys"][0] + 1, ": ");
    if (!jwk.is_object()) return Wrong(where + "it is no object");
    // Whoever reads this file could sign with it.
    if (jwk.contains("d") || jwk.contains("k")) return Wrong(where + "it is a secret one");
    const std::optional<SignatureAlgorithm> algorithm = AlgorithmOf(jwk);
    if (!algorithm.has_value()) continue;
    Key key = KeyOf(*algorithm, jwk);
    if (key == nullptr) return Wrong(where + "it is no good key, or one of RSA with few bits");
    const ProofHash hash = HashOf(*key);
    const std::string id = TextOf(jwk, "kid");
    const auto is_same = [&](const Jwk& other) {
      return other.algorithm == *algorithm && other.id == id;
    };
    const std::vector<Jwk>& keys = result.keys_;
    if (std::count_if(keys.begin(), keys.end(), is_same) >= kMaxSame) {
      return Wrong(
          Cat(where, "more than ", kMaxSame, " of one kind need names of their own (kid)"));
    }
    result.keys_.push_back({id, *algorithm, std::move(key), hash});
  }
  if (result.keys_.empty()) return Wrong("no key is for RS256, ES256 or EdDSA (Ed25519)");
  return result;
}

}  // namespace kerf::access
