// The audit log of a real kerfd: read by `kerf audit verify` and by the Python of its
// specification, killed under load, on a disk that is full, taken away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "e2e/watched.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr int kFailure = 1;
constexpr int kPartial = 3;
constexpr int kIntegrity = 6;

class AuditTest : public WatchedTest {
 protected:
  void StartAudited(std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {"--audit", log_path()});
    Start(flags);
  }
  std::string log_path() const { return world_ / "audit/audit.log"; }
  // Of all its files.
  std::vector<std::string> LogFiles() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(world_ / "audit")) {
      if (entry.path().filename().string().starts_with("audit.log")) files.push_back(entry.path());
    }
    // Those that were renamed by their numbers, then the one that is written.
    std::sort(files.begin(), files.end(), [](const std::string& left, const std::string& right) {
      const auto number = [](const std::string& path) {
        const std::string suffix = path.substr(path.rfind('.') + 1);
        return suffix == "log" ? 1'000'000 : std::stoi(suffix);
      };
      return number(left) < number(right);
    });
    return files;
  }
  std::vector<nlohmann::json> Lines(const std::string& event) const {
    std::vector<nlohmann::json> found;
    for (const std::string& path : LogFiles()) {
      std::ifstream file(path);
      for (std::string text; std::getline(file, text);) {
        const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
        if (line.is_object() && line["event"] == event) found.push_back(line);
      }
    }
    return found;
  }
  JsonRun Verify(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"audit", "verify"};
    for (const std::string& file : LogFiles()) arguments.push_back(file);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return world_.KerfJson(arguments);
  }
  void ExpectWell() {
    const JsonRun run = Verify();
    EXPECT_EQ(run.exit_code, 0);
    for (const nlohmann::json& finding : run.Of("finding")) ADD_FAILURE() << finding;
    EXPECT_THAT(AskPython(), StartsWith("well up to "));
  }
  // What the program of the specification says of the log.
  std::string AskPython() {
    std::istringstream page(ReadText(BuiltProgram("docs/spec/audit.md")));
    std::string program;
    std::string line;
    while (std::getline(page, line) && line != "```python") {
    }
    while (std::getline(page, line) && line != "```") program += line + "\n";
    std::vector<std::string> arguments = {"/usr/bin/python3", "-c", program};
    for (const std::string& file : LogFiles()) arguments.push_back(file);
    const Completed run = world_.Run(arguments);
    return run.exit_code == 0 ? run.out : run.err;
  }
  void MakeFolder() { std::filesystem::create_directory(world_ / "audit"); }
};

TEST_F(AuditTest, WhoBackedUpWhatIsThereAndHolds) {
  MakeFolder();
  StartAudited();
  ASSERT_FALSE(HasFatalFailure());
  WriteRandom("file", 3'000'000, 1);
  world_.Backup({"file"});
  EXPECT_EQ(world_.Kerf({"gc"}).exit_code, 0);
  ExpectWell();
  EXPECT_THAT(Ask("/metrics").body, HasSubstr("\nkerf_audit_writable 1\n"));
  world_.StopServer();
  ExpectWell();
  const std::vector<nlohmann::json> calls = Lines("call");
  std::uint64_t committed = 0;
  std::vector<std::string> methods;
  for (const nlohmann::json& call : calls) {
    methods.push_back(call["method"]);
    committed += call["counts"].value("committed", std::uint64_t{0});
    EXPECT_EQ(call["outcome"], "OK") << call;
    EXPECT_NE(call["repository"], "") << call;
    if (methods.back() == "kerf.v1.ChunkingService/Upload") {
      EXPECT_THAT(std::string(call["agent"]), StartsWith("kerf ")) << call;
    }
  }
  EXPECT_GT(committed, 100u);
  EXPECT_THAT(methods, AllOf(testing::Contains("kerf.v1.ChunkingService/Upload"),
                             testing::Contains("kerf.v1.IndexService/AdvanceEpoch")));
  struct stat info{};
  ASSERT_EQ(stat(log_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
}

TEST_F(AuditTest, WhatIsWrongIsSaidWithItsPlace) {
  MakeFolder();
  StartAudited();
  ASSERT_FALSE(HasFatalFailure());
  WriteRandom("file", 100'000, 1);
  for (int round = 0; round < 3; ++round) world_.Backup({"file", "--force"});
  world_.StopServer();
  const std::string whole = ReadText(log_path());
  const std::string last_hash = Verify().Only("summary")["last_hash"];
  EXPECT_EQ(Verify({"--expect-hash", last_hash}).exit_code, 0);

  std::string changed = whole;
  const std::size_t place = changed.find("\"outcome\":\"OK\"");
  ASSERT_NE(place, std::string::npos);
  changed.replace(place, 14, "\"outcome\":\"KO\"");
  WriteText(log_path(), changed);
  const auto line =
      std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(place), '\n') + 1;
  JsonRun run = Verify();
  EXPECT_EQ(run.exit_code, kIntegrity);
  EXPECT_EQ(run.Only("finding")["kind"], "changed");
  EXPECT_EQ(run.Only("finding")["line"], line);
  EXPECT_THAT(AskPython(), HasSubstr("broken"));
  const Completed said = world_.Kerf({"audit", "verify", log_path()});
  EXPECT_EQ(said.exit_code, kIntegrity);
  EXPECT_THAT(said.out, HasSubstr(Cat(log_path(), ":", line, ": the line is not as written")));

  // The end: known only to who has noted it.
  const std::size_t end = whole.rfind('\n', whole.size() - 2) + 1;
  WriteText(log_path(), whole.substr(0, end));
  EXPECT_EQ(Verify().exit_code, 0);
  run = Verify({"--expect-hash", last_hash});
  EXPECT_EQ(run.exit_code, kIntegrity);
  EXPECT_EQ(run.Only("finding")["kind"], "cut_off");
  WriteText(log_path(), whole.substr(0, whole.size() - 5));
  run = Verify();
  EXPECT_EQ(run.exit_code, kIntegrity);
  EXPECT_EQ(run.Only("finding")["kind"], "torn");
  EXPECT_EQ(world_.Kerf({"audit", "verify", "none"}).exit_code, kFailure);
  EXPECT_EQ(world_.Kerf({"audit", "verify", log_path(), "--expect-hash", "xyz"}).exit_code, 2);
}

TEST_F(AuditTest, AKerfdThatIsKilledLeavesALogThatHolds) {
  MakeFolder();
  for (int number = 0; number < 40; ++number) {
    WriteRandom(Cat("file-", number), 50'000, static_cast<std::uint64_t>(number));
  }
  std::size_t before_count = 0;
  for (int kill = 0; kill < 8; ++kill) {
    StartAudited();
    ASSERT_FALSE(HasFatalFailure());
    std::vector<std::unique_ptr<Program>> backups;
    backups.reserve(4);
    for (int number = 0; number < 4; ++number) {
      backups.push_back(
          world_.Start({"--quiet", "backup", Cat("file-", (kill * 4 + number) % 40), "--force",
                        "--store", world_ / Cat("store-", number), "--retry-for", "1ms"}));
    }
    // Not before there is something to tear, and at another moment each time.
    const auto deadline = steady_clock::now() + kPatience;
    while (Lines("call").size() <= before_count && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    std::this_thread::sleep_for(milliseconds(7 * kill));
    ASSERT_TRUE(world_.server().Kill());
    for (const auto& backup : backups) backup->Wait();
    before_count = Lines("call").size();
    const JsonRun run = Verify();
    // Before it is told of, half a line is one.
    for (const nlohmann::json& finding : run.Of("finding")) EXPECT_EQ(finding["kind"], "torn");
  }
  EXPECT_GE(before_count, 8u);
  StartAudited();
  ASSERT_FALSE(HasFatalFailure());
  ExpectWell();
  EXPECT_THAT(Lines("start"), SizeIs(9));
  world_.StopServer();
  ExpectWell();
}

// As a crash of the machine leaves it, which kill does not.
TEST_F(AuditTest, HalfALineIsToldOfAtTheNextStart) {
  MakeFolder();
  StartAudited();
  ASSERT_FALSE(HasFatalFailure());
  WriteRandom("file", 100'000, 1);
  world_.Backup({"file"});
  world_.StopServer();
  const std::string whole = ReadText(log_path());
  const std::size_t last_begin = whole.rfind('\n', whole.size() - 2) + 1;
  std::size_t start_count = 1;
  for (std::size_t size = last_begin + 1; size < whole.size() - 1; size += 40) {
    WriteText(log_path(), whole.substr(0, size));
    EXPECT_EQ(Verify().exit_code, kIntegrity);
    StartAudited();
    ASSERT_FALSE(HasFatalFailure());
    world_.StopServer();
    ExpectWell();
    EXPECT_EQ(Verify().Only("summary")["torn"], 1);
    ++start_count;
  }
  EXPECT_GT(start_count, 3u);
}

TEST_F(AuditTest, AFileThatIsDeletedOrRenamedIsNoticed) {
  MakeFolder();
  StartAudited();
  ASSERT_FALSE(HasFatalFailure());
  WriteRandom("file", 100'000, 1);
  world_.Backup({"file"});
  std::filesystem::rename(log_path(), log_path() + ".1");
  const auto deadline = steady_clock::now() + kPatience;
  while (!std::filesystem::exists(log_path()) && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  world_.Backup({"file", "--force"});
  ExpectWell();
  std::filesystem::remove(log_path());
  while (!std::filesystem::exists(log_path()) && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  world_.Backup({"file", "--force"});
  EXPECT_THAT(world_.StopServer(), HasSubstr("was moved or removed"));
  // What was in it is missed.
  const JsonRun run = Verify();
  EXPECT_EQ(run.exit_code, kIntegrity);
  EXPECT_EQ(run.Only("finding")["kind"], "missing");
}

TEST_F(AuditTest, TwoKerfdDoNotWriteOneLog) {
  MakeFolder();
  StartAudited();
  ASSERT_FALSE(HasFatalFailure());
  const Completed other = world_.Run(
      {BuiltProgram("server/kerfd"), "--listen", "unix:server/second.sock", "--audit", log_path()});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("another process writes to it"));
  world_.StopServer();
  ExpectWell();
}

TEST_F(AuditTest, ItNamesWhoCalled) {
  MakeFolder();
  const std::string access = world_ / "access.toml";
  const std::string me = Cat("user/", getuid());
  WriteText(access, Cat("[[identity]]\nname = \"", me,
                        "\"\n[[identity.grant]]\nrole = \"write\"\nrepositories = [\"*\"]\n"));
  ASSERT_EQ(chmod(access.c_str(), 0600), 0);
  StartAudited({"--access", access});
  ASSERT_FALSE(HasFatalFailure());
  WriteRandom("file", 100'000, 1);
  world_.Backup({"file"});
  EXPECT_NE(world_.Kerf({"gc"}).exit_code, 0) << "who may write may not collect";
  EXPECT_NE(world_.Kerf({"top", "--once"}).exit_code, 0);
  world_.StopServer();
  std::vector<std::string> refused;
  for (const nlohmann::json& call : Lines("call")) {
    if (call["outcome"] != "OK") refused.push_back(call["method"]);
    if (call["outcome"] != "OK") {
      EXPECT_EQ(call["outcome"], "NOT_YOURS") << call;
    }
    EXPECT_EQ(call["identity"], me) << call;
    EXPECT_EQ(call["proof"], "user") << call;
  }
  EXPECT_THAT(refused, AllOf(testing::Contains("kerf.v1.IndexService/AdvanceEpoch"),
                             testing::Contains("kerf.v1.StatusService/GetStatus")));
  ExpectWell();
}

TEST_F(AuditTest, AFrontTellsOfWhatItRefusesAndTheWorkerOfTheRest) {
  MakeFolder();
  StartAudited();
  ASSERT_FALSE(HasFatalFailure());
  const auto front = world_.StartKerfd(
      "front", {"--role", "front", "--workers", world_.address(), "--worker-check-ms", "100",
                "--audit", world_ / "audit/front.log"});
  ASSERT_NE(front, nullptr);
  world_.SetEnvironment("KERF_SERVER", World::AddressOf("front"));
  WriteRandom("file", 100'000, 1);
  world_.Backup({"file"});
  world_.StopServer();
  // The front hears of it within some checks.
  std::string said;
  const auto deadline = steady_clock::now() + kPatience;
  while (said.find("NO_WORKER") == std::string::npos && steady_clock::now() < deadline) {
    EXPECT_NE(world_.Kerf({"index", "stats", "--retry-for", "0"}).exit_code, 0);
    said = ReadText(world_ / "audit/front.log");
  }
  EXPECT_THAT(Lines("call"), testing::Not(IsEmpty()));
  EXPECT_THAT(said, AllOf(HasSubstr("\"outcome\":\"NO_WORKER\""),
                          HasSubstr("\"method\":\"kerf.v1.IndexService/GetIndexStats\""),
                          testing::Not(HasSubstr("\"outcome\":\"OK\""))));
}

// On a small disk, in a mount namespace of this process and those that it starts.
class AuditDiskTest : public AuditTest {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(unshare(CLONE_NEWNS), 0) << std::strerror(errno) << ": this test needs root";
    ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0)
        << std::strerror(errno) << ": this test needs root";
  }
  void SetUp() override {
    MakeFolder();
    ASSERT_EQ(mount("none", (world_ / "audit").c_str(), "tmpfs", 0, "size=256k"), 0)
        << std::strerror(errno);
  }
  void TearDown() override { umount2((world_ / "audit").c_str(), MNT_DETACH); }

  void Fill() {
    std::ofstream filler(world_ / "audit/filler", std::ios::binary);
    const std::string block(1024, 'x');
    while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
};

TEST_F(AuditDiskTest, WithoutRoomNothingIsChangedUntilThereIsSome) {
  StartAudited();
  ASSERT_FALSE(HasFatalFailure());
  WriteRandom("file", 1'000'000, 1);
  world_.Backup({"file"});
  ASSERT_TRUE(WaitUntilReadinessIs("ready"));
  Fill();
  // What is left of its last page takes some lines.
  const auto deadline = steady_clock::now() + kPatience;
  for (int round = 0; Readiness() == "ready\n" && steady_clock::now() < deadline; ++round) {
    WriteRandom("other", 50'000, std::uint64_t{100} + static_cast<std::uint64_t>(round));
    world_.Kerf({"backup", "other", "--quiet", "--retry-for", "1s"});
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_THAT(Readiness(), AllOf(StartsWith("not ready: the audit log cannot be written: "),
                                 HasSubstr("No space left")));
  EXPECT_THAT(Ask("/metrics").body, HasSubstr("\nkerf_audit_writable 0\n"));
  WriteRandom("more", 500'000, 2);
  const nlohmann::json summary = world_.Backup({"more", "--retry-for", "2s"}, kPartial);
  EXPECT_THAT(std::string(summary["index_warning"]), HasSubstr("the audit log cannot be written"));
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, 0) << "the store needs no audit";
  EXPECT_NE(world_.Kerf({"gc"}).exit_code, 0);
  std::filesystem::remove(world_ / "audit/filler");
  EXPECT_TRUE(WaitUntilReadinessIs("ready"));
  EXPECT_EQ(world_.Backup({"more", "--force"})["index_warning"], "");
  world_.StopServer();
  ExpectWell();
}

TEST_F(AuditDiskTest, WithoutRoomItGoesOnIfItIsToldTo) {
  StartAudited({"--audit-on-failure", "go-on"});
  ASSERT_FALSE(HasFatalFailure());
  Fill();
  const auto deadline = steady_clock::now() + kPatience;
  for (int round = 0; steady_clock::now() < deadline; ++round) {
    WriteRandom("file", 50'000, std::uint64_t{100} + static_cast<std::uint64_t>(round));
    EXPECT_EQ(world_.Backup({"file"})["index_warning"], "");
    if (Ask("/metrics").body.find("\nkerf_audit_writable 0\n") != std::string::npos) break;
  }
  EXPECT_EQ(Readiness(), "ready\n");
  EXPECT_THAT(world_.Kerf({"ping"}).out, HasSubstr("the audit log cannot be written"));
  WriteRandom("file", 50'000, 7);
  EXPECT_EQ(world_.Backup({"file"})["index_warning"], "");
  EXPECT_THAT(world_.StopServer(), HasSubstr("kerfd goes on without it"));
}

}  // namespace
}  // namespace kerf::e2e
