#include "server/net/name_resolver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

namespace kerf {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

absl::StatusOr<HostAddresses> WaitFor(NameResolver& names, const std::string& host) {
  const auto end = steady_clock::now() + std::chrono::seconds(30);
  while (steady_clock::now() < end) {
    if (auto found = names.Find(host)) return *found;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return absl::DeadlineExceededError("no answer");
}

TEST(NameResolverTest, NumbersAreNotLookedUp) {
  NameResolver names([](const std::string& host) -> absl::StatusOr<HostAddresses> {
    ADD_FAILURE() << host;
    return absl::UnavailableError("");
  });
  for (const char* host : {"127.0.0.1", "::1"}) {
    EXPECT_EQ(*names.Find(host).value(), HostAddresses{host});
  }
}

TEST(NameResolverTest, NobodyWaitsForALookup) {
  std::promise<void> go_on;
  // The lookup may outlive the test.
  const auto call_count = std::make_shared<std::atomic<int>>(0);
  const auto gate = go_on.get_future().share();
  {
    NameResolver names([call_count, gate](const std::string& host) {
      ++*call_count;
      if (host == "slow") gate.wait();
      return absl::StatusOr<HostAddresses>(HostAddresses{"10.0.0.1"});
    });
    EXPECT_FALSE(names.Find("slow").has_value());
    EXPECT_TRUE(WaitFor(names, "fast").ok());
    // Not begun a second time.
    EXPECT_FALSE(names.Find("slow").has_value());
    const auto end = steady_clock::now() + std::chrono::seconds(30);
    while (*call_count < 2 && steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(*call_count, 2);
  }
  // It went while its lookup hung.
  go_on.set_value();
}

TEST(NameResolverTest, AnAnswerGrowsOld) {
  const auto call_count = std::make_shared<std::atomic<int>>(0);
  NameResolver names([call_count](const std::string&) {
    return absl::StatusOr<HostAddresses>(HostAddresses{std::to_string(++*call_count)});
  });
  EXPECT_EQ(*WaitFor(names, "host"), HostAddresses{"1"});
  std::this_thread::sleep_for(milliseconds(1'100));
  EXPECT_EQ(*WaitFor(names, "host"), HostAddresses{"2"});
}

TEST(NameResolverTest, AnAnswerWaitsForWhoComesBackLate) {
  const auto call_count = std::make_shared<std::atomic<int>>(0);
  NameResolver names([call_count](const std::string&) {
    return absl::StatusOr<HostAddresses>(HostAddresses{std::to_string(++*call_count)});
  });
  EXPECT_FALSE(names.Find("host").has_value());
  std::this_thread::sleep_for(milliseconds(2'100));
  const auto late = names.Find("host");
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(**late, HostAddresses{"1"});
  // Once it has been given, it grows old.
  EXPECT_FALSE(names.Find("host").has_value());
}

TEST(NameResolverTest, TheSystemKnowsItself) {
  EXPECT_TRUE(LookUpHostInSystem("localhost").ok());
  const absl::Status status = LookUpHostInSystem("no such host").status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_NE(status.message().find("'no such host'"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace kerf
