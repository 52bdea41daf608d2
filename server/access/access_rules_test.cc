#include "server/access/access_rules.h"

#include <string>

#include "base/status.h"
#include "base/strings.h"
#include "gtest/gtest.h"

namespace kerf::access {
namespace {

constexpr char kHash[] = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

std::string WhyNot(std::string_view text) {
  const auto rules = AccessRules::Parse(text);
  if (rules.ok()) return "good";
  EXPECT_EQ(rules.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(MessageOf(rules.status()));
}

TEST(AccessRulesTest, ReadsAFile) {
  const auto rules = AccessRules::Parse(Cat(R"(
# Who may do what.
[[identity]]
name = "kerf://client/anna"
[[identity.grant]]
role = "write"
repositories = ["anna-*", "shared"]
[[identity.grant]]
repositories = ["old"]
role = "read"

[[identity]]
name = "token/nightly"
sha256 = ")",
                                            kHash, R"("
expires = 2027-06-01T00:00:00Z

[[identity]]
name = "kerf-front.kerf.svc"
[[identity.grant]]
role = "front"
)"));
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->size(), 3u);
  const AccessEntry* const anna = rules->Find("kerf://client/anna");
  ASSERT_NE(anna, nullptr);
  ASSERT_EQ(anna->grants.size(), 2u);
  EXPECT_EQ(anna->grants[0].role, Role::kWrite);
  EXPECT_EQ(anna->grants[0].repositories, (std::vector<std::string>{"anna-*", "shared"}));
  EXPECT_FALSE(anna->is_front || anna->expires_at_s.has_value() || anna->token_hash.has_value());
  const AccessEntry* const nightly = rules->Find("token/nightly");
  ASSERT_NE(nightly, nullptr);
  EXPECT_EQ(nightly->expires_at_s, 1'811'808'000);
  ASSERT_TRUE(nightly->token_hash.has_value());
  EXPECT_EQ((*nightly->token_hash)[0], 0x9f);
  EXPECT_EQ((*nightly->token_hash)[31], 0x08);
  const AccessEntry* const front = rules->Find("kerf-front.kerf.svc");
  ASSERT_NE(front, nullptr);
  EXPECT_TRUE(front->is_front);
  EXPECT_EQ(rules->Find("anna"), nullptr);
}

// As one is that an editor writes anew: it must not take the place of the last one.
TEST(AccessRulesTest, AFileThatNamesNobodyIsNone) {
  // Identities of an issuer have to be named, too.
  constexpr std::string_view kIssuer =
      "[[issuer]]\nname = \"https://i\"\naudience = \"kerf\"\nkeys = \"keys.json\"\n";
  for (const std::string_view text : {std::string_view(""), std::string_view("# nobody\n"), kIssuer,
                                      std::string_view("[[repository]]\nname = \"a\"\n")}) {
    EXPECT_EQ(WhyNot(text),
              "it names nobody, so nobody could do anything: at least one [[identity]] is needed");
  }
}

TEST(AccessRulesTest, WhatThereIsAtMost) {
  const std::string name = "[[identity]]\nname = \"kerf://a\"\n";
  for (const std::string_view wrong : {"0", "1", "-1", "2.0", "\"2\"", "1000001"}) {
    EXPECT_EQ(WhyNot(Cat(name, "max_streams = ", wrong, "\n")),
              "line 3: max_streams is 2 to 1000000");
  }
  EXPECT_EQ(WhyNot(name + "max_bytes_per_second = 65535\n"),
            "line 3: max_bytes_per_second is 65536 to 1000000000000");
  EXPECT_EQ(WhyNot(name + "max_entries = 1\n"), "line 3: nobody knows 'max_entries' here");
  const auto rules =
      AccessRules::Parse(name +
                         "max_streams = 7\nmax_connections = 8\nmax_bytes_per_second = 65536\n"
                         "max_calls_per_second = 9\n[[identity]]\nname = \"kerf://b\"\n");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->Find("kerf://a")->quota, (Quota{.max_streams = 7,
                                                   .max_connections = 8,
                                                   .max_bytes_per_second = 65'536,
                                                   .max_calls_per_second = 9}));
  EXPECT_EQ(rules->Find("kerf://b")->quota, Quota());
}

TEST(AccessRulesTest, WhatSaysMostOfARepositoryCounts) {
  const std::string text =
      "[[identity]]\nname = \"kerf://anna\"\n"
      "[[repository]]\nname = \"anna-*\"\nmax_entries = 1\n"
      "[[repository]]\nname = \"anna-a-very-long-name\"\nmax_entries = 2\n"
      "[[repository]]\nname = \"*\"\nmax_entries = 0\n"
      "[[repository]]\nname = \"anna-lap*\"\nmax_streams = 4\n"
      "[[repository]]\nname = \"anna-x\"\nmax_entries = 5\n";
  const auto rules = AccessRules::Parse(text);
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->QuotaOf("anna-tower").max_entries, 1u);
  EXPECT_EQ(rules->QuotaOf("anna-a-very-long-name").max_entries, 2u);
  EXPECT_EQ(rules->QuotaOf("bert").max_entries, 0u);
  // Of one table, not of several: it says nothing of entries.
  EXPECT_EQ(rules->QuotaOf("anna-laptop"), Quota{.max_streams = 4});
  EXPECT_EQ(rules->QuotaOf("anna-x").max_entries, 5u);
  EXPECT_EQ(WhyNot("[[repository]]\nmax_entries = 1\n"), "line 1: there is no name");
  EXPECT_EQ(WhyNot("[[repository]]\nname = \"a\"\nmax_entries = -1\n"),
            "line 3: max_entries is 0 to 1000000000000000");
  EXPECT_EQ(WhyNot("[[repository]]\nname = \"a\"\nmax_connections = 1\n"),
            "line 3: nobody knows 'max_connections' here");
  EXPECT_EQ(WhyNot(text + "[[repository]]\nname = \"*\"\n"),
            "line 18: '*' stands in the file twice");
}

// Each says the line, so that whoever wrote the file finds it.
TEST(AccessRulesTest, SaysWhatIsWrongAndWhere) {
  const std::string name = "[[identity]]\nname = \"kerf://a\"\n";
  const std::string grant = name + "[[identity.grant]]\n";
  EXPECT_EQ(WhyNot("[[identity]]\n"), "line 1: there is no name");
  EXPECT_EQ(WhyNot("[identity]\nname = \"a\"\n"),
            "line 1: each identity is a table, below [[identity]]");
  EXPECT_EQ(WhyNot("identity = [1]\n"), "line 1: each identity is a table, below [[identity]]");
  EXPECT_EQ(WhyNot("[[identities]]\n"), "line 1: nobody knows 'identities' here");
  EXPECT_EQ(WhyNot(name + "expire = 2027-06-01T00:00:00Z\n"), "line 3: nobody knows 'expire' here");
  EXPECT_EQ(WhyNot(name + "expires = \"2027\"\n"),
            "line 3: expires is a time with its zone, as 2027-06-01T00:00:00Z");
  EXPECT_EQ(WhyNot(name + "expires = 2027-06-01T00:00:00\n"),
            "line 3: expires is a time with its zone, as 2027-06-01T00:00:00Z");
  EXPECT_EQ(WhyNot(name + name), "line 3: 'kerf://a' stands in the file twice");
  EXPECT_EQ(WhyNot(Cat(name, "sha256 = \"", kHash, "\"\n")),
            "line 3: sha256 is for tokens: name = \"token/ID\"");
  EXPECT_EQ(WhyNot("[[identity]]\nname = \"token/a\"\n"), "line 1: there is no sha256");
  for (const std::string_view hash : {"", "9f86",
                                      "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822"
                                      "CD15D6C15B0F00A08"}) {
    EXPECT_EQ(WhyNot(Cat("[[identity]]\nname = \"token/a\"\nsha256 = \"", hash, "\"\n")),
              "line 3: sha256 is 64 hexadecimal digits in lower case, of the token");
  }
  EXPECT_EQ(WhyNot(grant + "repositories = [\"a\"]\n"), "line 3: there is no role");
  EXPECT_EQ(WhyNot(grant + "role = \"Write\"\nrepositories = [\"a\"]\n"),
            "line 4: 'Write' is no role: read, write, gc, admin or front");
  EXPECT_EQ(WhyNot(grant + "role = \"write\"\n"),
            "line 3: repositories is an array of \"strings\", one at least");
  for (const std::string_view wrong : {"[]", "[1]", "\"a\"", "[\"a\", 1]"}) {
    EXPECT_EQ(WhyNot(Cat(grant, "role = \"write\"\nrepositories = ", wrong, "\n")),
              "line 5: repositories is an array of \"strings\", one at least");
  }
  EXPECT_EQ(WhyNot(grant + "role = \"front\"\nrepositories = [\"*\"]\n"),
            "line 5: a front has no repositories: those who call it have");
}

TEST(AccessRulesTest, NamesOfRepositoriesAreThose) {
  const auto with = [](std::string_view pattern) {
    return AccessRules::Parse(Cat("[[identity]]\nname = \"kerf://a\"\n[[identity.grant]]\nrole = "
                                  "\"read\"\nrepositories = [\"",
                                  pattern, "\"]\n"))
        .ok();
  };
  for (const std::string_view good : {"*", "a", "a*", "a.b-c_d", "A*"}) EXPECT_TRUE(with(good));
  for (const std::string_view wrong : {"", "**", "*a", "a*b", "a/b", "a b", "\\u00e4"}) {
    EXPECT_FALSE(with(wrong)) << wrong;
  }
  EXPECT_TRUE(with(std::string(64, 'a')));
  EXPECT_FALSE(with(std::string(65, 'a')));
}

TEST(AccessRulesTest, NamesOfIdentitiesAreVisible) {
  const auto with = [](std::string_view name) {
    return AccessRules::Parse(Cat("[[identity]]\nname = \"", name, "\"\n")).ok();
  };
  for (const std::string_view good :
       {"kerf://a", "a.b", "user/0", "user/4294967295", "users/", "jwt/https://i#s", "jwt/i#s#t"}) {
    EXPECT_TRUE(with(good)) << good;
  }
  for (const std::string_view wrong : {"", "a b", "a\\n", "a\\u00e4", "user/", "token/"}) {
    EXPECT_FALSE(with(wrong)) << wrong;
  }
  // Of the right kind, and yet nobody's.
  for (const std::string_view wrong : {"user/root", "user/007", "user/-1", "user/4294967296",
                                       "user/1 ", "jwt/i", "jwt/#s", "jwt/i#"}) {
    EXPECT_FALSE(with(wrong)) << wrong;
  }
  const auto with_token = [](std::string_view name) {
    return AccessRules::Parse(
               Cat("[[identity]]\nname = \"token/", name, "\"\nsha256 = \"", kHash, "\"\n"))
        .ok();
  };
  EXPECT_TRUE(with_token(std::string(32, 'a')));
  EXPECT_FALSE(with_token(std::string(33, 'a')));
  EXPECT_FALSE(with_token("Nightly"));
  EXPECT_FALSE(with_token("kerf_nightly_0123456789abcdefghij"));
  EXPECT_TRUE(with(std::string(256, 'a')));
  EXPECT_FALSE(with(std::string(257, 'a')));
}

TEST(AccessRulesTest, ItsSizeIsBounded) {
  std::string text = "[[identity]]\nname = \"kerf://a\"\n";
  for (int count = 0; count < 1025; ++count) {
    text += Cat("[[identity.grant]]\nrole = \"read\"\nrepositories = [\"r", count, "\"]\n");
  }
  EXPECT_NE(WhyNot(text).find("more than 1024 repositories of one identity"), std::string::npos);
}

}  // namespace
}  // namespace kerf::access
