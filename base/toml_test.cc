#include "base/toml.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace kerf {
namespace {

using Values = std::vector<std::string>;

// The only entry of that name in `table`.
TomlEntry Find(const std::vector<TomlEntry>& entries, const Values& table, std::string_view key) {
  std::vector<TomlEntry> found;
  for (const TomlEntry& entry : entries) {
    if (entry.table == table && entry.key == key) found.push_back(entry);
  }
  EXPECT_EQ(found.size(), 1u) << key;
  return found.empty() ? TomlEntry{} : found.front();
}

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
      "x = -5\n"
      "y.z = \"\"\"two\nlines\"\"\"");
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 9u);
  EXPECT_EQ(Find(*entries, {}, "store").values, Values{"/back up"});
  EXPECT_EQ(Find(*entries, {}, "store").line, 2);
  EXPECT_EQ(Find(*entries, {}, "literal").values, Values{"C:\\x # no comment"});
  EXPECT_EQ(Find(*entries, {}, "quoted key").values, Values{"a\tb\"c\\"});
  EXPECT_EQ(Find(*entries, {"backup"}, "exclude").values, (Values{"*.o", "b,c"}));
  EXPECT_EQ(Find(*entries, {"backup"}, "streams").values, Values{"1000"});
  EXPECT_EQ(Find(*entries, {"backup"}, "streams").line, 10);
  EXPECT_EQ(Find(*entries, {"backup"}, "force").values, Values{"true"});
  EXPECT_EQ(Find(*entries, {"backup"}, "empty").values, Values{});
  EXPECT_EQ(Find(*entries, {"a", "b"}, "x").values, Values{"-5"});
  EXPECT_EQ(Find(*entries, {"a", "b", "y"}, "z").values, Values{"two\nlines"});
}

// toml++ takes tables apart by calling itself, once for each that lies in another one.
TEST(Toml, TablesLieInOneAnotherOnlySoDeep) {
  std::string deep = "a";
  for (int i = 0; i < 500'000; ++i) deep += ".a";
  const std::string longer = Cat("x = [ \"\"\"\n' \"\"\", {", deep, " = 1} ]\n");
  const std::string literal = Cat("x = [ \'\'\'\n\" \'\'\'\'\', {", deep, " = 1} ]\n");
  for (const std::string& text :
       {Cat(deep, " = 1\n"), Cat("[", deep, "]\n"), Cat("[[", deep, "]]\n"),
        Cat("x = {", deep, " = 1}\n"), Cat("x = \"\"\n", deep, " = 1\n"),
        Cat("x = \"\\\"\" # '\n", deep, " = 1\n"), longer, literal}) {
    const auto entries = ParseToml(text);
    ASSERT_FALSE(entries.ok()) << text.substr(0, 20);
    EXPECT_NE(entries.status().message().find("tables in one another"), std::string::npos);
  }
  EXPECT_NE(ParseToml(longer).status().message().find("line 2: "), std::string::npos);
  // What is in quotes, or said of something, is no table.
  const std::string points(1000, '.');
  EXPECT_TRUE(ParseToml(Cat("# ", points, "\nx = \"", points, "\\\"", points, "\"\ny = '", points,
                            "'\nz = \"\"\"", points, "\n", points, "\"\"\"\"\n"))
                  .ok());
}

TEST(Toml, QuotesWhatItReadsBack) {
  for (const std::string text : {"", "plain", "it's \"x\" \\ # y", "a\tb\n\x01\x7f", "\xc3\xa4"}) {
    const auto entries = ParseToml("k = " + QuoteToml(text));
    ASSERT_TRUE(entries.ok()) << entries.status();
    EXPECT_EQ(entries->at(0).values, Values{text});
  }
  EXPECT_FALSE(ParseToml("k = " + QuoteToml("\xff")).ok());
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

                           "store = 1\nstore = 2",
                           "[a]\n[a]",
                           "[a] x",

                           "store = 2020-01-01",
                           "store = --1",
                           "store = \"\xff\"",
                           "store = [[1]]"}) {
    const auto entries = ParseToml(std::string("\n") + text);
    ASSERT_FALSE(entries.ok()) << text;
    EXPECT_EQ(entries.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(MessageOf(entries.status()).find("line "), std::string_view::npos) << text;
    EXPECT_EQ(MessageOf(entries.status()).find("line 1:"), std::string_view::npos) << text;
  }
}

}  // namespace
}  // namespace kerf
