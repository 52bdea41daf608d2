#include "server/access/jwt.h"

#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "server/access/base64_url.h"

namespace kerf::access {
namespace {

using nlohmann::json;

constexpr std::int64_t kLeewaySeconds = 60;
constexpr std::size_t kP256Bytes = 32;
// Beyond which seconds are no longer whole in a double.
constexpr double kMaxSeconds = 9e15;

struct Free {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(ECDSA_SIG* signature) const { ECDSA_SIG_free(signature); }
};

struct Parts {
  std::string_view header;
  std::string_view payload;
  std::string_view signature;
  // The first two, with the point between them.
  std::string_view is_signed;
};

std::optional<Parts> Split(std::string_view token) {
  const std::size_t first = token.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t second = token.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  if (token.find('.', second + 1) != std::string_view::npos) return std::nullopt;
  return Parts{token.substr(0, first), token.substr(first + 1, second - first - 1),
               token.substr(second + 1), token.substr(0, second)};
}

// Discarded if it is no object.
json ObjectOf(std::string_view base64) {
  const std::optional<std::string> text = DecodeBase64Url(base64);
  if (!text.has_value()) return json(json::value_t::discarded);
  json object = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : json(json::value_t::discarded);
}

// Nothing: it is not there, or no text.
std::optional<std::string> TextOf(const json& object, const char* member) {
  const auto found = object.find(member);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<SignatureAlgorithm> AlgorithmOf(const json& header) {
  const std::string name = TextOf(header, "alg").value_or("");
  if (name == "RS256") return SignatureAlgorithm::kRs256;
  if (name == "ES256") return SignatureAlgorithm::kEs256;
  if (name == "EdDSA") return SignatureAlgorithm::kEdDsa;
  return std::nullopt;
}

// OpenSSL has the two numbers of a signature in DER; here they stand side by side (RFC 7518, 3.4).
std::string DerOf(const std::string& signature) {
  if (signature.size() != 2 * kP256Bytes) return "";
  const auto* const bytes = reinterpret_cast<const unsigned char*>(signature.data());
  const std::unique_ptr<ECDSA_SIG, Free> both(ECDSA_SIG_new());
  BIGNUM* const r = BN_bin2bn(bytes, kP256Bytes, nullptr);
  BIGNUM* const s = BN_bin2bn(bytes + kP256Bytes, kP256Bytes, nullptr);
  ECDSA_SIG_set0(both.get(), r, s);
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(both.get(), &der);
  std::string result(reinterpret_cast<const char*>(der),
                     static_cast<std::size_t>(std::max(0, size)));
  OPENSSL_free(der);
  return result;
}

bool IsSignedBy(const Jwk& jwk, std::string_view text, const std::string& shown) {
  const std::string signature = jwk.algorithm == SignatureAlgorithm::kEs256 ? DerOf(shown) : shown;
  const EVP_MD* const digest = jwk.algorithm == SignatureAlgorithm::kEdDsa ? nullptr : EVP_sha256();
  const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
  const bool is_good =
      EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, jwk.key.get()) == 1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                       signature.size(), reinterpret_cast<const unsigned char*>(text.data()),
                       text.size()) == 1;
  ERR_clear_error();
  return is_good;
}

// Seconds since 1970; nothing: it is not there, or no time.
std::optional<std::int64_t> TimeOf(const json& claims, const char* member) {
  const auto found = claims.find(member);
  if (found == claims.end() || !found->is_number()) return std::nullopt;
  const double seconds = found->get<double>();
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kMaxSeconds) return std::nullopt;
  return static_cast<std::int64_t>(seconds);
}

bool IsFor(const json& claims, const std::string& audience) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return false;
  if (found->is_string()) return *found == audience;
  return found->is_array() && std::any_of(found->begin(), found->end(), [&](const json& one) {
           return one.is_string() && one == audience;
         });
}

// By what it says itself, before anybody has looked at its signature.
const JwtIssuer* IssuerOf(std::string_view token, const std::vector<JwtIssuer>& issuers) {
  const std::optional<Parts> parts = Split(token);
  if (!parts.has_value()) return nullptr;
  const json claims = ObjectOf(parts->payload);
  if (claims.is_discarded()) return nullptr;
  const std::optional<std::string> name = TextOf(claims, "iss");
  const auto found = std::find_if(issuers.begin(), issuers.end(),
                                  [&](const JwtIssuer& issuer) { return issuer.name == name; });
  return found == issuers.end() ? nullptr : &*found;
}

}  // namespace

std::optional<SignedText> VerifyJws(std::string_view token, const JwkSet& keys) {
  if (token.size() > kMaxJwtBytes) return std::nullopt;
  const std::optional<Parts> parts = Split(token);
  if (!parts.has_value()) return std::nullopt;
  const json header = ObjectOf(parts->header);
  // What has to be understood ("crit") is not understood here.
  if (header.is_discarded() || header.contains("crit")) return std::nullopt;
  const std::optional<SignatureAlgorithm> algorithm = AlgorithmOf(header);
  const std::optional<std::string> signature = DecodeBase64Url(parts->signature);
  if (!algorithm.has_value() || !signature.has_value()) return std::nullopt;
  if (header.contains("kid") && !header["kid"].is_string()) return std::nullopt;
  const std::optional<std::string> id = TextOf(header, "kid");
  std::size_t tried_count = 0;
  for (const Jwk& jwk : keys.keys()) {
    // Never by what the token says of its key, but by what the key is for.
    if (jwk.algorithm != *algorithm) continue;
    if (id.has_value() && !jwk.id.empty() && jwk.id != *id) continue;
    // Those of its name, and those without one.
    if (++tried_count > 2 * kMaxKeysOfOneName) return std::nullopt;
    if (!IsSignedBy(jwk, parts->is_signed, *signature)) continue;
    std::optional<std::string> payload = DecodeBase64Url(parts->payload);
    if (!payload.has_value()) return std::nullopt;
    return SignedText{*std::move(payload), jwk.hash};
  }
  return std::nullopt;
}

JwtCaller CallerOf(std::string_view token, const std::vector<JwtIssuer>& issuers,
                   std::int64_t now_s) {
  const JwtIssuer* const issuer = IssuerOf(token, issuers);
  if (issuer == nullptr) return {};
  const std::optional<SignedText> text = VerifyJws(token, issuer->keys);
  if (!text.has_value()) return {};
  const json claims = json::parse(text->payload, nullptr, /*allow_exceptions=*/false);
  const std::optional<std::int64_t> expires_at_s = TimeOf(claims, "exp");
  const std::optional<std::string> subject = TextOf(claims, "sub");
  if (!expires_at_s.has_value() || subject.value_or("").empty()) return {};
  if (!IsFor(claims, issuer->audience)) return {};
  if (claims.contains("nbf")) {
    const std::optional<std::int64_t> begins_at_s = TimeOf(claims, "nbf");
    if (!begins_at_s.has_value() || now_s + kLeewaySeconds < *begins_at_s) return {};
  }
  const std::int64_t end_s = *expires_at_s + kLeewaySeconds;
  if (now_s >= end_s) return {JwtVerdict::kExpired, {}};
  Identity identity{Proof::kJwt, Cat("jwt/", issuer->name, "#", *subject), end_s, text->key_hash};
  if (!IsNameOf(identity.proof, identity.name)) return {};
  return {JwtVerdict::kGood, std::move(identity)};
}

}  // namespace kerf::access
