#include "server/access/token.h"

#include <string>

#include "base/hex.h"
#include "base/strings.h"
#include "gtest/gtest.h"

namespace kerf::access {
namespace {

constexpr char kToken[] = "kerf_nightly-7_abcdefghijklmnopqrstuv";
// By sha256sum.
constexpr char kHashText[] = "ec5e157f38e0782c287d6e35228fb4bcb1bf318eb105c787240ff9faa5b31ea2";

std::optional<ShownToken> ParseBearer(std::string_view authorization) {
  return ParseToken(BearerOf(authorization));
}

AccessEntry EntryOf(const ShownToken& token) {
  return {.name = token.name, .token_hash = token.hash};
}

TEST(TokenTest, ReadsWhatIsShown) {
  for (const std::string_view scheme : {"Bearer ", "bearer ", "BEARER "}) {
    const auto shown = ParseBearer(Cat(scheme, kToken));
    ASSERT_TRUE(shown.has_value()) << scheme;
    EXPECT_EQ(shown->name, "token/nightly-7");
  }
}

TEST(TokenTest, ReadsNothingElse) {
  const std::string secret(22, 'a');
  for (const std::string& wrong :
       {std::string(), std::string("Bearer"), std::string("Bearer "), std::string(kToken),
        Cat("Basic ", kToken), Cat("Bearer  ", kToken), Cat("Bearer ", kToken, " "),
        Cat("Bearer kerf__", secret), Cat("Bearer kerf_", secret), Cat("Bearer kerf_a_"),
        Cat("Bearer kerf_a_", secret.substr(1)), Cat("Bearer kerf_A_", secret),
        Cat("Bearer kerf_a b_", secret), Cat("Bearer kerf_a_", secret, "-"),
        Cat("Bearer kerf_a_", secret, "_"), Cat("Bearer Kerf_a_", secret),
        Cat("Bearer kerf_", std::string(33, 'a'), "_", secret),
        Cat("Bearer kerf_a_", std::string(129, 'a'))}) {
    EXPECT_FALSE(ParseBearer(wrong).has_value()) << wrong;
  }
  EXPECT_TRUE(ParseBearer(Cat("Bearer kerf_", std::string(32, 'a'), "_", secret)).has_value());
  EXPECT_TRUE(ParseBearer(Cat("Bearer kerf_a_", std::string(128, 'a'))).has_value());
}

TEST(TokenTest, IsThatOfItsEntryAlone) {
  const auto token = ParseBearer(Cat("Bearer ", kToken));
  ASSERT_TRUE(token.has_value());
  const AccessEntry entry = EntryOf(*token);
  EXPECT_TRUE(IsTokenOf(*token, &entry));
  // Another letter anywhere in it, and another ID with the same secret.
  std::string changed = kToken;
  for (std::size_t at = 5; at < changed.size(); ++at) {
    if (changed[at] == '_') continue;
    std::string other = changed;
    other[at] = other[at] == 'x' ? 'y' : 'x';
    const auto shown = ParseBearer(Cat("Bearer ", other));
    ASSERT_TRUE(shown.has_value()) << other;
    EXPECT_FALSE(IsTokenOf(*shown, &entry)) << other;
  }
  EXPECT_FALSE(IsTokenOf(*token, nullptr));
  const AccessEntry without{.name = token->name};
  EXPECT_FALSE(IsTokenOf(*token, &without));
  // A hash of zeros is no wildcard for those that have none.
  const ShownToken zeros{.name = token->name, .hash = {}};
  EXPECT_FALSE(IsTokenOf(zeros, nullptr));
  EXPECT_FALSE(IsTokenOf(zeros, &without));
}

TEST(TokenTest, TheHashIsThatOfTheWholeToken) {
  const auto token = ParseBearer(Cat("Bearer ", kToken));
  ASSERT_TRUE(token.has_value());
  EXPECT_EQ(HexOf(token->hash), kHashText);
}

}  // namespace
}  // namespace kerf::access
