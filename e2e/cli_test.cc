// The command line as people and scripts meet it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "base/strings.h"
#include "base/version.h"
#include "client/fs/testing/settle.h"
#include "client/store/format/framed_file.h"
#include "e2e/file_lease.h"
#include "e2e/world.h"
#include "gmock/gmock.h"

namespace kerf::e2e {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kOk = 0;
constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr int kPartial = 3;
constexpr int kUnavailable = 5;

// Every verb with arguments that are right apart from what it works on.
const std::vector<std::vector<std::string>>& Verbs() {
  static const std::vector<std::vector<std::string>> verbs = {
      {"backup", "."},
      {"restore", "latest", "--target", "out"},
      {"verify"},
      {"snapshots"},
      {"ls", "latest"},
      {"copy", "--to", "other", "--create"},
      {"parity", "--percent", "5"},
      {"forget", "--keep-last", "1"},
      {"gc"},
      {"stats"},
      {"index", "stats"},
      {"ping"},
      {"top", "--once"},
      {"profiles"},
      {"bench", "service"},
      {"analyze", "file"},
      {"chunk", "file"},
      {"completion", "bash"}};
  return verbs;
}

class Cli : public ::testing::Test {
 protected:
  void MakeFiles() {
    std::filesystem::create_directory(world_ / "tree");
    WriteText(world_ / "tree/a", std::string(100'000, 'a'));
    WriteText(world_ / "tree/b", "b");
    WriteText(world_ / "tree/\xff\n", "odd name");
  }

  World world_;
};

TEST_F(Cli, HelpOfEveryVerbHasExamplesAndGoesToStandardOutput) {
  const Completed help = world_.Kerf({"--help"});
  EXPECT_EQ(help.exit_code, kOk);
  EXPECT_EQ(help.err, "");
  EXPECT_THAT(help.out, HasSubstr("130 interrupted"));
  for (const auto& arguments : Verbs()) {
    EXPECT_THAT(help.out, HasSubstr("\n  " + arguments[0] + " "));
    const Completed verb = world_.Kerf({arguments[0], "--help"});
    EXPECT_EQ(verb.exit_code, kOk) << arguments[0];
    EXPECT_EQ(verb.err, "") << arguments[0];
    EXPECT_THAT(verb.out, HasSubstr("  kerf " + arguments[0])) << "an example";
  }
  EXPECT_THAT(world_.Kerf({"backup", "--help"}).out, HasSubstr("mmap")) << "what --force is for";
  const Completed version = world_.Kerf({"--version"});
  EXPECT_EQ(version.exit_code, kOk);
  EXPECT_EQ(version.out, Cat("kerf ", kVersion, "\n"));
}

TEST_F(Cli, UsageErrors) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {},
           {"frobnicate"},
           {"snapshots", "--no-such-flag"},
           {"snapshots", "extra"},
           {"backup"},
           {"restore", "latest"},
           {"restore", "latest", "--target", "x", "--overwrite", "sometimes"},
           {"copy"},
           {"copy", "--to", ""},
           {"copy", "latest", "--to", "x", "--last", "1"},
           {"copy", "--to", "x", "--server", ""},
           {"forget"},
           {"forget", "latest", "--keep-last", "1"},
           {"forget", "--keep-last", "-1"},
           {"chunk", "x", "--profile", "fastcdc2020:min=1"},
           {"chunk", "x", "--profile", "no-such-profile"},
           {"chunk", "x", "--digest", "md5"},
           {"chunk", "x", "--backend", "abacus"},
           {"chunk", "x", "--backend", "scalar", "--profile", "fixed:size=4096"},
           {"completion", "tcsh"},
           {"backup", ".", "--profile", "none"},
           {"backup", ".", "--digest", "md5"},
           {"backup", ".", "--server", "nonsense"},
           {"backup", ""},
           {"backup", ".", ""},
           {"backup", ".", "--store", ""},
           {"backup", ".", "--server", ""},
           {"backup", ".", "--exclude-from", ""},
           {"restore", "latest", "--target", ""},
           {"restore", "latest", "--target", "x", "--max-bytes", "many"},
           {"restore", "", "--target", "x"},
           {"restore", "latest", "--target", "x", "--store", ""},
           {"verify", "--store", ""},
           {"snapshots", "--store", ""},
           {"stats", "--store", ""},
           {"ls", ""},
           {"ls", "latest", "--store", ""},
           {"forget", ""},
           {"forget", "latest", "--store", ""},
           {"gc", "--store", ""},
           {"gc", "--server", ""},
           {"index"},
           {"index", "none"},
           {"index", "check", "--store", ""},
           {"index", "rebuild", "--server", "nonsense"},
           {"index", "export", "--output", ""},
           {"ping", "--server", ""},
           {"bench", "service", "--kerfd", ""},
           {"chunk", ""},
           {"gc", "--server", "nonsense"},
           {"backup", ".", "--exclude", ""},
           {"backup", ".", "--exclude-from", "none"},
           {"ping", "--server", "nonsense"},
           {"top", "--server", ""},
           {"top", "--interval", "never"}}) {
    const std::string shown = nlohmann::json(arguments).dump();
    const Completed text = world_.Kerf(arguments);
    EXPECT_EQ(text.exit_code, kUsage) << shown;
    EXPECT_EQ(text.out, "") << shown;
    EXPECT_THAT(text.err, ::testing::StartsWith("kerf: ")) << shown;
    EXPECT_EQ(std::count(text.err.begin(), text.err.end(), '\n'), 1) << shown << text.err;
    const JsonRun json = world_.KerfJson(arguments);
    EXPECT_EQ(json.exit_code, kUsage) << shown;
    EXPECT_EQ(json.messages.size(), 1u) << shown;
    EXPECT_TRUE(json.Only("error")["message"].is_string()) << shown;
    EXPECT_FALSE(std::filesystem::exists(world_.store())) << shown;
  }
}

TEST_F(Cli, UnknownFlagsAreNamed) {
  EXPECT_THAT(world_.Kerf({"backup", "--jsno"}).err, HasSubstr("--jsno"));
  EXPECT_THAT(world_.Kerf({"snapshots", "--sotre", "x"}).err, HasSubstr("--sotre"));
}

TEST_F(Cli, MissingSettingsSayHowToGiveThem) {
  world_.UnsetEnvironment("KERF_STORE");
  const Completed run = world_.Kerf({"snapshots"});
  EXPECT_EQ(run.exit_code, kUsage);
  EXPECT_THAT(run.err, HasSubstr("--store"));
}

TEST_F(Cli, ACurrentFolderThatIsGoneIsAnError) {
  const std::string kerf = BuiltProgram("client/agent/kerf");
  for (const std::string arguments : {"backup x --store y", "backup . --store y", "snapshots"}) {
    const Completed run = world_.Run(
        {"/bin/sh", "-c", Cat("mkdir gone; cd gone; rmdir ../gone; exec ", kerf, " ", arguments)});
    EXPECT_THAT(run.exit_code, ::testing::AnyOf(kUsage, kFailure)) << arguments;
    EXPECT_THAT(run.err, ::testing::StartsWith("kerf: ")) << arguments;
    EXPECT_THAT(run.err, Not(HasSubstr("unexpected"))) << arguments;
  }
}

TEST_F(Cli, NoStoreAndNoServer) {
  for (const auto& arguments : Verbs()) {
    const std::string& verb = arguments[0];
    if (verb == "chunk" || verb == "completion" || verb == "backup" || verb == "ping" ||
        verb == "top" || verb == "profiles" || verb == "bench") {
      continue;
    }
    const JsonRun run = world_.KerfJson(arguments);
    EXPECT_EQ(run.exit_code, kFailure) << verb;
    EXPECT_EQ(run.Only("error")["code"], "NOT_FOUND") << verb;
  }
  MakeFiles();
  EXPECT_EQ(world_.KerfJson({"backup", "tree"}).exit_code, kUnavailable);
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"backup", "tree"}, {"ping"}, {"gc"}}) {
    const JsonRun run = world_.KerfJson(arguments);
    EXPECT_EQ(run.exit_code, kUnavailable) << arguments[0];
    // What, where, and how to mend it.
    EXPECT_THAT(std::string(run.Only("error")["message"]),
                AllOf(HasSubstr("no kerfd answers at unix:server/kerfd.sock"),
                      HasSubstr("No such file"), HasSubstr("kerfd --listen")))
        << arguments[0];
  }
  EXPECT_THAT(world_.Kerf({"ping", "--server", "127.0.0.1:1"}).err, HasSubstr("refused"));
}

// Everything below `folder`, with its content and the time of its last change.
std::map<std::string, std::string> ContentOf(const std::string& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const auto ticks = entry.last_write_time().time_since_epoch().count();
    content[entry.path()] = Cat(ticks, entry.is_regular_file() ? ReadText(entry.path()) : "");
  }
  return content;
}

TEST_F(Cli, AStoreOfANewerKerfIsLeftAlone) {
  world_.StartServer();
  MakeFiles();
  world_.Backup({"tree"});
  world_.Backup({"tree"});
  const std::string config = ReadText(world_.store() + "/config");
  const auto payload =
      agent::ReadFramedFile(world_.store() + "/config", agent::kConfigMagic, config.size());
  ASSERT_TRUE(payload.ok()) << payload.status();
  const std::vector<std::uint8_t> newer = agent::EncodeFramed(agent::kConfigMagic, *payload, 2);
  // A newer one changes both copies.
  for (const char* copy : {"/config", "/copies/config"}) {
    WriteText(world_.store() + copy, std::string(newer.begin(), newer.end()));
  }
  const auto before = ContentOf(world_.store());
  for (const auto& arguments : Verbs()) {
    const std::string& verb = arguments[0];
    if (verb == "analyze" || verb == "chunk" || verb == "completion" || verb == "ping" ||
        verb == "top" || verb == "profiles" || verb == "bench") {
      continue;
    }
    const JsonRun run = world_.KerfJson(arguments);
    EXPECT_EQ(run.exit_code, kFailure) << verb;
    EXPECT_EQ(run.messages.size(), 1u) << verb;
    EXPECT_EQ(run.Only("error")["code"], "FAILED_PRECONDITION") << verb;
    EXPECT_THAT(std::string(run.Only("error")["message"]),
                AllOf(HasSubstr(world_.store() + "/config"), HasSubstr("version 2"),
                      HasSubstr("a newer kerf wrote it; use that one")))
        << verb;
    EXPECT_EQ(ContentOf(world_.store()), before) << verb;
  }
  EXPECT_FALSE(std::filesystem::exists(world_ / "out"));
  for (const char* copy : {"/config", "/copies/config"}) WriteText(world_.store() + copy, config);
  EXPECT_EQ(world_.KerfJson({"verify", "--read-data"}).exit_code, kOk);
}

TEST_F(Cli, EveryVerbSpeaksJson) {
  world_.StartServer();
  MakeFiles();
  const nlohmann::json backup = world_.Backup({"tree"});
  EXPECT_EQ(backup["files"], 3);
  EXPECT_TRUE(backup["seconds"].is_number());
  world_.Backup({"tree"});

  const JsonRun snapshots = world_.KerfJson({"snapshots"});
  EXPECT_EQ(snapshots.exit_code, kOk);
  ASSERT_EQ(snapshots.Of("snapshot").size(), 2u);
  EXPECT_EQ(snapshots.Of("snapshot")[0]["snapshot"], backup["snapshot"]);

  const JsonRun list = world_.KerfJson({"ls", "latest:" + (world_ / "tree")});
  EXPECT_EQ(list.exit_code, kOk);
  ASSERT_EQ(list.Of("entry").size(), 4u);
  EXPECT_EQ(list.Of("entry")[1]["path"], world_ / "tree/a");
  EXPECT_EQ(list.Of("entry")[1]["size_bytes"], 100'000);
  const nlohmann::json odd = list.Of("entry")[3];
  EXPECT_EQ(odd["path"], (world_ / "tree/") + "\xef\xbf\xbd\n");
  EXPECT_TRUE(odd["path_base64"].is_string());

  EXPECT_EQ(world_.KerfJson({"verify"}).Only("summary")["findings"], 0);
  EXPECT_EQ(world_.KerfJson({"stats"}).Only("summary")["snapshots"], 2);
  EXPECT_TRUE(world_.KerfJson({"ping"}).Only("summary")["latency_ms"].is_number());
  EXPECT_EQ(world_.KerfJson({"restore", "latest", "--target", "out"}).Only("summary")["files"], 3);

  const JsonRun dry = world_.KerfJson({"forget", "--keep-last", "1", "--dry-run"});
  EXPECT_EQ(dry.Only("forgotten")["snapshot"], backup["snapshot"]);
  EXPECT_EQ(world_.KerfJson({"snapshots"}).Of("snapshot").size(), 2u);
  EXPECT_EQ(world_.KerfJson({"forget", "--keep-last", "1"}).Only("summary")["forgotten"], 1);
  EXPECT_EQ(world_.KerfJson({"snapshots"}).Of("snapshot").size(), 1u);
  EXPECT_EQ(world_.KerfJson({"gc"}).exit_code, kOk);
  EXPECT_EQ(world_.KerfJson({"completion", "fish"}).exit_code, kOk);
  for (const auto& arguments : Verbs()) {
    // analyze and bench have tests of their own.
    if (arguments[0] == "restore" || arguments[0] == "chunk" || arguments[0] == "bench" ||
        arguments[0] == "analyze") {
      continue;
    }
    const JsonRun run = world_.KerfJson(arguments);
    EXPECT_EQ(run.exit_code, kOk) << arguments[0];
    EXPECT_FALSE(run.messages.empty()) << arguments[0];
  }
}

TEST_F(Cli, SmallBackupsLeaveFewPacksOnceTheyAreCollected) {
  world_.StartServer();
  MakeFiles();
  std::vector<std::string> snapshots;
  for (int day = 0; day < 5; ++day) {
    WriteText(world_ / "tree/new", Cat("of day ", day));
    if (day == 4) agent::testing::LetFilesSettle();
    snapshots.push_back(world_.Backup({"tree"})["snapshot"]);
  }
  const std::uint64_t before = world_.KerfJson({"stats"}).Only("summary")["packs"];
  EXPECT_GE(before, 8u);
  EXPECT_EQ(world_.KerfJson({"gc", "--dry-run"}).Only("summary")["merged_packs"], before);
  EXPECT_EQ(world_.KerfJson({"stats"}).Only("summary")["packs"], before);
  EXPECT_EQ(world_.KerfJson({"gc"}).Only("summary")["merged_packs"], before);
  EXPECT_EQ(world_.KerfJson({"stats"}).Only("summary")["packs"], 1);
  EXPECT_EQ(world_.KerfJson({"verify", "--read-data"}).exit_code, kOk);
  // What was moved is still known.
  const nlohmann::json again = world_.Backup({"tree", "--force"});
  world_.ExpectNothingNew(again);
  EXPECT_EQ(again["stale_chunks"], 0);
  for (int day = 0; day < 5; ++day) {
    const std::string target = Cat("out-", day);
    EXPECT_EQ(world_.Kerf({"restore", snapshots[day], "--target", target}).exit_code, kOk);
    EXPECT_EQ(ReadText(world_ / (target + (world_ / "tree/new"))), Cat("of day ", day));
  }
}

// docs/json.md names every type and every key.
void ExpectDocumented(const JsonRun& run) {
  static const std::string page = ReadText(BuiltProgram("docs/json.md"));
  for (const nlohmann::json& message : run.messages) {
    const std::string type = message["message_type"];
    EXPECT_THAT(page, HasSubstr(Cat("| `", type, "` |")));
    for (const auto& [key, value] : message.items()) {
      if (key.ends_with("_base64")) continue;
      EXPECT_THAT(page, HasSubstr(Cat("`", key, "`"))) << type;
    }
  }
}

TEST_F(Cli, JsonIsDocumented) {
  world_.StartServer();
  MakeFiles();
  std::filesystem::create_symlink("a", world_ / "tree/symlink");
  std::filesystem::create_hard_link(world_ / "tree/a", world_ / "tree/link");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"backup", "tree", "none"},
           {"backup", "tree"},
           {"snapshots"},
           {"ls", "latest"},
           {"restore", "latest", "--target", "out"},
           {"restore", "latest", "--target", "out"},
           {"parity", "--percent", "5"},
           {"verify"},
           {"stats"},
           {"index", "stats"},
           {"index", "check"},
           {"index", "rebuild"},
           {"index", "export"},
           {"ping"},
           {"top", "--once", "--interval", "100ms"},
           {"top", "--once", "--interval", "100ms", "--server",
            "unix:server/kerfd.sock,127.0.0.1:1"},
           {"chunk", "tree/a", "none"},
           {"analyze", "tree", "none", "--average", "4K", "--algorithm", "mincdc"},
           {"completion", "bash"},
           {"forget", "latest"},
           {"gc"},
           {"nonsense"}}) {
    const JsonRun run = world_.KerfJson(arguments);
    EXPECT_FALSE(run.messages.empty()) << arguments[0];
    ExpectDocumented(run);
  }
  // A pack is lost.
  std::filesystem::remove_all(world_.store() + "/packs");
  std::filesystem::create_directory(world_.store() + "/packs");
  const JsonRun verify = world_.KerfJson({"verify"});
  EXPECT_FALSE(verify.Of("finding").empty());
  ExpectDocumented(verify);
  const JsonRun check = world_.KerfJson({"index", "check"});
  EXPECT_FALSE(check.Of("index_finding").empty());
  ExpectDocumented(check);
}

TEST_F(Cli, JsonNamesAreReversible) {
  world_.StartServer();
  std::filesystem::create_directory(world_ / "tree");
  const std::vector<std::string> names = {
      "\xff\n",       "line\nfeed\t\x01",   "gr\xc3\xbc\xc3\x9f",
      "\xed\xa0\x80", "quote\"back\\slash", "\xef\xbf\xbd"};
  for (const std::string& name : names) WriteText(world_ / ("tree/" + name), "x");
  world_.Backup({"tree"});
  std::vector<std::string> found;
  for (const nlohmann::json& entry : world_.KerfJson({"ls", "latest"}).Of("entry")) {
    std::string path = entry["path"];
    if (entry.contains("path_base64")) {
      // As a script would: with a tool of the machine.
      WriteText(world_ / "encoded", entry["path_base64"]);
      path = world_.Run({"/usr/bin/base64", "-d", world_ / "encoded"}).out;
    }
    if (entry["kind"] == "file") found.push_back(path.substr((world_ / "tree/").size()));
  }
  EXPECT_THAT(found, ::testing::UnorderedElementsAreArray(names));
}

TEST_F(Cli, TextOutputIsQuietWhenAsked) {
  world_.StartServer();
  MakeFiles();
  const Completed loud = world_.Kerf({"backup", "tree"});
  EXPECT_EQ(loud.exit_code, kOk);
  EXPECT_THAT(loud.err, HasSubstr("made a new one"));
  EXPECT_EQ(std::count(loud.err.begin(), loud.err.end(), '\n'), 1) << loud.err;
  EXPECT_THAT(loud.out, AllOf(HasSubstr("snapshot "), HasSubstr("files"), Not(HasSubstr("\x1b"))));
  const Completed quiet = world_.Kerf({"backup", "tree", "--quiet"});
  EXPECT_EQ(quiet.exit_code, kOk);
  EXPECT_EQ(quiet.out + quiet.err, "");
  const Completed list = world_.Kerf({"ls", "latest:" + (world_ / "tree"), "-l"});
  EXPECT_THAT(list.out, HasSubstr("\\xff"));
  EXPECT_EQ(std::count(list.out.begin(), list.out.end(), '\n'), 4) << list.out;
}

TEST_F(Cli, ProgressStaysOnOneLineOfATerminal) {
  if (access("/usr/bin/script", X_OK) != 0) GTEST_SKIP() << "script(1) is not installed";
  world_.StartServer();
  MakeFiles();
  FileLease lease(world_ / "tree/a");
  if (!lease.held()) GTEST_SKIP() << "no leases here";
  constexpr std::size_t kColumns = 30;
  const std::string seen = world_ / "seen";
  const auto terminal = world_.StartOther(
      {"/usr/bin/script", "-qefc",
       Cat("stty cols ", kColumns, "; ", BuiltProgram("client/agent/kerf"), " backup tree"), seen});
  // The backup waits for the file until its progress has been drawn more than once.
  constexpr std::string_view kErase = "\r\x1b[K";
  const auto drawn_twice = [&] {
    const std::string text = ReadText(seen);
    const std::size_t first = text.find(kErase);
    return first != std::string::npos && text.find(kErase, first + 1) != std::string::npos;
  };
  while (!drawn_twice()) {
    ASSERT_FALSE(terminal->HasEnded()) << ReadText(seen);
    usleep(10'000);
  }
  lease.GiveBack();
  EXPECT_EQ(terminal->Wait().exit_code, kOk);
  const std::string text = ReadText(seen);
  EXPECT_THAT(text, HasSubstr("of 3 files"));
  std::size_t begin = text.rfind('\n', text.find(" files")) + 1;
  for (std::size_t end = 0; (end = text.find(kErase, begin)) != std::string::npos;
       begin = end + kErase.size()) {
    EXPECT_LT(end - begin, kColumns) << text;
  }
  EXPECT_THAT(text.substr(begin), ::testing::StartsWith("snapshot ")) << "nothing of it is left";
}

// Large enough for several threads, and with holes, so that it takes little of the disk.
TEST_F(Cli, ChunkCutsALargeFileTheSameWithSeveralThreads) {
  std::string text;
  for (std::uint64_t i = 0; i < 200'000; ++i) text += Cat(i * i, ",");
  WriteText(world_ / "large", text);
  std::filesystem::resize_file(world_ / "large", 130 << 20);
  for (const char* profile :
       {"gear:min=4096,avg=65536,max=1048576", "mincdc:min=65536,max=200000"}) {
    const std::vector<std::string> chunk = {"chunk",    "large",    "--profile", profile,
                                            "--digest", "xxh3-128", "--threads"};
    std::vector<std::string> one = chunk;
    one.emplace_back("1");
    std::vector<std::string> four = chunk;
    four.emplace_back("4");
    const Completed expected = world_.Kerf(one);
    EXPECT_EQ(expected.exit_code, kOk);
    EXPECT_THAT(expected.out, HasSubstr(Cat(" ", 0, " ")));
    EXPECT_TRUE(world_.Kerf(four).out == expected.out) << profile;
  }
  EXPECT_EQ(world_.Kerf({"chunk", "large", "--threads", "0"}).exit_code, kUsage);
}

TEST_F(Cli, ChunkCutsLocally) {
  WriteText(world_ / "empty", "");
  std::string text;
  for (std::uint64_t i = 0; i < 60'000; ++i) text += Cat(i * i, ",");
  WriteText(world_ / "file", text);
  const JsonRun run = world_.KerfJson({"chunk", "file", "--profile", "mincdc-8k"});
  EXPECT_EQ(run.exit_code, kOk);
  std::uint64_t offset = 0;
  for (const nlohmann::json& chunk : run.Of("chunk")) {
    EXPECT_EQ(chunk["file"], "file");
    EXPECT_EQ(chunk["offset"], offset);
    EXPECT_EQ(std::string(chunk["digest"]).size(), 64u);
    offset += static_cast<std::uint64_t>(chunk["length"]);
  }
  EXPECT_EQ(offset, text.size());
  EXPECT_THAT(world_.KerfJson({"chunk", "empty"}).Of("chunk"), IsEmpty());

  const std::string by_name = world_.Kerf({"chunk", "file"}).out;
  EXPECT_EQ(world_.Kerf({"chunk", "-"}, text).out, by_name);
  EXPECT_EQ(world_.Kerf({"chunk", "file", "--backend", "plain"}).out, by_name);
  const auto of_backend = [&](const std::string& backend) {
    return world_.Kerf({"chunk", "file", "--profile", "fastcdc2020-8k", "--backend", backend}).out;
  };
  EXPECT_THAT(of_backend("plain"), Not(AnyOf(by_name, IsEmpty())));
  EXPECT_EQ(of_backend("scalar"), of_backend("plain"));
  EXPECT_EQ(std::count(by_name.begin(), by_name.end(), '\n'),
            static_cast<std::ptrdiff_t>(run.messages.size()));

  const Completed one = world_.Kerf({"chunk", "-", "--digest", "sha256"}, "abc");
  EXPECT_THAT(one.out,
              HasSubstr("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
  const Completed several = world_.Kerf({"chunk", "file", "none", "empty"});
  EXPECT_EQ(several.exit_code, kPartial);
  EXPECT_THAT(several.err, HasSubstr("none"));
  EXPECT_EQ(world_.Kerf({"chunk", "none"}).exit_code, kFailure);
}

TEST_F(Cli, AFullDiskIsAnError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  WriteText(world_ / "file", "x");
  const Completed run = world_.Run(
      {"/bin/sh", "-c", "exec " + BuiltProgram("client/agent/kerf") + " chunk file > /dev/full"});
  EXPECT_NE(run.exit_code, kOk);
}

TEST_F(Cli, AReaderThatGoesAwayEndsItQuietly) {
  std::string text;
  for (std::uint64_t i = 0; i < 300'000; ++i) text += Cat(i * i, ",");
  WriteText(world_ / "file", text);
  const Completed run = world_.Run(
      {"/bin/bash", "-c", BuiltProgram("client/agent/kerf") + " chunk file | head -n 1"});
  EXPECT_EQ(run.exit_code, kOk);
  EXPECT_EQ(run.err, "");
}

TEST_F(Cli, CompletionScriptsAreSound) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Completed script = world_.Kerf({"completion", shell});
    EXPECT_EQ(script.exit_code, kOk);
    for (const auto& arguments : Verbs()) EXPECT_THAT(script.out, HasSubstr(arguments[0]));
    EXPECT_THAT(script.out, HasSubstr("read-data"));
    WriteText(world_ / shell, script.out);
  }
  const Completed syntax = world_.Run({"/bin/bash", "-n", world_ / "bash"});
  EXPECT_EQ(syntax.exit_code, kOk) << syntax.err;
  // As a person would: complete "kerf ver", then "kerf verify --re".
  const Completed used = world_.Run(
      {"/bin/bash", "-c",
       "source ./bash; COMP_WORDS=(kerf ver); COMP_CWORD=1; _kerf; echo ${COMPREPLY[*]}; "
       "COMP_WORDS=(kerf verify --re); COMP_CWORD=2; _kerf; echo ${COMPREPLY[*]}; "
       "COMP_WORDS=(kerf --json --store x ls --st); COMP_CWORD=5; _kerf; echo ${COMPREPLY[*]}; "
       "COMP_WORDS=(kerf bench s); COMP_CWORD=2; _kerf; echo ${COMPREPLY[*]}; "
       "COMP_WORDS=(kerf bench service --rou); COMP_CWORD=3; _kerf; echo ${COMPREPLY[*]}; "
       "COMP_WORDS=(kerf bench r); COMP_CWORD=2; _kerf; echo ${COMPREPLY[*]}; "
       "COMP_WORDS=(kerf bench rapid --kinds i); COMP_CWORD=4; _kerf; echo ${COMPREPLY[*]}; "
       "COMP_WORDS=(kerf index re); COMP_CWORD=2; _kerf; echo ${COMPREPLY[*]}; "
       "COMP_WORDS=(kerf index export --out); COMP_CWORD=3; _kerf; echo ${COMPREPLY[*]}; "
       "COMP_WORDS=(kerf completion ''); COMP_CWORD=2; _kerf; echo ${COMPREPLY[*]}; "
       "COMP_WORDS=(kerf restore latest --overwrite a); COMP_CWORD=4; _kerf; "
       "echo ${COMPREPLY[*]}; "
       "COMP_WORDS=(kerf backup --store ba); COMP_CWORD=3; _kerf; echo ${COMPREPLY[*]}; "
       // Behind -- there are files alone: those of a command.
       "COMP_WORDS=(kerf backup --stdin-from-command -- --st); COMP_CWORD=4; _kerf; "
       "echo \"${COMPREPLY[*]}.\"; "
       "COMP_WORDS=(kerf backup --stdin-from-command -- ba); COMP_CWORD=4; _kerf; "
       "echo ${COMPREPLY[*]}"});
  EXPECT_EQ(used.out,
            "verify\n--read-data "
            "--read-data-subset\n--store\nservice\n--rounds\nrapid\ninsert-delete\nrebuild\n--"
            "output\nbash zsh "
            "fish\nalways\nbash\n.\nbash\n")
      << used.err;
  for (const std::string shell : {"zsh", "fish"}) {
    const std::string program = "/usr/bin/" + shell;
    if (access(program.c_str(), X_OK) != 0) {
      std::printf("%s is not installed: its script was not parsed\n", shell.c_str());
      continue;
    }
    const Completed parsed = world_.Run({program, "-n", world_ / shell});
    EXPECT_EQ(parsed.exit_code, kOk) << parsed.err;
  }
  if (access("/usr/bin/fish", X_OK) != 0) return;
  const Completed fish =
      world_.Run({"/usr/bin/fish", "--no-config", "-c",
                  "source fish; for line in 'kerf ver' 'kerf verify --re' 'kerf completion z' "
                  "'kerf restore latest --overwrite al'; complete -C$line | cut -f1; end"});
  EXPECT_EQ(fish.out, "verify\n--read-data\n--read-data-subset\nzsh\nalways\n") << fish.err;
}

}  // namespace
}  // namespace kerf::e2e
