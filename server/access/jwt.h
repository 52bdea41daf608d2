// JSON Web Tokens (RFC 7519), signed (RFC 7515) by RS256, ES256 or EdDSA; what else there is in
// this family is not known here (RFC 8725).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/access/identity.h"
#include "server/access/jwk_set.h"

namespace kerf::access {

// Whose tokens are taken.
struct JwtIssuer {
  // "iss", without a '#'.
  std::string name = {};
  // That "aud" has to name.
  std::string audience = {};
  JwkSet keys = {};
};

inline constexpr std::size_t kMaxJwtBytes = 8 << 10;

struct SignedText {
  std::string payload;
  // Of the key that has signed it.
  ProofHash key_hash;
};

// What was signed; nothing: it is no token, or none of these keys has signed it.
std::optional<SignedText> VerifyJws(std::string_view token, const JwkSet& keys);

enum class JwtVerdict : std::uint8_t { kGood, kBad, kExpired };
struct JwtCaller {
  JwtVerdict verdict = JwtVerdict::kBad;
  // Only if it is good: "jwt/ISS#SUB", its end, and the key that has signed it.
  Identity identity = {};
};

// Who shows this token, which its issuer has to have signed for this audience, and which has to
// have an end ("exp") that is not over, a beginning ("nbf") that is, if it has one, and somebody it
// is about ("sub"). Clocks may differ by a minute. `now_s`: seconds since 1970.
JwtCaller CallerOf(std::string_view token, const std::vector<JwtIssuer>& issuers,
                   std::int64_t now_s);

}  // namespace kerf::access
