#include "server/access/identity.h"

#include <string>

#include "gtest/gtest.h"

namespace kerf::access {
namespace {

TEST(IdentityTest, EachProofHasNamesOfItsOwn) {
  EXPECT_EQ(ProofOf("kerf://client/anna"), Proof::kCertificate);
  EXPECT_EQ(ProofOf("front.kerf.svc"), Proof::kCertificate);
  EXPECT_EQ(ProofOf("token/a"), Proof::kToken);
  EXPECT_EQ(ProofOf("user/0"), Proof::kUser);
  EXPECT_EQ(ProofOf("jwt/a#b"), Proof::kJwt);
  for (const std::string_view none : {"", "token/", "user/", "a b", "a\n", "a\x7f", "\xc3\xa4"}) {
    EXPECT_EQ(ProofOf(none), std::nullopt) << none;
  }
  EXPECT_EQ(ProofOf(std::string(257, 'a')), std::nullopt);
  EXPECT_FALSE(IsNameOf(Proof::kNone, ""));
  EXPECT_FALSE(IsNameOf(Proof::kCertificate, "token/a"));
}

TEST(IdentityTest, GoesThroughMetadata) {
  for (const Identity& identity :
       {Identity{Proof::kCertificate, "kerf://client/anna"}, Identity{Proof::kToken, "token/a"},
        Identity{Proof::kUser, "user/1000"}, Identity{Proof::kJwt, "jwt/https://i#s", 17}}) {
    EXPECT_EQ(DecodeIdentity(EncodeIdentity(identity)), identity);
  }
}

// What a front that was taken over might say.
TEST(IdentityTest, IsNothingElse) {
  for (const std::string_view wrong : {"",
                                       " ",
                                       "none ",
                                       "certificate",
                                       "certificate ",
                                       "certificate token/a",
                                       "token kerf://a",
                                       "user  user/0",
                                       "user user/0 ",
                                       "user user/0 x",
                                       "User user/0",
                                       "certificate a\nb",
                                       "nobody a",
                                       "jwt jwt/a#b",
                                       "jwt jwt/a#b ",
                                       "jwt jwt/a#b x",
                                       "jwt jwt/a#b 1x",
                                       "jwt jwt/a#b 1 2",
                                       "token token/a 17",
                                       "certificate kerf://a 17",
                                       "jwt jwt/a#b 99999999999999999999"}) {
    EXPECT_EQ(DecodeIdentity(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace kerf::access
