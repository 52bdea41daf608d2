#include "server/access/decide.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gtest/gtest.h"

namespace kerf::access {
namespace {

constexpr char kRules[] = R"(
[[identity]]
name = "kerf://granted/nothing"
[[identity]]
name = "kerf://granted/read"
[[identity.grant]]
role = "read"
repositories = ["mine"]
[[identity]]
name = "kerf://granted/write"
[[identity.grant]]
role = "write"
repositories = ["mine"]
[[identity]]
name = "kerf://granted/gc"
[[identity.grant]]
role = "gc"
repositories = ["mine"]
[[identity]]
name = "kerf://granted/admin"
[[identity.grant]]
role = "admin"
repositories = ["mine"]
[[identity]]
name = "kerf://granted/all"
[[identity.grant]]
role = "admin"
repositories = ["*"]
[[identity]]
name = "kerf://granted/front"
[[identity.grant]]
role = "front"
)";

// Of the table's columns, from the second on.
struct Column {
  std::string_view title;
  Identity identity;
};

std::vector<Column> Columns() {
  const auto certificate = [](std::string_view name) {
    return Identity{Proof::kCertificate, Cat("kerf://granted/", name)};
  };
  return {{"nobody", Identity{}},
          {"no grant", certificate("nothing")},
          {"read", certificate("read")},
          {"write", certificate("write")},
          {"gc", certificate("gc")},
          {"admin", certificate("admin")},
          {"admin of all", certificate("all")},
          {"front", certificate("front")}};
}

std::vector<std::string> CellsOf(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream parts(line);
  std::string cell;
  std::getline(parts, cell, '|');
  while (std::getline(parts, cell, '|')) {
    const std::size_t begin = cell.find_first_not_of(' ');
    cells.push_back(begin == std::string::npos
                        ? ""
                        : cell.substr(begin, cell.find_last_not_of(' ') + 1 - begin));
  }
  return cells;
}

// The rows of the table whose first column is a method, below its title.
std::vector<std::vector<std::string>> ReadTable() {
  std::ifstream file("docs/spec/access.md");
  EXPECT_TRUE(file.is_open());
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| method |") || line.starts_with("| /")) rows.push_back(CellsOf(line));
  }
  return rows;
}

AccessRules Rules(std::string_view text) {
  auto rules = AccessRules::Parse(text);
  EXPECT_TRUE(rules.ok()) << rules.status();
  return *std::move(rules);
}

TEST(DecideTest, IsTheTableOfTheDocument) {
  const AccessRules rules = Rules(kRules);
  const std::vector<Column> columns = Columns();
  const auto rows = ReadTable();
  ASSERT_GE(rows.size(), 15u);
  ASSERT_EQ(rows[0].size(), columns.size() + 1);
  for (std::size_t column = 0; column < columns.size(); ++column) {
    ASSERT_EQ(rows[0][column + 1], columns[column].title);
  }
  constexpr std::size_t kWithoutGrant = 2;
  constexpr std::size_t kOfAll = 7;
  for (std::size_t row = 1; row < rows.size(); ++row) {
    const Need need = NeedOf(rows[row][0]);
    for (std::size_t column = 1; column <= columns.size(); ++column) {
      SCOPED_TRACE(Cat(rows[row][0], ", ", columns[column - 1].title));
      const Identity& identity = columns[column - 1].identity;
      const auto is_allowed = [&](std::optional<std::string_view> repository) {
        return Decide(rules, 0, identity, need, repository) == Decision::kAllowed;
      };
      const bool is_own = rows[row][column] == "yes";
      ASSERT_TRUE(is_own || rows[row][column] == "no");
      EXPECT_EQ(is_allowed("mine"), is_own);
      EXPECT_EQ(is_allowed(std::nullopt), is_own);
      if (!NamesRepository(need)) continue;
      const bool is_others = rows[row][column == kOfAll ? kOfAll : kWithoutGrant] == "yes";
      EXPECT_EQ(is_allowed("theirs"), is_others);
      EXPECT_EQ(is_allowed("mine2"), is_others);
      EXPECT_EQ(is_allowed("min"), is_others);
    }
  }
}

// A method that the table does not have is no way in.
TEST(DecideTest, WhatNobodyKnowsIsForAdministrators) {
  EXPECT_EQ(NeedOf("/kerf.v1.IndexService/Burn"), Need::kOperate);
  EXPECT_EQ(NeedOf("/kerf.v1.IndexService/ScanChunks/"), Need::kOperate);
  EXPECT_EQ(NeedOf(""), Need::kOperate);
}

TEST(DecideTest, APatternIsABeginning) {
  const AccessRules rules = Rules(R"(
[[identity]]
name = "user/7"
[[identity.grant]]
role = "read"
repositories = ["a-*", "b"]
[[identity.grant]]
role = "gc"
repositories = ["a-1*"]
)");
  const auto may = [&](Need need, std::string_view repository) {
    return Decide(rules, 0, {Proof::kUser, "user/7"}, need, repository) == Decision::kAllowed;
  };
  EXPECT_TRUE(may(Need::kRead, "a-"));
  EXPECT_TRUE(may(Need::kRead, "a-xyz"));
  EXPECT_TRUE(may(Need::kRead, "b"));
  EXPECT_FALSE(may(Need::kRead, "a"));
  EXPECT_FALSE(may(Need::kRead, "xa-1"));
  EXPECT_FALSE(may(Need::kRead, "bb"));
  EXPECT_FALSE(may(Need::kRead, "B"));
  // The strongest grant that is for it counts, and no other.
  EXPECT_TRUE(may(Need::kGc, "a-17"));
  EXPECT_FALSE(may(Need::kWrite, "a-2"));
  EXPECT_FALSE(may(Need::kAdmin, "a-17"));
}

TEST(DecideTest, AnIdentityHasItsTime) {
  const AccessRules rules = Rules(R"(
[[identity]]
name = "kerf://a"
expires = 1970-01-01T01:40:00+01:00
[[identity.grant]]
role = "write"
repositories = ["*"]
)");
  const auto decide = [&](std::int64_t now_s, Need need) {
    return Decide(rules, now_s, {Proof::kCertificate, "kerf://a"}, need, "x");
  };
  EXPECT_EQ(decide(2'399, Need::kWrite), Decision::kAllowed);
  EXPECT_EQ(decide(2'400, Need::kWrite), Decision::kExpired);
  EXPECT_EQ(decide(2'400, Need::kKnown), Decision::kExpired);
  EXPECT_EQ(decide(2'400, Need::kAnybody), Decision::kAllowed);
}

// A proof may have an end of its own, whatever the file says.
TEST(DecideTest, AProofHasItsTime) {
  const AccessRules rules = Rules(R"(
[[issuer]]
name = "https://issuer"
audience = "kerf"
keys = "keys"
[[identity]]
name = "jwt/https://issuer#a"
[[identity.grant]]
role = "write"
repositories = ["*"]
)");
  const Identity identity{Proof::kJwt, "jwt/https://issuer#a", 2'400};
  EXPECT_EQ(Decide(rules, 2'399, identity, Need::kWrite, "x"), Decision::kAllowed);
  EXPECT_EQ(Decide(rules, 2'400, identity, Need::kWrite, "x"), Decision::kExpired);
  EXPECT_EQ(Decide(rules, 2'400, identity, Need::kKnown, "x"), Decision::kExpired);
}

// Of whatever issuer a front says that it is: the file has to trust him.
TEST(DecideTest, AnIssuerWhomTheFileDoesNotKnowSaysNothing) {
  const AccessRules rules = Rules(R"(
[[issuer]]
name = "https://issuer"
audience = "kerf"
keys = "keys"
[[identity]]
name = "jwt/https://other#a"
[[identity.grant]]
role = "admin"
repositories = ["*"]
)");
  for (const auto& [name, expected] :
       {std::pair<std::string, Decision>{"jwt/https://issuer#b", Decision::kAllowed},
        {"jwt/https://other#a", Decision::kUnknown},
        {"jwt/https://issuer", Decision::kUnknown},
        {"jwt/https://issuer2#b", Decision::kUnknown},
        {"jwt/https://issue#b", Decision::kUnknown}}) {
    EXPECT_EQ(Decide(rules, 0, {Proof::kJwt, name, 1}, Need::kKnown, std::nullopt), expected)
        << name;
  }
}

// Whoever has the token of before the change has been let in by it, and by nothing that holds now.
TEST(DecideTest, ATokenThatWasChangedIsWorthNothing) {
  const AccessRules rules = Rules(R"(
[[identity]]
name = "token/a"
sha256 = "0100000000000000000000000000000000000000000000000000000000000000"
)");
  const auto decide = [&](std::optional<ProofHash> hash) {
    return Decide(rules, 0, {Proof::kToken, "token/a", std::nullopt, hash}, Need::kKnown,
                  std::nullopt);
  };
  EXPECT_EQ(decide(ProofHash{1}), Decision::kAllowed);
  EXPECT_EQ(decide(ProofHash{2}), Decision::kUnknown);
  // A front has looked at it, and says no more than whose it is.
  EXPECT_EQ(decide(std::nullopt), Decision::kAllowed);
}

TEST(DecideTest, OnlyAFrontInItsTimeSaysWhoCalls) {
  const AccessRules rules = Rules(R"(
[[identity]]
name = "a.front"
expires = 1970-01-01T00:00:10Z
[[identity.grant]]
role = "front"
[[identity]]
name = "an.admin"
[[identity.grant]]
role = "admin"
repositories = ["*"]
)");
  const auto decide = [&](std::int64_t now_s, Proof proof, const std::string& name) {
    return DecideToSpeak(rules, now_s, {proof, name});
  };
  EXPECT_EQ(decide(9, Proof::kCertificate, "a.front"), Decision::kAllowed);
  EXPECT_EQ(decide(10, Proof::kCertificate, "a.front"), Decision::kExpired);
  EXPECT_EQ(decide(9, Proof::kUser, "a.front"), Decision::kUnknown);
  EXPECT_EQ(decide(9, Proof::kCertificate, "an.admin"), Decision::kForbidden);
  EXPECT_EQ(decide(9, Proof::kCertificate, "b.front"), Decision::kForbidden);
}

// Somebody whom others vouch for is known without the file; a token is nothing without it.
TEST(DecideTest, WhoStandsNotInTheFile) {
  const AccessRules rules;
  EXPECT_EQ(Decide(rules, 0, {Proof::kCertificate, "kerf://b"}, Need::kKnown, std::nullopt),
            Decision::kAllowed);
  EXPECT_EQ(Decide(rules, 0, {Proof::kCertificate, "kerf://b"}, Need::kRead, "x"),
            Decision::kForbidden);
  EXPECT_EQ(Decide(rules, 0, {Proof::kToken, "token/b"}, Need::kKnown, std::nullopt),
            Decision::kUnknown);
}

// By the wrong proof a name is nobody's.
TEST(DecideTest, ANameIsProvenInItsOwnWay) {
  const AccessRules rules = Rules(R"(
[[identity]]
name = "user/0"
[[identity.grant]]
role = "admin"
repositories = ["*"]
)");
  EXPECT_EQ(Decide(rules, 0, {Proof::kUser, "user/0"}, Need::kAdmin, "x"), Decision::kAllowed);
  for (const Proof proof : {Proof::kNone, Proof::kCertificate, Proof::kToken, Proof::kJwt}) {
    EXPECT_EQ(Decide(rules, 0, {proof, "user/0"}, Need::kAdmin, "x"), Decision::kUnknown);
  }
}

}  // namespace
}  // namespace kerf::access
