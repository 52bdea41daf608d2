// What the verbs make of bad arguments and of stores in a bad way, without a process or a server:
// exit codes, lines of JSON, and that nothing is changed. e2e/cli_test.cc has the good ways.
#include "client/agent/verbs/verbs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "client/agent/verbs/verbs_fixture.h"
#include "client/cli/testing/outcome.h"
#include "client/store/packs/chunk_index.h"
#include "kernels/profile.h"

namespace kerf::agent {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// All that work on a snapshot, and need no server.
std::vector<Arguments> NamingVerbs(const std::string& snapshot, const std::string& target) {
  return {{"restore", snapshot, "--target", target}, {"ls", snapshot}, {"forget", snapshot}};
}

// All that work on a store, with arguments that are right.
std::vector<Arguments> StoreVerbs(const std::string& target) {
  std::vector<Arguments> verbs = NamingVerbs("latest", target);
  for (const char* verb : {"verify", "snapshots", "stats"}) verbs.push_back({verb});
  verbs.push_back({"backup", ".", "--server", "127.0.0.1:1"});
  verbs.push_back({"gc", "--server", "127.0.0.1:1"});
  for (const char* verb : {"stats", "check", "rebuild", "export"}) {
    verbs.push_back({"index", verb, "--server", "127.0.0.1:1"});
  }
  return verbs;
}

TEST_F(VerbsTest, AnErrorNamesTheHelpOfTheVerbThatWasAskedFor) {
  EXPECT_THAT(RunJson({"index", "check", "--bogus"}).message(),
              testing::EndsWith("see kerf index check --help"));
  EXPECT_THAT(RunJson({"ls", "--bogus"}).message(), testing::EndsWith("see kerf ls --help"));
  EXPECT_THAT(RunJson({"--bogus"}).message(), testing::EndsWith("see kerf --help"));
}

TEST_F(VerbsTest, ASnapshotThatIsNotThere) {
  AddSnapshot(kFirst, "first");
  for (const std::string name : {"bbbb", "aaaa000000000009", "LATEST", ":/file", "../config"}) {
    for (const Arguments& arguments : NamingVerbs(name, target())) {
      const Outcome outcome = OnStore(arguments);
      EXPECT_EQ(outcome.exit_code, 1) << arguments[0] << " " << name;
      EXPECT_EQ(outcome.code(), "NOT_FOUND") << arguments[0] << " " << name;
      EXPECT_THAT(outcome.message(), HasSubstr("`kerf snapshots` lists them"));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(target()));
  EXPECT_THAT(Ids(), SizeIs(1));
}

TEST_F(VerbsTest, OfAStoreWithoutSnapshotsLatestIsNotThere) {
  for (const Arguments& arguments : NamingVerbs("latest", target())) {
    const Outcome outcome = OnStore(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << arguments[0];
    EXPECT_THAT(outcome.message(), HasSubstr("holds no snapshot yet")) << arguments[0];
  }
  EXPECT_EQ(OnStore({"snapshots"}).exit_code, 0);
  EXPECT_EQ(Run({"snapshots", "--store", test_.directory()}).out, "no snapshots yet\n");
}

TEST_F(VerbsTest, ABeginningThatSeveralIdsHave) {
  AddSnapshot(kFirst, "first");
  AddSnapshot(kSecond, "second");
  for (const Arguments& arguments : NamingVerbs("aaaa", target())) {
    const Outcome outcome = OnStore(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << arguments[0];
    EXPECT_EQ(outcome.code(), "INVALID_ARGUMENT") << arguments[0];
    EXPECT_THAT(outcome.message(), AllOf(HasSubstr("'aaaa'"), HasSubstr("more of the id")));
  }
  EXPECT_FALSE(std::filesystem::exists(target()));
  EXPECT_THAT(Ids(), SizeIs(2));
  EXPECT_EQ(OnStore({"ls", "aaaa000000000002"}).exit_code, 0);
}

TEST_F(VerbsTest, APathThatTheSnapshotDoesNotHold) {
  AddSnapshot(kFirst, "first");
  for (const Arguments& arguments :
       std::vector<Arguments>{{"restore", "latest:/none", "--target", target()},
                              {"ls", "latest:/none"},
                              {"ls", "latest:fil"},
                              {"ls", "latest:/file/below"}}) {
    const Outcome outcome = OnStore(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << arguments[0];
    EXPECT_EQ(outcome.code(), "NOT_FOUND") << arguments[0];
    EXPECT_THAT(outcome.message(), HasSubstr(Cat("snapshot ", kFirst, " holds no /")));
  }
  EXPECT_FALSE(std::filesystem::exists(target()));
  for (const char* name :
       {"latest:/file", "latest:file", "latest://file/", "latest:", "latest:/"}) {
    EXPECT_THAT(OnStore({"ls", name}).messages, SizeIs(1)) << name;
  }
}

TEST_F(VerbsTest, AStoreThatCannotBeRead) {
  AddSnapshot(kFirst, "first");
  const std::string config = test_.directory() + "/config";
  const std::string copy = test_.directory() + "/copies/config";
  const std::string good = ReadTestFile(config);
  WriteTestFile(folder_.path() + "/file", "x");
  struct Case {
    std::string store;
    std::string config;
    int exit_code;
    std::string code;
    std::string message;
  };
  const std::vector<Case> cases = {
      {test_.directory(), good.substr(0, 20), 6, "DATA_LOSS", config},
      {test_.directory(), "", 6, "DATA_LOSS", config},
      {folder_.path() + "/file", good, 1, "FAILED_PRECONDITION", "/file is no folder"},
  };
  for (const Case& bad : cases) {
    WriteTestFile(config, bad.config);
    WriteTestFile(copy, bad.config);
    for (Arguments arguments : StoreVerbs(target())) {
      arguments.insert(arguments.end(), {"--store", bad.store});
      const Outcome outcome = RunJson(arguments);
      EXPECT_EQ(outcome.exit_code, bad.exit_code) << arguments[0];
      EXPECT_EQ(outcome.code(), bad.code) << arguments[0];
      EXPECT_THAT(outcome.message(), HasSubstr(bad.message)) << arguments[0];
    }
  }
  EXPECT_EQ(ReadTestFile(folder_.path() + "/file"), "x");
}

TEST_F(VerbsTest, AStoreThatIsNotThere) {
  for (Arguments arguments : StoreVerbs(target())) {
    if (arguments[0] == "backup") continue;
    arguments.insert(arguments.end(), {"--store", folder_.path() + "/none"});
    const Outcome outcome = RunJson(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << arguments[0];
    EXPECT_EQ(outcome.code(), "NOT_FOUND") << arguments[0];
    EXPECT_THAT(outcome.message(), HasSubstr("kerf backup --store")) << arguments[0];
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/none"));
  EXPECT_FALSE(std::filesystem::exists(target()));
}

TEST_F(VerbsTest, ADamagedSnapshot) {
  AddSnapshot(kFirst, "first");
  AddSnapshot(kSecond, "second");
  const std::string path = SnapshotPath(kSecond);
  WriteTestFile(path, ReadTestFile(path).substr(0, 30));
  for (const Arguments& arguments : NamingVerbs(kSecond, target())) {
    const Outcome outcome = OnStore(arguments);
    EXPECT_EQ(outcome.exit_code, 6) << arguments[0];
    EXPECT_THAT(outcome.message(), HasSubstr(path)) << arguments[0];
  }
  const Outcome list = OnStore({"snapshots"});
  EXPECT_EQ(list.exit_code, 6);
  ASSERT_THAT(list.messages, SizeIs(2));
  EXPECT_EQ(list.messages[0]["snapshot"], kFirst);
  EXPECT_EQ(list.messages[1]["message_type"], "warning");
  EXPECT_EQ(list.messages[1]["path"], path);
  const Outcome stats = OnStore({"stats"});
  EXPECT_EQ(stats.exit_code, 6);
  EXPECT_EQ(stats.messages[0]["damaged_snapshots"], 1);
  const Outcome verify = OnStore({"verify"});
  EXPECT_EQ(verify.exit_code, 6);
  ASSERT_THAT(verify.messages, SizeIs(2));
  EXPECT_EQ(verify.messages[0]["message_type"], "finding");
  EXPECT_EQ(verify.messages[1]["findings"], 1);
  // The sound one is not kept from anybody.
  EXPECT_EQ(OnStore({"ls", kFirst}).exit_code, 0);
  EXPECT_EQ(OnStore({"restore", kFirst, "--target", target()}).exit_code, 0);
}

TEST_F(VerbsTest, ADamagedPack) {
  AddSnapshot(kFirst, "first");
  std::string bytes = ReadTestFile(last_pack_);
  bytes[kPackHeaderBytes] ^= 1;
  WriteTestFile(last_pack_, bytes);
  EXPECT_EQ(OnStore({"verify"}).exit_code, 0) << "the bytes are not read";
  const Outcome verify = OnStore({"verify", "--read-data"});
  EXPECT_EQ(verify.exit_code, 6);
  ASSERT_FALSE(verify.messages.empty());
  EXPECT_EQ(verify.messages.back()["damaged_packs"], nlohmann::json::array({last_pack_}));
  EXPECT_THAT(std::string(verify.messages.back()["mend"]), HasSubstr("kerf backup --force"));
  const Outcome restore = OnStore({"restore", "latest", "--target", target()});
  EXPECT_EQ(restore.exit_code, 6);
  ASSERT_THAT(restore.messages, SizeIs(2));
  EXPECT_EQ(restore.messages[0]["code"], "DATA_LOSS");
  EXPECT_EQ(restore.messages[0]["path"], target() + "/file");
  EXPECT_THAT(std::string(restore.messages[0]["message"]), HasSubstr(last_pack_));
  EXPECT_EQ(restore.messages[1]["errors"], 1);
  WriteTestFile(last_pack_, "no pack");
  EXPECT_EQ(OnStore({"verify"}).exit_code, 6);
  const Outcome stats = OnStore({"stats"});
  EXPECT_EQ(stats.exit_code, 6);
  EXPECT_EQ(stats.messages[0]["damaged_packs"], 1);
}

TEST_F(VerbsTest, ForgetDoesAllOrNothing) {
  AddSnapshot(kFirst, "first");
  AddSnapshot(kSecond, "second");
  EXPECT_EQ(OnStore({"forget", kFirst, "bbbb"}).exit_code, 1);
  EXPECT_THAT(Ids(), SizeIs(2));
  const Outcome dry = OnStore({"forget", kFirst, "latest", "--dry-run"});
  EXPECT_THAT(dry.messages, SizeIs(3));
  EXPECT_THAT(Ids(), SizeIs(2));
  // One that is named twice.
  const Outcome both = OnStore({"forget", kSecond, "latest", "aaaa000000000002"});
  EXPECT_EQ(both.exit_code, 0);
  EXPECT_EQ(both.messages.back()["forgotten"], 1);
  EXPECT_THAT(Ids(), ::testing::ElementsAre(kFirst));
}

TEST_F(VerbsTest, ForgetKeepsWhatTheRuleSays) {
  AddSnapshot(kFirst, "first");
  AddSnapshot(kSecond, "second");
  // Together they are 2^32.
  const Outcome keep =
      OnStore({"forget", "--keep-last", "2147483648", "--keep-daily", "2147483648"});
  EXPECT_EQ(keep.exit_code, 0);
  EXPECT_THAT(Ids(), SizeIs(2));
  EXPECT_EQ(OnStore({"forget", "--keep-last", "1", "--dry-run"}).messages[0]["snapshot"], kFirst);
  for (const char* count : {"4294967296", "1.5", "x", ""}) {
    EXPECT_EQ(OnStore({"forget", "--keep-last", count}).exit_code, 2) << count;
  }
  EXPECT_EQ(OnStore({"forget", "--keep-last", "0"}).exit_code, 2) << "that would be all";
  EXPECT_THAT(Ids(), SizeIs(2));
}

TEST_F(VerbsTest, ValuesOutOfTheirRange) {
  AddSnapshot(kFirst, "first");
  for (const Arguments& arguments :
       std::vector<Arguments>{{"backup", ".", "--streams", "65"},
                              {"backup", ".", "--streams", "-1"},
                              {"backup", ".", "--compression", "0"},
                              {"backup", ".", "--compression", "20"},
                              {"backup", ".", "--compression", "fastest"},
                              {"backup", ".", "--readers", "65"},
                              {"backup", ".", "--read-order", "random"},
                              {"backup", ".", "--host", ""},
                              {"backup", ".", "--profile", ""},
                              {"backup", ".", "--digest", ""},
                              {"backup", ".", "--exclude", "["},
                              {"backup", ".", "--exclude", "a\\"},
                              {"backup", "/dev/stdin"},
                              {"backup", "/dev/fd/0"},
                              {"backup", ".", "/proc/self/fd/1"},
                              {"restore", "latest", "--target", target(), "--threads", "257"},
                              {"restore", "latest", "--target", target(), "--overwrite", ""},
                              {"gc", "--max-waste", "1.1"},
                              {"gc", "--max-waste", "-0.1"},
                              {"gc", "--max-waste", "nan"},
                              {"gc", "--max-waste", "a lot"},
                              {"gc", "--retry-for", "soon"},
                              {"index", "rebuild", "--retry-for", "5"},
                              {"index", "check", "--retry-for", "-1s"},
                              {"gc", "--server", "unix:"},
                              {"gc", "--server", "host:0"},
                              {"gc", "--server", "host:65536"},
                              {"index", "stats", "--server", "host:0"},
                              {"index", "check", "--server", "unix:"},
                              {"index", "rebuild", "--server", "host"},
                              {"index", "export", "--server", "host"},
                              {"index", "export", "--output", ""}}) {
    const Outcome outcome = OnStore(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments[1] << " " << outcome.out;
    EXPECT_EQ(outcome.code(), "INVALID_ARGUMENT");
    EXPECT_THAT(outcome.message(), ::testing::Not(HasSubstr("unexpected")));
  }
  EXPECT_FALSE(std::filesystem::exists(target()));
}

// It would not be done: the store keeps what it was made with.
TEST_F(VerbsTest, AnotherCutThanTheStoreHasIsAMistake) {
  for (const Arguments& flags : std::vector<Arguments>{{"--digest", "sha256"},
                                                       {"--digest", "xxh3-128"},
                                                       {"--profile", "fastcdc2020-64k"},
                                                       {"--profile", "rabin-8k"}}) {
    Arguments arguments = {"backup", ".", "--server", "127.0.0.1:1", "--retry-for", "0"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Outcome outcome = OnStore(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << flags[1] << outcome.out;
    EXPECT_THAT(outcome.message(),
                AllOf(HasSubstr(test_.store().config().profile()), HasSubstr("--digest blake3"),
                      HasSubstr("leave both out")));
  }
  const Outcome outcome =
      OnStore({"backup", ".", "--server", "127.0.0.1:1", "--retry-for", "0", "--digest", "blake3"});
  EXPECT_NE(outcome.exit_code, 2) << outcome.out;
}

// `--store=$UNSET` must not take the next argument for the store.
TEST_F(VerbsTest, AFlagWithNothingBehindItsSignIsAMistake) {
  for (const Arguments& arguments :
       std::vector<Arguments>{{"backup", "--store=", "a", "b"},
                              {"--config=", "snapshots", "--store", test_.directory()},
                              {"snapshots", "--store="}}) {
    const Outcome outcome = RunJson(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.message(), AllOf(StartsWith("--"), HasSubstr("empty")));
  }
  EXPECT_THAT(Run({"chunk", "--", "--profile="}).err, HasSubstr("No such file"));
  EXPECT_FALSE(std::filesystem::exists("a"));
}

TEST_F(VerbsTest, WithoutKerfLabItIsSaidWhatIsMissing) {
  setenv("PATH", folder_.path().c_str(), 1);
  for (const Arguments& arguments : std::vector<Arguments>{{"analyze", "file"},
                                                           {"bench", "kernels"},
                                                           {"bench", "service"},
                                                           {"bench", "rapid"},
                                                           {"bench", "gpu"}}) {
    const Outcome outcome = RunJson(arguments);
    EXPECT_EQ(outcome.exit_code, 5);
    EXPECT_EQ(outcome.code(), "UNAVAILABLE");
    EXPECT_THAT(outcome.message(),
                AllOf(HasSubstr("kerf-lab"), HasSubstr("beside kerf"), HasSubstr("PATH")));
  }
}

TEST_F(VerbsTest, WhatIsWrongWithFlagsOfKerfLabIsSaidWithoutIt) {
  setenv("PATH", folder_.path().c_str(), 1);
  for (const Arguments& arguments : std::vector<Arguments>{{"analyze"},
                                                           {"analyze", ""},
                                                           {"analyze", "file", "--seed", "x"},
                                                           {"analyze", "file", "--min-share", "2"},
                                                           {"bench"},
                                                           {"bench", "none"},
                                                           {"bench", "service", "--streams", "0"},
                                                           {"bench", "kernels", "--rounds", "0"},
                                                           {"bench", "rapid", "--kinds", "other"},
                                                           {"bench", "gpu", "--device", "x"}}) {
    const Outcome outcome = RunJson(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.message(), HasSubstr(Cat("kerf ", arguments[0])));
  }
}

TEST_F(VerbsTest, AnInterruptedProcessDoesNotStartKerfLab) {
  WriteTestFile(folder_.path() + "/kerf-lab", "#!/bin/sh\nexit 0\n");
  std::filesystem::permissions(folder_.path() + "/kerf-lab", std::filesystem::perms::owner_all);
  setenv("PATH", folder_.path().c_str(), 1);
  cancelled_ = true;
  EXPECT_EQ(Run({"bench", "kernels"}).exit_code, 130);
}

TEST_F(VerbsTest, TopWatchesNobodyWhereNobodyAnswers) {
  const Outcome none = RunJson({"top", "--server", "127.0.0.1:1,unix:no/such.sock"});
  EXPECT_EQ(none.exit_code, 5);
  EXPECT_EQ(none.code(), "UNAVAILABLE");
  EXPECT_THAT(none.message(), AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("refused"),
                                    HasSubstr("--server"), Not(HasSubstr("failed to connect"))));
  EXPECT_THAT(Run({"top", "--server", "127.0.0.1:1"}).out, IsEmpty());
  for (const Arguments& arguments : std::vector<Arguments>{{"--server", "nonsense"},
                                                           {"--server", "127.0.0.1:1,"},
                                                           {"--server", ""},
                                                           {"--interval", "0"},
                                                           {"--interval", "99ms"},
                                                           {"--interval", "61m"},
                                                           {"--interval", "soon"}}) {
    Arguments all = {"top"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    EXPECT_EQ(RunJson(all).exit_code, 2) << arguments[1];
  }
  cancelled_ = true;
  EXPECT_EQ(Run({"top", "--server", "127.0.0.1:1"}).exit_code, 130);
}

TEST_F(VerbsTest, ATargetThatIsNoFolder) {
  AddSnapshot(kFirst, "first");
  WriteTestFile(target(), "x");
  const Outcome outcome = OnStore({"restore", "latest", "--target", target()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.message(), HasSubstr(target()));
  EXPECT_EQ(ReadTestFile(target()), "x");
}

TEST_F(VerbsTest, WhatIsInTheWayStaysUnlessToldOtherwise) {
  AddSnapshot(kFirst, "first");
  std::filesystem::create_directory(target());
  WriteTestFile(target() + "/file", "x");
  EXPECT_EQ(OnStore({"restore", "latest", "--target", target()}).exit_code, 3);
  EXPECT_EQ(ReadTestFile(target() + "/file"), "x");
  const Outcome never =
      OnStore({"restore", "latest", "--target", target(), "--overwrite", "never"});
  EXPECT_EQ(never.exit_code, 0);
  EXPECT_EQ(never.messages.back()["skipped"], 1);
  EXPECT_EQ(ReadTestFile(target() + "/file"), "x");
  EXPECT_EQ(OnStore({"restore", "latest", "--target", target(), "--overwrite", "always"}).exit_code,
            0);
  EXPECT_EQ(ReadTestFile(target() + "/file"), "first");
}

TEST_F(VerbsTest, ChunkNamesEachFileThatItCannotRead) {
  WriteTestFile(folder_.path() + "/file", "content");
  const Outcome folder = RunJson({"chunk", folder_.path()});
  EXPECT_EQ(folder.exit_code, 1);
  EXPECT_THAT(folder.message(), AllOf(HasSubstr(folder_.path()), HasSubstr("directory")));
  const Outcome some = RunJson({"chunk", folder_.path() + "/none", folder_.path() + "/file"});
  EXPECT_EQ(some.exit_code, 3);
  ASSERT_THAT(some.messages, SizeIs(2));
  EXPECT_EQ(some.messages[0]["code"], "NOT_FOUND");
  EXPECT_EQ(some.messages[1]["length"], 7);
}

TEST_F(VerbsTest, AnInterruptedRunEndsWith130) {
  AddSnapshot(kFirst, "first");
  cancelled_ = true;
  EXPECT_EQ(OnStore({"restore", "latest", "--target", target()}).exit_code, 130);
  EXPECT_EQ(OnStore({"ls", "latest"}).exit_code, 130);
}

TEST_F(VerbsTest, HelpOfVerbsBelowVerbsHasExamples) {
  for (const Arguments& arguments : std::vector<Arguments>{{"bench", "kernels", "--help"},
                                                           {"bench", "service", "--help"},
                                                           {"bench", "rapid", "--help"},
                                                           {"bench", "gpu", "--help"},
                                                           {"index", "--help"},
                                                           {"index", "stats", "--help"},
                                                           {"index", "check", "--help"},
                                                           {"index", "rebuild", "--help"},
                                                           {"index", "export", "--help"},
                                                           {"repo", "--help"},
                                                           {"repo", "create", "--help"},
                                                           {"repo", "list", "--help"},
                                                           {"repo", "drop", "--help"},
                                                           {"repo", "stats", "--help"},
                                                           {"repo", "reset-epoch", "--help"},
                                                           {"bench", "--help"}}) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_THAT(outcome.out, HasSubstr(Cat("Examples:\n  kerf ", arguments[0], " ")));
    EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("raw-peer")));
  }
}

TEST_F(VerbsTest, WithoutAServerTheIndexIsLeftAloneAndSoIsTheStore) {
  AddSnapshot(kFirst, "first");
  const std::string file = folder_.path() + "/entries";
  for (const Arguments& arguments : std::vector<Arguments>{{"index", "stats"},
                                                           {"index", "check"},
                                                           {"index", "rebuild"},
                                                           {"index", "export", "--output", file}}) {
    Arguments all = arguments;
    all.insert(all.end(), {"--server", "127.0.0.1:1"});
    const Outcome outcome = OnStore(all);
    EXPECT_EQ(outcome.exit_code, 5) << arguments[1];
    EXPECT_EQ(outcome.code(), "UNAVAILABLE") << arguments[1];
    EXPECT_THAT(outcome.message(), HasSubstr("no kerfd answers at 127.0.0.1:1"));
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(*test_.store().ReadEpoch(), 1u);
  EXPECT_FALSE(std::filesystem::exists(test_.store().plan_path()));
}

TEST_F(VerbsTest, ErrorsForPeopleAreOneLineOnStandardError) {
  const Outcome outcome = Run({"ls", "latest\n\x1b[31m", "--store", test_.directory()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("kerf: "));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  EXPECT_EQ(outcome.err.find('\x1b'), std::string::npos);
  EXPECT_THAT(Run({"ls", "latest", "--quiet", "--store", test_.directory()}).out, IsEmpty());
}

TEST_F(VerbsTest, ProfilesSaysWhereEachCanBeCut) {
  const Outcome all = RunJson({"profiles"});
  EXPECT_EQ(all.exit_code, 0);
  ASSERT_THAT(all.messages, SizeIs(NamedProfiles().size() + 1));
  int default_count = 0;
  for (std::size_t index = 0; index < NamedProfiles().size(); ++index) {
    const nlohmann::json& message = all.messages[index];
    EXPECT_EQ(message["name"], NamedProfiles()[index].name);
    EXPECT_EQ(message["profile"], NamedProfiles()[index].parameters);
    EXPECT_EQ(message["cut_on"][0], "cpu");
    EXPECT_EQ(message["backends"][0], "plain");
    default_count += message["is_default"] ? 1 : 0;
  }
  EXPECT_EQ(default_count, 1);
  EXPECT_EQ(all.messages.back()["profiles"], NamedProfiles().size());

  const auto places = [&](const std::string& profile) {
    const Outcome outcome = RunJson({"profiles", profile});
    EXPECT_THAT(outcome.messages, SizeIs(2));
    return outcome.messages.at(0)["cut_on"].dump();
  };
  EXPECT_EQ(places("fastcdc2020-64k"), R"(["cpu","gpu"])");
  EXPECT_EQ(places("mincdc:min=300,max=2000"), R"(["cpu","gpu"])");
  EXPECT_EQ(places("ram-8k"), R"(["cpu"])");
  // Chunks that are too small for it.
  EXPECT_EQ(places("gear:min=64,avg=256,max=256"), R"(["cpu"])");
  EXPECT_THAT(Run({"profiles", "ram-8k"}).out,
              AllOf(StartsWith("ram-8k  cpu  "), Not(HasSubstr("gpu"))));
  const Outcome wrong = RunJson({"profiles", "ram-7k"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.message(), HasSubstr("the named profiles are"));
}

}  // namespace
}  // namespace kerf::agent
