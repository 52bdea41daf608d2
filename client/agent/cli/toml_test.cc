#include "client/agent/cli/toml.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace kerf::agent {
namespace {

TEST(Toml, ReadsWhatAConfigurationNeeds) {
  const auto entries = ParseToml(
      "# comment\n"
      "store = \"/back up\" # behind\n"
      "literal = 'C:\\x # no comment'\r\n"
      "\"quoted key\" = \"a\\tb\\\"c\\\\\"\n"
      "\n"
      "[backup]\n"
      "exclude = [ \"*.o\", # one\n"
      "  'b,c',\n"
      "]\n"
      "streams = 1_000\n"
      "force=true\n"
      "empty = []\n"
      "[a.b]\n"
      "x = -5");
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 8u);
  const auto values = [&](std::size_t i) { return (*entries)[i].values; };
  using Values = std::vector<std::string>;
  EXPECT_EQ((*entries)[0].key, "store");
  EXPECT_TRUE((*entries)[0].table.empty());
  EXPECT_EQ((*entries)[0].line, 2);
  EXPECT_EQ(values(0), Values{"/back up"});
  EXPECT_EQ(values(1), Values{"C:\\x # no comment"});
  EXPECT_EQ((*entries)[2].key, "quoted key");
  EXPECT_EQ(values(2), Values{"a\tb\"c\\"});
  EXPECT_EQ((*entries)[3].table, Values{"backup"});
  EXPECT_EQ(values(3), (Values{"*.o", "b,c"}));
  EXPECT_EQ(values(4), Values{"1000"});
  EXPECT_EQ((*entries)[4].line, 10);
  EXPECT_EQ(values(5), Values{"true"});
  EXPECT_EQ(values(6), Values{});
  EXPECT_EQ((*entries)[7].table, (Values{"a", "b"}));
  EXPECT_EQ(values(7), Values{"-5"});
}

TEST(Toml, AnEmptyFileIsFine) {
  EXPECT_TRUE(ParseToml("")->empty());
  EXPECT_TRUE(ParseToml("\n# nothing\n  ")->empty());
}

TEST(Toml, SaysWhichLineIsWrong) {
  for (const char* text : {"store",
                           "store = ",
                           "store = \"x",
                           "store = \"x\ny\"",
                           "store = x",
                           "store = 1.5",
                           "store = \"a\" \"b\"",
                           "store = [1 2]",
                           "store = [1",
                           "store = \"\\q\"",
                           "[store",
                           "[]",
                           "= 1",
                           "a.b = 1",
                           "store = 1\nstore = 2",
                           "[a]\n[a]",
                           "[a] x",
                           "store = {a = 1}",
                           "store = 2020-01-01",
                           "store = --1",
                           "store = \"\"\"x\"\"\""}) {
    const auto entries = ParseToml(std::string("\n") + text);
    ASSERT_FALSE(entries.ok()) << text;
    EXPECT_EQ(entries.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(MessageOf(entries.status()).find("line "), std::string_view::npos) << text;
    EXPECT_EQ(MessageOf(entries.status()).find("line 1:"), std::string_view::npos) << text;
  }
}

}  // namespace
}  // namespace kerf::agent
