#include "server/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "server/testing/notify_socket.h"

namespace kerf {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::MatchesRegex;
using ::testing::Optional;
using ::testing::StartsWith;

// Long enough for what must not come.
constexpr milliseconds kQuiet{50};

ServiceManagerOptions OptionsOf(const std::vector<std::string>& entries) {
  std::vector<const char*> environment;
  environment.reserve(entries.size() + 1);
  for (const std::string& entry : entries) environment.push_back(entry.c_str());
  environment.push_back(nullptr);
  return ReadServiceManagerOptions(environment.data());
}

std::string NewName(bool is_abstract) {
  static int count = 0;
  // A socket's path may only be short.
  return Cat(is_abstract ? "@" : "/tmp/", "kerf-notify-", getpid(), "-", ++count);
}

absl::Status Lives() { return absl::OkStatus(); }

TEST(ServiceManagerOptionsTest, TheEnvironmentSaysWhoIsTold) {
  EXPECT_EQ(OptionsOf({}).socket, "");
  EXPECT_EQ(OptionsOf({"NOTIFY_SOCKET="}).socket, "");
  EXPECT_EQ(OptionsOf({"NOTIFY_SOCKET_=/x", "XNOTIFY_SOCKET=/y"}).socket, "");
  EXPECT_EQ(OptionsOf({"A=b", "NOTIFY_SOCKET=/run/notify"}).socket, "/run/notify");
  EXPECT_EQ(OptionsOf({"NOTIFY_SOCKET=@name"}).socket, "@name");
  for (const std::string& none :
       {std::string("notify"), std::string("/"), std::string("@"), std::string("vsock:2:1234"),
        "/" + std::string(107, 'a'), "@" + std::string(200, 'a')}) {
    EXPECT_EQ(OptionsOf({"NOTIFY_SOCKET=" + none}).socket, "") << none;
  }
  EXPECT_EQ(OptionsOf({"NOTIFY_SOCKET=/" + std::string(106, 'a')}).socket.size(), 107u);
}

TEST(ServiceManagerOptionsTest, TheWatchdogIsOfThisProcess) {
  const auto watchdog_of = [](std::vector<std::string> entries) {
    entries.emplace_back("NOTIFY_SOCKET=@name");
    return OptionsOf(entries).watchdog;
  };
  EXPECT_EQ(watchdog_of({}), microseconds(0));
  EXPECT_EQ(watchdog_of({"WATCHDOG_USEC=2000000"}), std::chrono::seconds(2));
  EXPECT_EQ(watchdog_of({"WATCHDOG_USEC=2000000", Cat("WATCHDOG_PID=", getpid())}),
            std::chrono::seconds(2));
  EXPECT_EQ(watchdog_of({"WATCHDOG_USEC=2000000", "WATCHDOG_PID=1"}), microseconds(0));
  for (const char* none : {"-1", "0", "5s", "99999999999999999999", " 1"}) {
    EXPECT_EQ(watchdog_of({Cat("WATCHDOG_USEC=", none)}), microseconds(0)) << none;
  }
  EXPECT_EQ(OptionsOf({"WATCHDOG_USEC=2000000"}).watchdog, microseconds(0)) << "nobody to tell";
}

class ServiceManagerTest : public ::testing::TestWithParam<bool> {
 protected:
  void Start(microseconds watchdog = microseconds(0)) {
    manager_ = std::make_unique<ServiceManager>(ServiceManagerOptions{
        .socket = name_, .watchdog = watchdog, .patience = milliseconds(100)});
  }

  const std::string name_ = NewName(GetParam());
  NotifySocket socket_{name_};
  std::unique_ptr<ServiceManager> manager_;
};

INSTANTIATE_TEST_SUITE_P(All, ServiceManagerTest, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Abstract" : "Path"; });

TEST_P(ServiceManagerTest, TellsItsLife) {
  Start();
  // Each word asks for a minute more.
  for (const char* const why : {"waits", "waits still"}) {
    manager_->TellWait(why);
    EXPECT_THAT(socket_.Next(), Optional(Cat("EXTEND_TIMEOUT_USEC=60000000\nSTATUS=", why)));
  }
  // Who has not begun to serve does not do so by a reload.
  manager_->BeginReload();
  manager_->EndReload("serves");
  EXPECT_EQ(socket_.Next(kQuiet), std::nullopt);
  manager_->TellReady("serves", Lives);
  EXPECT_THAT(socket_.Next(), Optional(std::string("READY=1\nSTATUS=serves")));
  manager_->TellWait("waits");
  EXPECT_EQ(socket_.Next(kQuiet), std::nullopt) << "it serves";
  manager_->BeginReload();
  EXPECT_THAT(socket_.Next().value_or(""), MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+"));
  manager_->EndReload("serves again");
  EXPECT_THAT(socket_.Next(), Optional(std::string("READY=1\nSTATUS=serves again")));
  manager_->BeginReload();
  EXPECT_THAT(socket_.Next().value_or(""), StartsWith("RELOADING=1"));
  manager_->BeginStop("drains");
  EXPECT_THAT(socket_.Next(), Optional(std::string("STOPPING=1\nSTATUS=drains")));
  // A reload that was under way does not take that back.
  manager_->EndReload("serves");
  manager_->BeginReload();
  EXPECT_EQ(socket_.Next(kQuiet), std::nullopt);
}

TEST_P(ServiceManagerTest, AStatusIsOneLine) {
  Start();
  manager_->TellReady("one\nSTOPPING=1", Lives);
  EXPECT_THAT(socket_.Next(), Optional(std::string("READY=1\nSTATUS=one STOPPING=1")));
}

TEST_P(ServiceManagerTest, TheWatchdogHearsOfWhoLives) {
  Start(milliseconds(10));
  EXPECT_EQ(socket_.Next(kQuiet), std::nullopt) << "it does not serve yet";
  std::atomic<bool> lives{true};
  manager_->TellReady("serves", [&] {
    return lives.load() ? absl::OkStatus() : absl::UnavailableError("it is stuck");
  });
  EXPECT_THAT(socket_.Next().value_or(""), StartsWith("READY=1"));
  for (int count = 0; count < 3; ++count) {
    EXPECT_THAT(socket_.Next(), Optional(std::string("WATCHDOG=1")));
  }
  lives.store(false);
  // One may be on its way.
  while (socket_.Next(kQuiet).has_value()) continue;
  EXPECT_EQ(socket_.Next(kQuiet), std::nullopt);
  lives.store(true);
  EXPECT_THAT(socket_.Next(), Optional(std::string("WATCHDOG=1")));
  manager_->BeginStop("drains");
  ASSERT_TRUE(socket_.NextWith("STOPPING=1").has_value());
  EXPECT_EQ(socket_.Next(kQuiet), std::nullopt);
}

// As one that hangs leaves it: kerfd goes on, and the next one who reads hears of it.
TEST_P(ServiceManagerTest, AFullSocketHoldsNobodyUpForLong) {
  Start();
  const auto begin = steady_clock::now();
  int told_count = 0;
  // Until the system takes no more; each that fails waits for the patience.
  for (; steady_clock::now() < begin + milliseconds(100); ++told_count) manager_->TellWait("x");
  EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(10));
  int come_count = 0;
  while (socket_.Next(milliseconds(0)).has_value()) ++come_count;
  EXPECT_LT(come_count, told_count);
  manager_->BeginStop("drains");
  EXPECT_TRUE(socket_.NextWith("STOPPING=1").has_value());
}

TEST(ServiceManagerAloneTest, NobodyListens) {
  for (const std::string& name : {std::string(), NewName(false), NewName(true)}) {
    ServiceManager manager({.socket = name, .watchdog = milliseconds(2)});
    manager.TellWait("waits");
    manager.TellReady("serves", Lives);
    manager.BeginReload();
    manager.EndReload("serves");
    manager.BeginStop("drains");
  }
}

}  // namespace
}  // namespace kerf
