#include "server/routing/worker.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace kerf::routing {
namespace {

class WorkerTest : public testing::Test {
 protected:
  WorkerTest() {
    // TEST_TMPDIR is too long for a socket's path.
    KERF_CHECK(mkdtemp(folder_.data()) != nullptr);
    path_ = folder_ + "/kerfd.sock";
    address_.sun_family = AF_UNIX;
    path_.copy(address_.sun_path, sizeof address_.sun_path - 1);
    listener_ = Listen();
  }
  ~WorkerTest() override { std::filesystem::remove_all(folder_); }

  // At a new socket at the path.
  UniqueFd Listen() {
    UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    unlink(path_.c_str());
    KERF_CHECK(
        bind(listener.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_) == 0);
    KERF_CHECK(listen(listener.get(), 1) == 0);
    return listener;
  }
  // Whether somebody connects to it soon.
  static bool IsMet(const UniqueFd& listener) {
    pollfd met{listener.get(), POLLIN, 0};
    return poll(&met, 1, 10'000) == 1 && UniqueFd(accept(listener.get(), nullptr, nullptr)).valid();
  }
  // Another connection that nobody takes; whether there was room for it.
  bool Wait() {
    waiting_.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return connect(waiting_.back().get(), reinterpret_cast<const sockaddr*>(&address_),
                   sizeof address_) == 0;
  }

  std::string folder_ = "/tmp/kerf-worker-XXXXXX";
  std::string path_;
  sockaddr_un address_{};
  UniqueFd listener_;
  std::vector<UniqueFd> waiting_;
};

// By the path somebody else would get the token who came to stand there behind the look.
TEST_F(WorkerTest, ATokenGoesToTheSocketThatWasLookedAtAndNotToItsPath) {
  Worker worker({.address = Cat("unix:", path_)}, {1, 1}, nullptr);
  const auto channel = worker.TakeTokenChannel();
  ASSERT_NE(channel, nullptr);
  ASSERT_TRUE(IsMet(listener_)) << "the look";
  const UniqueFd later = Listen();
  channel->GetState(/*try_to_connect=*/true);
  EXPECT_TRUE(IsMet(listener_));
  EXPECT_FALSE(UniqueFd(accept(later.get(), nullptr, nullptr)).valid());
  // A worker that has started again is one's own as well.
  const auto next = worker.TakeTokenChannel();
  ASSERT_NE(next, nullptr);
  EXPECT_TRUE(IsMet(later)) << "the look";
  next->GetState(/*try_to_connect=*/true);
  EXPECT_TRUE(IsMet(later));
}

// The thread that asks has other workers' calls to begin.
TEST_F(WorkerTest, ATokensChannelIsNotWaitedForWhereConnectionsWait) {
  while (Wait()) {
  }
  Worker worker({.address = Cat("unix:", path_)}, {1, 1}, nullptr);
  const auto begun_at = std::chrono::steady_clock::now();
  for (int call = 0; call < 5; ++call) worker.TakeTokenChannel();
  EXPECT_LT(std::chrono::steady_clock::now() - begun_at, std::chrono::seconds(5));
}

// Of a worker that was first asked for when there were none.
TEST_F(WorkerTest, ATokensChannelIsThereAgainOnceThereAreFiles) {
  Worker worker({.address = Cat("unix:", path_)}, {1, 1}, nullptr);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool has_channel = worker.TakeTokenChannel() != nullptr;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(has_channel);
  EXPECT_NE(worker.TakeTokenChannel(), nullptr);
}

}  // namespace
}  // namespace kerf::routing
