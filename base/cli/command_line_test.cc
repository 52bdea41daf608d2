#include "base/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/strings.h"

namespace kerf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = UsageError::Kind;

class CommandLineTest : public ::testing::Test {
 protected:
  enum class Code { kFine = 7 };

  CommandLineTest() {
    line_.program().AddFlag("-l,--loud", loud_, "Say more");
    const Verb cut = line_.program().AddVerb("cut", "Cuts", "  tool cut 3");
    cut.AddOption("number", number_, "How often").Required().Range(1u, 9u);
    cut.AddOption("--kind", kind_, "Of knife").Choices({"long", "short"}).Environment("TOOL_KIND");
    cut.OnRun([] { return Code::kFine; });
    const Verb more = line_.program().AddVerb("more", "Below", "  tool more this");
    more.RequireVerb();
    more.AddVerb("this", "One of them", "  tool more this").OnRun([] { return 1; });
    more.AddHiddenVerb("that").OnRun([] { return 2; });
  }

  CommandLine::Outcome Parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "tool");
    return line_.Parse(static_cast<int>(arguments.size()), arguments.data());
  }
  Kind Refuse(const std::vector<const char*>& arguments) {
    EXPECT_EQ(Parse(arguments), CommandLine::Outcome::kWrong);
    return line_.error().kind;
  }

  bool loud_ = false;
  unsigned number_ = 0;
  std::string kind_ = "long";
  CommandLine line_{"tool", "A tool", "The end", "tool 1.0"};
};

TEST_F(CommandLineTest, RunsWhatIsNamed) {
  ASSERT_EQ(Parse({"cut", "3", "--kind", "short", "--loud"}), CommandLine::Outcome::kRun);
  EXPECT_EQ(line_.run()(), 7);
  EXPECT_EQ(number_, 3u);
  EXPECT_EQ(kind_, "short");
  EXPECT_TRUE(loud_);
}

TEST_F(CommandLineTest, ShowsHelpAndVersion) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(Parse({"--version"}), CommandLine::Outcome::kHelpShown);
  EXPECT_EQ(Parse({"cut", "--help"}), CommandLine::Outcome::kHelpShown);
  const std::string shown = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(shown, HasSubstr("tool 1.0\n"));
  EXPECT_THAT(shown, HasSubstr("Usage: tool cut "));
  EXPECT_THAT(shown, HasSubstr("tool cut 3"));
}

TEST_F(CommandLineTest, SaysWhatIsWrong) {
  EXPECT_EQ(Refuse({}), Kind::kNoVerb);
  EXPECT_EQ(line_.error().verb, "tool");
  EXPECT_EQ(Refuse({"cut", "3", "--none"}), Kind::kUnknownArgument);
  EXPECT_EQ(line_.error().text, "--none");
  EXPECT_EQ(line_.error().verb, "tool cut");
  EXPECT_EQ(Refuse({"cut"}), Kind::kOther);
  EXPECT_THAT(line_.error().text, HasSubstr("number"));
  EXPECT_EQ(Refuse({"cut", "10"}), Kind::kOther);
  EXPECT_EQ(Refuse({"cut", "3", "--kind", "blunt"}), Kind::kOther);
  EXPECT_EQ(Refuse({"cut", "--kind", "blunt", "--", "3"}), Kind::kOther) << "-- is known";
  EXPECT_THAT(line_.error().text, HasSubstr("blunt"));
  EXPECT_EQ(Refuse({"more"}), Kind::kOther);
  EXPECT_EQ(line_.error().verb, "tool more");
}

TEST(FlagTest, WhatIsNoNumberIsOutOfEveryRange) {
  double share = 0.5;
  CommandLine line("tool", "A tool", "The end", "tool 1.0");
  const Verb cut = line.program().AddVerb("cut", "Cuts", "  tool cut");
  cut.AddOption("--share", share, "Of it").Range(0.0, 1.0);
  cut.OnRun([] { return 0; });
  const auto parse = [&line](const char* text) {
    const char* const arguments[] = {"tool", "cut", "--share", text};
    return line.Parse(4, arguments);
  };
  EXPECT_EQ(parse("0.25"), CommandLine::Outcome::kRun);
  EXPECT_EQ(share, 0.25);
  for (const char* text : {"nan", "NaN", "1.01", "inf", "half"}) {
    EXPECT_EQ(parse(text), CommandLine::Outcome::kWrong) << text;
  }
}

// As a shell gives names in a folder, and patterns.
TEST(BracketsTest, AWordInBracketsIsNoList) {
  std::vector<std::string> paths;
  std::vector<std::string> excludes;
  std::vector<std::uint64_t> sizes;
  std::string name;
  bool force = false;
  CommandLine line("tool", "A tool", "The end", "tool 1.0");
  const Verb cut = line.program().AddVerb("cut", "Cuts", "  tool cut");
  cut.AddOption("paths", paths, "What").Check([](const std::string& path) {
    return std::string(path.ends_with(']') || path == "plain" ? "" : "another one");
  });
  cut.AddOption("--exclude", excludes, "What not");
  cut.AddOption("--size", sizes, "Of it").Delimiter(',').Repeat();
  cut.AddOption("--name", name, "Of it");
  cut.AddFlag("--force", force, "All the same");
  cut.OnRun([] { return 0; });
  const char* const arguments[] = {"tool",  "cut",       "--force",      "[a]",   "plain",
                                   "[a,b]", "--name",    "[c]",          "[]",    "--size",
                                   "1,2",   "--exclude", "[bc]",         "[x,y]", "--exclude=[z]",
                                   "--",    "[d]",       "[e]\x1f[\x1f]"};
  ASSERT_EQ(line.Parse(std::size(arguments), arguments), CommandLine::Outcome::kRun)
      << line.error().text;
  EXPECT_THAT(paths, ElementsAre("[a]", "plain", "[a,b]", "[]", "[d]", "[e]\x1f[\x1f]"));
  EXPECT_THAT(excludes, ElementsAre("[bc]", "[x,y]", "[z]"));
  EXPECT_THAT(sizes, ElementsAre(1u, 2u));
  EXPECT_EQ(name, "[c]");
  EXPECT_TRUE(force);
}

TEST_F(CommandLineTest, WhatIsWrongInBracketsIsSaidAsItWas) {
  EXPECT_EQ(Refuse({"cut", "3", "--none=[a]"}), Kind::kUnknownArgument);
  EXPECT_EQ(line_.error().text, "--none=[a]");
  EXPECT_EQ(Refuse({"cut", "[3]"}), Kind::kOther);
  EXPECT_THAT(line_.error().text, ::testing::Not(HasSubstr("\x1f")));
}

TEST_F(CommandLineTest, DescribesItselfWithoutWhatIsHidden) {
  const VerbDescription tool = line_.Describe();
  EXPECT_EQ(tool.name, "tool");
  ASSERT_EQ(tool.verbs.size(), 2u);
  const VerbDescription& cut = tool.verbs[0];
  EXPECT_EQ(cut.name, "cut");
  EXPECT_EQ(cut.description, "Cuts");
  ASSERT_EQ(cut.flags.size(), 3u) << "--help, number, --kind";
  EXPECT_TRUE(cut.flags[1].is_argument());
  EXPECT_TRUE(cut.flags[1].takes_value);
  EXPECT_THAT(cut.flags[1].choices, IsEmpty());
  EXPECT_THAT(cut.flags[2].long_names, ElementsAre("kind"));
  EXPECT_THAT(cut.flags[2].choices, ElementsAre("long", "short"));
  ASSERT_EQ(tool.verbs[1].verbs.size(), 1u);
  EXPECT_EQ(tool.verbs[1].verbs[0].name, "this");
  const FlagDescription& loud = tool.flags.back();
  EXPECT_THAT(loud.long_names, ElementsAre("loud"));
  EXPECT_THAT(loud.short_names, ElementsAre("l"));
  EXPECT_FALSE(loud.takes_value);
}

class ConfigFileTest : public CommandLineTest {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  void Add(bool skips_unknown) {
    ConfigFile file;
    file.path = path_;
    file.required = true;
    file.check = [](const std::string&) { return ""; };
    file.skips_unknown = skips_unknown;
    line_.AddConfigFile(file);
  }

  const std::string path_ = Cat(std::getenv("TEST_TMPDIR"), "/config.toml");
};

TEST_F(ConfigFileTest, HasFlagsByTheirNames) {
  Write("loud = true\n[cut]\nkind = \"short\"\n");
  Add(false);
  ASSERT_EQ(Parse({"cut", "3"}), CommandLine::Outcome::kRun);
  EXPECT_TRUE(loud_);
  EXPECT_EQ(kind_, "short");
}

TEST_F(ConfigFileTest, MayHaveBracketsInItsName) {
  const std::string path = path_ + "[a]";
  std::ofstream(path) << "[cut]\nkind = \"short\"\n";
  Write("");
  Add(false);
  ASSERT_EQ(Parse({"--config", path.c_str(), "cut", "3"}), CommandLine::Outcome::kRun);
  EXPECT_EQ(kind_, "short");
}

TEST_F(ConfigFileTest, WhatNobodyHasIsAMistake) {
  Write("[cut]\nsort = \"short\"\n");
  Add(false);
  EXPECT_EQ(Refuse({"cut", "3"}), Kind::kSetting);
  EXPECT_THAT(line_.error().text, HasSubstr("line 2"));
}

TEST_F(ConfigFileTest, WhatAnotherProgramHasIsLetPass) {
  Write("quick = true\n[sew]\nthread = 3\n[cut]\nsort = 1\nkind = \"short\"\n");
  Add(true);
  ASSERT_EQ(Parse({"cut", "3"}), CommandLine::Outcome::kRun);
  EXPECT_EQ(kind_, "short");
}

TEST_F(ConfigFileTest, ABadValueIsAMistakeAllTheSame) {
  Write("[cut]\nkind = \"blunt\"\n");
  Add(true);
  EXPECT_EQ(Parse({"cut", "3"}), CommandLine::Outcome::kWrong);
}

}  // namespace
}  // namespace kerf
