// Fronts and workers that are killed or paused while an agent is in the middle of a backup. A proxy
// lets a part of the backup through and keeps the rest until the trouble has been made: no backup
// can be over before it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "e2e/cluster.h"
#include "e2e/slow_proxy.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int kOk = 0;
constexpr int kUnavailable = 5;
constexpr int kInterrupted = 130;

// What a run with --json has said, by type.
std::vector<nlohmann::json> MessagesOf(const Completed& end, const std::string& message_type) {
  std::vector<nlohmann::json> found;
  std::istringstream lines(end.out);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json message = nlohmann::json::parse(line);
    if (message["message_type"] == message_type) found.push_back(message);
  }
  return found;
}

std::set<std::string> ValuesOf(const std::vector<nlohmann::json>& messages,
                               const std::string& key) {
  std::set<std::string> values;
  for (const nlohmann::json& message : messages) values.insert(message[key]);
  return values;
}

class LostServersTest : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    if (HasFatalFailure()) return;
    const std::string front = world_.LastAddressOf(FrontName(0));
    proxy_ =
        std::make_unique<SlowProxy>(std::stoi(front.substr(front.rfind(':') + 1)), milliseconds(0));
  }

  // Returns when the first front has `bytes` of the backup, and gets no more.
  void StartBackup(std::int64_t bytes, std::vector<std::string> flags) {
    proxy_->HoldAfter(bytes);
    std::vector<std::string> arguments = {"backup", tree_, "--json"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    backup_ = world_.Start(std::move(arguments));
    ASSERT_TRUE(proxy_->WaitUntilHeld(kPatience));
    ASSERT_FALSE(backup_->HasEnded());
  }

  // The backup went on after a loss, and nothing is missing. What it said of what it has lost.
  std::vector<nlohmann::json> ExpectResumed() {
    const Completed end = backup_->Wait();
    EXPECT_EQ(end.exit_code, kOk) << end.out << end.err;
    const std::vector<nlohmann::json> summary = MessagesOf(end, "summary");
    EXPECT_EQ(summary.size(), 1u);
    for (const nlohmann::json& said : summary) EXPECT_GE(said["resumes"], 1) << end.out;
    ExpectAllThere();
    // The chunks are those of a run that nobody disturbed, and the index knows them.
    const nlohmann::json again = world_.Backup({tree_, "--force"});
    EXPECT_LT(again["new_bytes"], 50'000) << again.dump();
    return MessagesOf(end, "retry");
  }

  // Until the fronts have seen that no worker is there.
  void WaitUntilNobodyWorks() {
    const auto deadline = steady_clock::now() + kPatience;
    while (world_.Kerf({"ping"}).exit_code == kOk) {
      ASSERT_LT(steady_clock::now(), deadline);
      std::this_thread::sleep_for(milliseconds(20));
    }
  }

  std::unique_ptr<SlowProxy> proxy_;
  std::unique_ptr<Program> backup_;
};

TEST_F(LostServersTest, ABackupGoesOnOverTheOtherFront) {
  StartBackup(6'000'000, {"--server", Cat(proxy_->address(), ",", World::AddressOf(FrontName(1)))});
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(fronts_[0]->Kill());
  UseFront(1);
  EXPECT_THAT(ValuesOf(ExpectResumed(), "server"), Contains(proxy_->address()));
}

TEST_F(LostServersTest, WithoutWorkersForLongABackupEndsAndTheNextOneGoesOn) {
  // More than a pack, of which the first run seals one.
  constexpr std::int64_t kPackBytes = std::int64_t{64} << 20;
  for (int number = 4; number < 12; ++number) AddFile(Cat("large-", number), 10'000'000);
  StartBackup(kPackBytes + 12'000'000, {"--server", proxy_->address(), "--retry-for", "3s"});
  ASSERT_FALSE(HasFatalFailure());
  const auto deadline = steady_clock::now() + kPatience;
  const std::string packs = world_.store() + "/packs";
  while (std::filesystem::is_empty(packs)) {
    ASSERT_LT(steady_clock::now(), deadline);
    std::this_thread::sleep_for(milliseconds(20));
  }
  for (const auto& worker : workers_) ASSERT_TRUE(worker->Kill());
  const auto began = steady_clock::now();
  proxy_->Release();
  const Completed end = backup_->Wait();
  EXPECT_LT(steady_clock::now() - began, seconds(20));
  EXPECT_EQ(end.exit_code, kUnavailable) << end.out << end.err;
  const std::vector<nlohmann::json> errors = MessagesOf(end, "error");
  ASSERT_EQ(errors.size(), 1u) << end.out;
  EXPECT_THAT(std::string(errors[0]["message"]),
              AllOf(HasSubstr("gave up after"), HasSubstr("worker"),
                    HasSubstr("run the backup again"), HasSubstr("--retry-for")));
  EXPECT_EQ(std::string(errors[0]["request_id"]).size(), 32u);
  EXPECT_TRUE(world_.KerfJson({"snapshots"}).Of("snapshot").empty());

  for (int number = 0; number < kWorkerCount; ++number) StartWorker(number);
  const nlohmann::json again = world_.Backup({tree_});
  // What was sealed is not stored again.
  const std::int64_t total_bytes = again["total_bytes"];
  EXPECT_LT(again["new_bytes"], total_bytes - kPackBytes + 1'000'000) << again.dump();
  ExpectAllThere();
}

TEST_F(LostServersTest, ABackupWaitsForWorkersThatArePausedForAWhile) {
  StartBackup(6'000'000, {"--server", proxy_->address()});
  ASSERT_FALSE(HasFatalFailure());
  for (const auto& worker : workers_) worker->Signal(SIGSTOP);
  proxy_->Release();
  WaitUntilNobodyWorks();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_FALSE(backup_->HasEnded());
  for (const auto& worker : workers_) worker->Signal(SIGCONT);
  const Completed end = backup_->Wait();
  EXPECT_EQ(end.exit_code, kOk) << end.out << end.err;
  ExpectAllThere();
}

// The server may be silent, or away and waited for.
TEST_F(LostServersTest, CtrlCEndsABackupThatWaits) {
  for (const bool is_away : {false, true}) {
    SCOPED_TRACE(is_away);
    StartBackup(6'000'000, {"--server", proxy_->address(), "--retry-for", "1h"});
    ASSERT_FALSE(HasFatalFailure());
    if (is_away) {
      for (const auto& worker : workers_) ASSERT_TRUE(worker->Kill());
      proxy_->Release();
      WaitUntilNobodyWorks();
      ASSERT_FALSE(HasFatalFailure());
    }
    const auto began = steady_clock::now();
    backup_->Signal(SIGINT);
    const Completed end = backup_->Wait();
    EXPECT_LT(steady_clock::now() - began, seconds(10));
    EXPECT_EQ(end.exit_code, kInterrupted) << end.out << end.err;
    proxy_->Release();
  }
  EXPECT_TRUE(world_.KerfJson({"snapshots"}).Of("snapshot").empty());
}

// Whichever workers the agent's streams are at.
TEST_F(LostServersTest, KilledWorkersEndNoBackup) {
  StartBackup(6'000'000, {"--server", proxy_->address()});
  ASSERT_FALSE(HasFatalFailure());
  for (int number = 0; number < kWorkerCount; ++number) {
    ASSERT_TRUE(workers_[number]->Kill());
    StartWorker(number);
  }
  proxy_->Release();
  const std::vector<nlohmann::json> lost = ExpectResumed();
  EXPECT_FALSE(lost.empty());
  EXPECT_EQ(world_.KerfJson({"index", "check"}).exit_code, kOk);
  // Each stream that was lost is in the log of the front under the name that the agent gives it.
  fronts_[0]->Signal(SIGTERM);
  const std::string log = fronts_[0]->Wait().err;
  for (const std::string& id : ValuesOf(lost, "request_id")) {
    EXPECT_FALSE(id.empty());
    EXPECT_THAT(log, HasSubstr(Cat("request_id=", id)));
  }
}

}  // namespace
}  // namespace kerf::e2e
