#include "server/access/jwt.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/strings.h"

namespace kerf::access {
namespace {

// Made by another implementation (PyJWT 2.15.1), about agent-7, from 2001 to 2033.
constexpr char kKeys[] =
    "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"zk0-GLeWtoUWVCDVObqOKbsMv0pmyBU8qxHXW_qOBX9D_hK5zQ"
    "kuOzTibrkTytm-GL6fEYr3EHSSXe657qRf3qhYYsroqlQs3BGVFml7tlA7Bd84jIpq2CdqUA1nt6fTTEXt_xJs"
    "FwtKhAbCCPan_Ukjtxe3WoG2jFv5LEJOgYquoyB_BwLeXMpnzj10JkWeM9X7j8IxoJint6FUspaTN_lZf6OyVt"
    "YrJy5LH9Qpcc-y8t__fV21eKWaxb_IyklNNUpqDcnoduXdUhMjdTMnh_J19LOKx2MNGOGLjCRy2MBMjhJeugok"
    "roY8tB1fwl3fco5bMz4PXd0fX-JueM17kw\",\"e\":\"AQAB\",\"kid\":\"r1\"},{\"kty\":\"EC\",\""
    "crv\":\"P-256\",\"x\":\"Vpnh9un4PYFejRdRhUQoI-g3ji2tg44SB1qc8GvBdMA\",\"y\":\"JEYAy-My"
    "awMKJSLwvle0oZK7tFz9gJipMQo_SvZBylM\",\"kid\":\"e1\"},{\"x\":\"28p32uPyDv1RSUnqYFKSBCf"
    "ehSXyqO4HNWNnnM0OTDo\",\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"d1\"}]}";
constexpr char kRs256[] =
    "eyJhbGciOiJSUzI1NiIsImtpZCI6InIxIiwidHlwIjoiSldUIn0.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFt"
    "cGxlIiwic3ViIjoiYWdlbnQtNyIsImF1ZCI6WyJvdGhlciIsImtlcmYiXSwiZXhwIjoyMDAwMDAwMDAwLCJuYmYi"
    "OjEwMDAwMDAwMDB9.Ac5p3WMHcF5e98Q4rpuH3K46-NSvOLqjv8IoA0hu27QydcTv9Qt5SmKA0zZpt5wKf_u49iZ"
    "3xoexNXyeiFZokEMUANNg1aUHkDG5icqKEEj_gYPRh_762IcO4gk_846PjJuYNsPItvgD8mVcIcdZ5c39zSmW_CP"
    "nkSYbS8zk5U44gmZBb9ArZp39ax4THyrI7I6wF72VmJoW3GfK_w6Nd3Yuvrn7vPF8WRF7iXIhG98oXxwxB-4oTOx"
    "SfzSR5rAZXng2GpWdcBZ2MA8Q1hGXYQCP9uXw6Ew1bTmeqg5-a-eopMARU832GxxyB5DKnfpx1mgdj-oRq05e-iC"
    "4viAjqw";
constexpr char kEs256[] =
    "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUxIiwidHlwIjoiSldUIn0.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFt"
    "cGxlIiwic3ViIjoiYWdlbnQtNyIsImF1ZCI6WyJvdGhlciIsImtlcmYiXSwiZXhwIjoyMDAwMDAwMDAwLCJuYmYi"
    "OjEwMDAwMDAwMDB9.4EQ5pSH-wli57frHkQ5VnE9NDKgXyEBfxvsCoyrQ2m7fsknwX6tCspvm_HHCYY1bSs30pxf"
    "nSmDbdTvL84POxA";
constexpr char kEdDsa[] =
    "eyJhbGciOiJFZERTQSIsImtpZCI6ImQxIiwidHlwIjoiSldUIn0.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFt"
    "cGxlIiwic3ViIjoiYWdlbnQtNyIsImF1ZCI6WyJvdGhlciIsImtlcmYiXSwiZXhwIjoyMDAwMDAwMDAwLCJuYmYi"
    "OjEwMDAwMDAwMDB9.8zTA79znCjyGwWwkp6uv7umzXyDN9Sx1bk0jtDdFlPKAuElZCE3dggW-Cz3t3Ci07LX2QIu"
    "UuIeKZEQ8I4HuBQ";

constexpr std::int64_t kNow = 1'764'000'000;
constexpr std::int64_t kEnd = 2'000'000'000;

JwkSet Keys(std::string_view text) {
  auto keys = JwkSet::Parse(text);
  EXPECT_TRUE(keys.ok()) << keys.status();
  return *std::move(keys);
}

std::vector<JwtIssuer> Issuers() {
  return {{.name = "https://issuer.example", .audience = "kerf", .keys = Keys(kKeys)}};
}

std::string Encode(std::string_view bytes) {
  return absl::WebSafeBase64Escape(absl::string_view(bytes.data(), bytes.size()));
}

// Somebody who signs by EdDSA what nobody should.
class Signer {
 public:
  Signer() {
    std::array<unsigned char, 32> secret{};
    secret.fill(7);
    key_.reset(
        EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, secret.data(), secret.size()));
  }
  std::string JwkOf(const std::string& more = "") const {
    std::array<unsigned char, 32> open{};
    std::size_t size = open.size();
    EVP_PKEY_get_raw_public_key(key_.get(), open.data(), &size);
    return Cat(R"({"keys":[{"kty":"OKP","crv":"Ed25519","x":")",
               Encode({reinterpret_cast<const char*>(open.data()), size}), "\"", more, "}]}");
  }
  std::string Sign(std::string_view header, std::string_view claims) const {
    const std::string text = Cat(Encode(header), ".", Encode(claims));
    std::array<unsigned char, 64> signature{};
    std::size_t size = signature.size();
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          EVP_MD_CTX_free);
    EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get());
    EVP_DigestSign(context.get(), signature.data(), &size,
                   reinterpret_cast<const unsigned char*>(text.data()), text.size());
    return Cat(text, ".", Encode({reinterpret_cast<const char*>(signature.data()), size}));
  }
  JwtCaller Ask(std::string_view header, std::string_view claims) const {
    return CallerOf(Sign(header, claims),
                    {{.name = "i", .audience = "kerf", .keys = Keys(JwkOf())}}, kNow);
  }

 private:
  std::unique_ptr<EVP_PKEY, KeyFree> key_;
};

constexpr char kHeader[] = R"({"alg":"EdDSA"})";
constexpr char kClaims[] = R"({"iss":"i","sub":"s","aud":"kerf","exp":1800000000})";

TEST(JwtTest, WhatOthersHaveSignedIsTaken) {
  const std::vector<JwtIssuer> issuers = Issuers();
  for (const std::string_view token : {kRs256, kEs256, kEdDsa}) {
    const JwtCaller caller = CallerOf(token, issuers, kNow);
    ASSERT_EQ(caller.verdict, JwtVerdict::kGood) << token;
    EXPECT_EQ(caller.identity.name, "jwt/https://issuer.example#agent-7");
    EXPECT_EQ(caller.identity.proof, Proof::kJwt);
    EXPECT_EQ(caller.identity.expires_at_s, kEnd + 60);
    EXPECT_EQ(CallerOf(token, issuers, kEnd + 59).verdict, JwtVerdict::kGood);
    EXPECT_EQ(CallerOf(token, issuers, kEnd + 60).verdict, JwtVerdict::kExpired);
    EXPECT_EQ(CallerOf(token, issuers, 999'999'939).verdict, JwtVerdict::kBad) << "too early";
    EXPECT_EQ(CallerOf(token, issuers, 999'999'940).verdict, JwtVerdict::kGood);
    EXPECT_EQ(CallerOf(token, {}, kNow).verdict, JwtVerdict::kBad);
  }
}

TEST(JwtTest, AChangeAnywhereIsSeen) {
  const JwkSet keys = Keys(kKeys);
  for (const std::string token : {kRs256, kEs256, kEdDsa}) {
    for (std::size_t at = 0; at < token.size(); ++at) {
      for (const char other : {'A', 'B', '.', '='}) {
        std::string changed = token;
        if (changed[at] == other) continue;
        changed[at] = other;
        ASSERT_FALSE(VerifyJws(changed, keys).has_value()) << at << " " << other;
      }
      ASSERT_FALSE(VerifyJws(token.substr(0, at), keys).has_value());
    }
    EXPECT_FALSE(VerifyJws(token + "A", keys).has_value());
    EXPECT_FALSE(VerifyJws(token + "=", keys).has_value());
    EXPECT_FALSE(VerifyJws(token + ".", keys).has_value());
  }
}

// The signature of one algorithm is none of another, and "none" is none at all (RFC 8725, 3.1).
TEST(JwtTest, TheKeySaysWhatItIsUsedWith) {
  const Signer signer;
  EXPECT_EQ(signer.Ask(kHeader, kClaims).verdict, JwtVerdict::kGood);
  for (const std::string_view algorithm :
       {"none", "None", "HS256", "RS256", "ES256", "eddsa", ""}) {
    const std::string header = Cat(R"({"alg":")", algorithm, R"("})");
    EXPECT_EQ(signer.Ask(header, kClaims).verdict, JwtVerdict::kBad) << algorithm;
    const std::string without = Cat(Encode(header), ".", Encode(kClaims), ".");
    EXPECT_EQ(CallerOf(without, {{"i", "kerf", Keys(signer.JwkOf())}}, kNow).verdict,
              JwtVerdict::kBad);
  }
  for (const std::string_view header :
       {"{}", "[]", "1", "", R"({"alg":1})", R"({"alg":["EdDSA"]})", R"({"alg":"EdDSA","crit":[]})",
        R"({"alg":"EdDSA","crit":["b64"],"b64":false})", R"({"alg":"EdDSA","kid":1})"}) {
    EXPECT_EQ(signer.Ask(header, kClaims).verdict, JwtVerdict::kBad) << header;
  }
}

TEST(JwtTest, AKeyIsMetByItsName) {
  const Signer signer;
  const auto with = [&](const std::string& key, std::string_view header) {
    return VerifyJws(signer.Sign(header, kClaims), Keys(signer.JwkOf(key))).has_value();
  };
  EXPECT_TRUE(with(R"(,"kid":"a")", R"({"alg":"EdDSA","kid":"a"})"));
  EXPECT_FALSE(with(R"(,"kid":"a")", R"({"alg":"EdDSA","kid":"b"})"));
  EXPECT_TRUE(with(R"(,"kid":"a")", kHeader));
  EXPECT_TRUE(with("", R"({"alg":"EdDSA","kid":"b"})"));
}

TEST(JwtTest, WhatIsSaidHasToBeWhole) {
  const Signer signer;
  for (const std::string_view claims :
       {R"({})",
        R"([])",
        R"("i")",
        R"({"sub":"s","aud":"kerf","exp":1800000000})",
        R"({"iss":"j","sub":"s","aud":"kerf","exp":1800000000})",
        R"({"iss":"i","aud":"kerf","exp":1800000000})",
        R"({"iss":"i","sub":7,"aud":"kerf","exp":1800000000})",
        R"({"iss":"i","sub":"","aud":"kerf","exp":1800000000})",
        R"({"iss":"i","sub":"a b","aud":"kerf","exp":1800000000})",
        R"({"iss":"i","sub":"a\nb","aud":"kerf","exp":1800000000})",
        R"({"iss":"i","sub":"s","exp":1800000000})",
        R"({"iss":"i","sub":"s","aud":"kerf2","exp":1800000000})",
        R"({"iss":"i","sub":"s","aud":["other"],"exp":1800000000})",
        R"({"iss":"i","sub":"s","aud":{"kerf":1},"exp":1800000000})",
        R"({"iss":"i","sub":"s","aud":"kerf"})",
        R"({"iss":"i","sub":"s","aud":"kerf","exp":"1800000000"})",
        R"({"iss":"i","sub":"s","aud":"kerf","exp":-1})",
        R"({"iss":"i","sub":"s","aud":"kerf","exp":1e300})",
        R"({"iss":"i","sub":"s","aud":"kerf","exp":1800000000,"nbf":"x"})",
        R"({"iss":"i","sub":"s","aud":"kerf","exp":1800000000,"nbf":1799999999})"}) {
    EXPECT_EQ(signer.Ask(kHeader, claims).verdict, JwtVerdict::kBad) << claims;
  }
  EXPECT_EQ(signer.Ask(kHeader, R"({"iss":"i","sub":"s","aud":"kerf","exp":1700000000})").verdict,
            JwtVerdict::kExpired);
  EXPECT_EQ(signer.Ask(kHeader, R"({"iss":"i","sub":"s","aud":["x","kerf"],"exp":1.8e9})").verdict,
            JwtVerdict::kGood);
  const std::string long_subject(300, 's');
  EXPECT_EQ(signer
                .Ask(kHeader, Cat(R"({"iss":"i","aud":"kerf","exp":1800000000,"sub":")",
                                  long_subject, R"("})"))
                .verdict,
            JwtVerdict::kBad);
}

// Whose key it is says whose tokens it signs, and not the token.
TEST(JwtTest, AnIssuerSignsForItselfAlone) {
  const Signer signer;
  const std::vector<JwtIssuer> issuers = {
      {.name = "https://issuer.example", .audience = "kerf", .keys = Keys(kKeys)},
      {.name = "i", .audience = "kerf", .keys = Keys(signer.JwkOf())}};
  EXPECT_EQ(CallerOf(signer.Sign(kHeader, kClaims), issuers, kNow).verdict, JwtVerdict::kGood);
  const std::string forged = signer.Sign(
      kHeader, R"({"iss":"https://issuer.example","sub":"agent-7","aud":"kerf","exp":1800000000})");
  EXPECT_EQ(CallerOf(forged, issuers, kNow).verdict, JwtVerdict::kBad);
}

// A signature costs a server more than the call that shows it costs a stranger.
TEST(JwtTest, OnlySomeKeysAreTriedForOneToken) {
  const Signer signer;
  const std::string last = signer.JwkOf(R"(,"kid":"last")");
  const auto behind = [&](int count) {
    std::string keys = R"({"keys":[)";
    for (int number = 0; number < count; ++number) {
      keys += Cat(
          R"({"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":")",
          number, R"("},)");
    }
    return Keys(keys + last.substr(last.find("{\"kty")));
  };
  EXPECT_TRUE(VerifyJws(signer.Sign(kHeader, kClaims), behind(15)).has_value());
  EXPECT_FALSE(VerifyJws(signer.Sign(kHeader, kClaims), behind(16)).has_value());
  EXPECT_TRUE(
      VerifyJws(signer.Sign(R"({"alg":"EdDSA","kid":"last"})", kClaims), behind(255)).has_value());
}

TEST(JwkSetTest, FewKeysShareAName) {
  for (const std::string_view more : {"", R"(,"kid":"one")"}) {
    std::string keys;
    for (int number = 0; number < 9; ++number) {
      keys +=
          Cat(R"({"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")",
              more, "}");
      EXPECT_EQ(JwkSet::Parse(Cat(R"({"keys":[)", keys, "]}")).ok(), number < 8) << number;
      keys += ',';
    }
  }
}

TEST(JwkSetTest, SaysWhatIsNone) {
  for (
      const std::string_view wrong :
      {"", "x", "[]", "{}", R"({"keys":1})", R"({"keys":[]})", R"({"keys":[1]})",
       R"({"keys":[{"kty":"oct","k":"AAAA"}]})",
       R"({"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]})",
       R"({"keys":[{"kty":"OKP","crv":"X25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]})",
       R"({"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]})",
       R"({"keys":[{"kty":"RSA","n":"","e":"AQAB"}]})",
       R"({"keys":[{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}]})",
       // No point of the curve.
       R"({"keys":[{"kty":"EC","crv":"P-256","x":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE","y":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE"}]})"}) {
    EXPECT_FALSE(JwkSet::Parse(wrong).ok()) << wrong;
  }
  // By it everybody can sign.
  std::string one = kKeys;
  const std::size_t exponent = one.find(R"("e":"AQAB")");
  ASSERT_NE(exponent, std::string::npos);
  EXPECT_FALSE(JwkSet::Parse(one.replace(exponent, 10, R"("e":"AQ")")).ok());
  const Signer signer;
  EXPECT_FALSE(JwkSet::Parse(signer.JwkOf(R"(,"d":"AAAA")")).ok()) << "a secret";
  EXPECT_FALSE(JwkSet::Parse(signer.JwkOf(R"(,"use":"enc")")).ok()) << "of no use here";
  EXPECT_FALSE(JwkSet::Parse(signer.JwkOf(R"(,"alg":"ES256")")).ok()) << "for something else";
  EXPECT_TRUE(JwkSet::Parse(signer.JwkOf(R"(,"alg":"EdDSA","use":"sig")")).ok());
}

}  // namespace
}  // namespace kerf::access
