#include "base/cli/option_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/strings.h"

namespace kerf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = OptionOutcome::Kind;

absl::StatusOr<char> ParseLetter(std::string_view text) {
  if (text.size() == 1) return text[0];
  return absl::InvalidArgumentError(ToAbsl(Cat("'", text, "' is no letter")));
}

class OptionSetTest : public ::testing::Test {
 protected:
  enum class Knife : std::uint8_t { kLong, kShort };

  OptionSetTest() {
    options_.AddSwitch("twice", twice_, "Once more");
    options_.AddText({"name", "Who it is", "WHO"}, name_);
    options_.AddBool({"loud", "Whether it is heard"}, loud_);
    options_.AddNumber({"count", "How many"}, count_, 1, 9);
    options_.AddNumber({"far", "How far"}, far_, 0, std::uint64_t{1} << 40);
    options_.BeginPart(1);
    options_.AddTime({"wait-ms", "How long"}, wait_);
    options_.AddSize({"room", "How much"}, room_bytes_);
    options_.AddChoice<Knife>({"knife", "With what"}, knife_,
                              {{"long", Knife::kLong}, {"short", Knife::kShort}});
    options_.AddParsed({"letter", "Which"}, letter_, "a", ParseLetter);
    options_.AddList({"more", "Which else"}, more_, ParseLetter);
  }

  OptionOutcome Read(std::vector<const char*> arguments,
                     std::vector<const char*> environment = {}) {
    arguments.insert(arguments.begin(), "tool");
    environment.push_back(nullptr);
    return options_.Read({.name = "tool",
                          .description = "A tool",
                          .footer = "The end",
                          .version = "tool 1",
                          .config_description = "A file",
                          .variable_prefix = "TOOL_",
                          .shared_variable = "HOUSE_NAME",
                          .shared_option = "name"},
                         static_cast<int>(arguments.size()), arguments.data(), environment.data());
  }
  std::string Refuse(const std::vector<const char*>& arguments,
                     const std::vector<const char*>& environment = {}) {
    const OptionOutcome outcome = Read(arguments, environment);
    EXPECT_EQ(outcome.kind, Kind::kWrong);
    return outcome.text;
  }

  bool twice_ = false;
  std::string name_ = "nobody";
  bool loud_ = false;
  std::uint32_t count_ = 3;
  std::uint64_t far_ = 4;
  std::chrono::milliseconds wait_{1500};
  std::uint64_t room_bytes_ = 48 << 20;
  Knife knife_ = Knife::kShort;
  char letter_ = '?';
  std::vector<char> more_;
  OptionSet options_;
  const std::string path_ = Cat(std::getenv("TEST_TMPDIR"), "/options.toml");
};

TEST_F(OptionSetTest, DefaultsAreThoseOfTheVariables) {
  ASSERT_EQ(Read({}).kind, Kind::kRun);
  EXPECT_EQ(wait_.count(), 1500);
  EXPECT_EQ(room_bytes_, std::uint64_t{48} << 20);
  EXPECT_EQ(knife_, Knife::kShort);
  EXPECT_EQ(letter_, 'a');
  EXPECT_THAT(options_.FindChanged(), IsEmpty());
  EXPECT_EQ(options_.PrintConfig("All."),
            "# All.\n\n# Who it is\nname = \"nobody\"\n\n# Whether it is heard\nloud = false\n\n"
            "# How many\ncount = 3\n\n# How far\nfar = 4\n\n# How long\nwait-ms = 1500\n\n"
            "# How much\nroom = \"48M\"\n\n# With what\nknife = \"short\"\n\n"
            "# Which\nletter = \"a\"\n\n# Which else\n# more = []\n\n");
}

TEST_F(OptionSetTest, EveryKindIsRead) {
  ASSERT_EQ(Read({"--twice",          "--name",    "x",      "--loud", "true",   "--count", "9",
                  "--far=5000000000", "--wait-ms", "7",      "--room", "1.5K",   "--knife", "long",
                  "--letter",         "b",         "--more", "c",      "--more", "d"})
                .kind,
            Kind::kRun);
  EXPECT_TRUE(twice_);
  EXPECT_EQ(name_, "x");
  EXPECT_TRUE(loud_);
  EXPECT_EQ(count_, 9u);
  EXPECT_EQ(far_, 5'000'000'000u);
  EXPECT_EQ(wait_.count(), 7);
  EXPECT_EQ(room_bytes_, 1536u);
  EXPECT_EQ(knife_, Knife::kLong);
  EXPECT_EQ(letter_, 'b');
  EXPECT_THAT(more_, ElementsAre('c', 'd'));
}

TEST_F(OptionSetTest, WhatIsOutOfBoundsIsWrong) {
  for (const std::vector<const char*>& arguments : std::vector<std::vector<const char*>>{
           {"--count", "0"},
           {"--count", "10"},
           {"--far", "1099511627777"},
           {"--wait-ms", "0"},
           {"--wait-ms", "86400001"},
           {"--room", "much"},
           {"--knife", "blunt"},
           {"--loud", "perhaps"},
           {"--none", "1"},
           {"stray"},
       }) {
    EXPECT_NE(Refuse(arguments), "") << arguments[0];
  }
  EXPECT_THAT(Refuse({"--letter", "bb"}), HasSubstr("'bb' is no letter"));
  EXPECT_THAT(Refuse({"--more", "b", "--more", "cc"}), HasSubstr("'cc' is no letter"));
  EXPECT_EQ(Refuse({}, {"TOOL_NONE=1"}), "the environment variable TOOL_NONE is no setting");
  // No setting.
  EXPECT_NE(Refuse({}, {"TOOL_TWICE=true"}), "");
}

TEST_F(OptionSetTest, FlagsBeforeEnvironmentBeforeFile) {
  std::ofstream(path_) << "count = 1\nfar = 1\nwait-ms = 1\nname = \"file\"\n";
  const std::string config = "TOOL_CONFIG=" + path_;
  ASSERT_EQ(Read({"--count", "3"}, {config.c_str(), "TOOL_COUNT=2", "TOOL_FAR=2", "TOOL_MORE=e,f",
                                    "HOUSE_NAME=house"})
                .kind,
            Kind::kRun);
  EXPECT_EQ(count_, 3u);
  EXPECT_EQ(far_, 2u);
  EXPECT_EQ(wait_.count(), 1);
  EXPECT_EQ(name_, "house");
  EXPECT_THAT(more_, ElementsAre('e', 'f'));
}

TEST_F(OptionSetTest, TheOwnVariableGoesBeforeTheSharedOne) {
  ASSERT_EQ(Read({}, {"TOOL_NAME=own", "HOUSE_NAME=house"}).kind, Kind::kRun);
  EXPECT_EQ(name_, "own");
}

TEST_F(OptionSetTest, WhatIsChangedIsToldWithItsPart) {
  // As it is anyway; and written otherwise, which nobody can tell from another value.
  ASSERT_EQ(Read({"--count", "3", "--room", "49152K", "--loud", "true"}).kind, Kind::kRun);
  const std::vector<OptionSet::Changed> changed = options_.FindChanged();
  ASSERT_EQ(changed.size(), 2u);
  EXPECT_EQ(changed[0].name, "loud");
  EXPECT_EQ(changed[0].part, 0);
  EXPECT_EQ(changed[1].name, "room");
  EXPECT_EQ(changed[1].part, 1);
  EXPECT_THAT(options_.PrintConfig("All."), HasSubstr("room = \"49152K\""));
}

TEST_F(OptionSetTest, ShowsHelpAndVersionInOrder) {
  constexpr std::string_view kOrder[] = {"letter", "knife", "room", "wait-ms", "more",
                                         "far",    "count", "loud", "name"};
  options_.SetOrder(kOrder);
  EXPECT_EQ(Read({"--version"}).text, "tool 1\n");
  const OptionOutcome help = Read({"--help"});
  EXPECT_EQ(help.kind, Kind::kShow);
  EXPECT_LT(help.text.find("--letter"), help.text.find("--room"));
  EXPECT_LT(help.text.find("--room"), help.text.find("--name"));
  EXPECT_THAT(help.text, HasSubstr("--room SIZE=48M"));
  EXPECT_THAT(help.text, HasSubstr("The end"));
}

TEST_F(OptionSetTest, AnOrderNamesThemAll) {
  constexpr std::string_view kFew[] = {"letter", "knife"};
  EXPECT_DEATH(options_.SetOrder(kFew), "ordered.size");
  constexpr std::string_view kOther[] = {"spoon"};
  EXPECT_DEATH(options_.SetOrder(kOther), "found");
}

}  // namespace
}  // namespace kerf
