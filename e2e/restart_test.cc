// Verbs that ask a server's index while it is being restarted: they wait, say so, and go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "e2e/world.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

// Before the test has failed.
constexpr seconds kPatience{30};

// A front, and one worker that has the index.
class RestartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    world_.StartServer();
    if (HasFatalFailure()) return;
    front_ = world_.StartKerfd(
        "front", {"--role", "front", "--workers", world_.address(), "--worker-check-ms", "100"});
    ASSERT_NE(front_, nullptr);
    world_.SetEnvironment("KERF_SERVER", World::AddressOf("front"));
    WriteText(world_ / "file", "text");
    world_.Backup({"file"});
  }

  // Returns when the front knows that nobody is behind it.
  void StopWorker() {
    world_.StopServer();
    const auto deadline = steady_clock::now() + kPatience;
    while (world_.Kerf({"index", "stats", "--retry-for", "0"}).err.find("no worker") ==
           std::string::npos) {
      ASSERT_LT(steady_clock::now(), deadline);
      std::this_thread::sleep_for(milliseconds(20));
    }
  }
  // Starts it, and returns when it waits.
  std::unique_ptr<Program> StartWaiting(const Arguments& arguments) {
    auto run = world_.Start(arguments);
    std::this_thread::sleep_for(milliseconds(1'000));
    EXPECT_FALSE(run->HasEnded());
    return run;
  }

  World world_;
  std::unique_ptr<Program> front_;
};

TEST_F(RestartTest, CallsOfTheIndexWaitForAWorkerThatIsBeingRestarted) {
  for (const Arguments& arguments : std::vector<Arguments>{{"gc"},
                                                           {"index", "stats"},
                                                           {"index", "check"},
                                                           {"index", "rebuild"},
                                                           {"index", "export"},
                                                           {"repo", "list"}}) {
    SCOPED_TRACE(arguments.back());
    StopWorker();
    ASSERT_FALSE(HasFatalFailure());
    const auto run = StartWaiting(arguments);
    world_.StartServer();
    ASSERT_FALSE(HasFatalFailure());
    const Completed end = run->Wait();
    EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
    EXPECT_THAT(end.err, AllOf(HasSubstr("the server is away, trying again in "),
                               HasSubstr(World::AddressOf("front"))));
  }
}

TEST_F(RestartTest, ProgramsAreToldToo) {
  StopWorker();
  ASSERT_FALSE(HasFatalFailure());
  const auto run = StartWaiting({"index", "stats", "--json"});
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  const Completed end = run->Wait();
  EXPECT_EQ(end.exit_code, 0) << end.out << end.err;
  EXPECT_THAT(end.out, AllOf(HasSubstr("\"message_type\":\"retry\""), HasSubstr("\"tries\":1"),
                             HasSubstr("\"message_type\":\"summary\"")));
}

TEST_F(RestartTest, NobodyIsWaitedForLongerThanItWasTold) {
  StopWorker();
  ASSERT_FALSE(HasFatalFailure());
  const auto began = steady_clock::now();
  const Completed end = world_.Kerf({"gc", "--retry-for", "2s"});
  EXPECT_EQ(end.exit_code, 5) << end.out << end.err;
  EXPECT_LT(steady_clock::now() - began, kPatience);
  EXPECT_THAT(end.err, HasSubstr("trying again in "));
}

TEST_F(RestartTest, CtrlCEndsTheWait) {
  StopWorker();
  ASSERT_FALSE(HasFatalFailure());
  for (const Arguments& arguments : std::vector<Arguments>{{"gc"}, {"index", "rebuild"}}) {
    SCOPED_TRACE(arguments.back());
    const auto run = StartWaiting(arguments);
    const auto began = steady_clock::now();
    run->Signal(SIGINT);
    EXPECT_EQ(run->Wait().exit_code, 130);
    EXPECT_LT(steady_clock::now() - began, seconds(10));
  }
}

// An address that is mistyped is said at once.
TEST_F(RestartTest, WhereNobodyWasEverMetNobodyIsWaitedFor) {
  const auto began = steady_clock::now();
  EXPECT_EQ(world_.Kerf({"gc", "--server", "unix:server/nobody.sock"}).exit_code, 5);
  EXPECT_LT(steady_clock::now() - began, kPatience);
}

}  // namespace
}  // namespace kerf::e2e
