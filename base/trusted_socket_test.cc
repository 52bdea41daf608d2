#include "base/trusted_socket.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace kerf {
namespace {

// Not the number of those who have none in a user namespace.
constexpr uid_t kMallory = 23'456;

class TrustedSocketTest : public testing::Test {
 protected:
  TrustedSocketTest() {
    KERF_CHECK(mkdtemp(folder_.data()) != nullptr);
    KERF_CHECK(chmod(folder_.c_str(), 0777) == 0);
    path_ = folder_ + "/kerfd.sock";
  }
  ~TrustedSocketTest() override { std::filesystem::remove_all(folder_); }

  static sockaddr_un AddressOf(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    KERF_CHECK(path.size() < sizeof address.sun_path);
    path.copy(address.sun_path, path.size());
    return address;
  }
  // Who listens at a new socket there.
  static UniqueFd Listen(const std::string& path) {
    UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_un address = AddressOf(path);
    unlink(path.c_str());
    KERF_CHECK(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
               0);
    KERF_CHECK(listen(listener.get(), 8) == 0);
    return listener;
  }
  // The same by another user.
  static UniqueFd ListenAsMallory(const std::string& path) {
    KERF_CHECK(seteuid(kMallory) == 0);
    UniqueFd listener = Listen(path);
    KERF_CHECK(seteuid(0) == 0);
    return listener;
  }
  // Only root can, and not where others have no numbers, as in a sandbox.
  static bool CanBeMallory() { return seteuid(kMallory) == 0 && seteuid(0) == 0; }

  // Whether a connection to `target` comes to `listener`; those that have come before are dropped.
  static bool LeadsTo(const std::string& target, const UniqueFd& listener) {
    MetCount(listener);
    return Connects(target) && UniqueFd(accept(listener.get(), nullptr, nullptr)).valid();
  }
  // Of a child that looks for itself; 0, too, where it says (77) that it cannot be tried here.
  static int ExitCodeOf(pid_t child) {
    int status = 0;
    KERF_CHECK(waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status)) return -1;
    return WEXITSTATUS(status) == 77 ? 0 : WEXITSTATUS(status);
  }
  // How many have connected.
  static int MetCount(const UniqueFd& listener) {
    int count = 0;
    while (UniqueFd(accept(listener.get(), nullptr, nullptr)).valid()) ++count;
    return count;
  }
  static bool Connects(const std::string& target) {
    const UniqueFd client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = AddressOf(target);
    return connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  // TEST_TMPDIR is too long for a socket's path.
  std::string folder_ = "/tmp/kerf-trusted-XXXXXX";
  std::string path_;
};

TEST_F(TrustedSocketTest, OnesOwnIsConnectedToAsOftenAsItComes) {
  TrustedSocket socket(path_, std::nullopt);
  EXPECT_TRUE(socket.Look().ok());
  EXPECT_FALSE(Connects(socket.target())) << "nobody is there";
  for (int start = 0; start < 3; ++start) {
    const UniqueFd listener = Listen(path_);
    EXPECT_FALSE(LeadsTo(socket.target(), listener)) << "nobody has looked at it";
    EXPECT_TRUE(socket.Look().ok());
    EXPECT_TRUE(LeadsTo(socket.target(), listener));
    EXPECT_TRUE(socket.Look().ok());
    EXPECT_TRUE(LeadsTo(socket.target(), listener));
  }
  EXPECT_TRUE(socket.Look().ok());
  EXPECT_FALSE(Connects(socket.target()));
}

// It is met for a look once, and not before each call.
TEST_F(TrustedSocketTest, WhatWasLookedAtIsNotMetAgain) {
  const UniqueFd listener = Listen(path_);
  TrustedSocket socket(path_, std::nullopt);
  for (int look = 0; look < 5; ++look) EXPECT_TRUE(socket.Look().ok());
  EXPECT_EQ(MetCount(listener), 1);
}

// As one that was killed leaves it.
TEST_F(TrustedSocketTest, OneAtWhichNobodyListensIsNobodys) {
  Listen(path_).Reset();
  TrustedSocket socket(path_, std::nullopt);
  const absl::Status status = socket.Look();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_FALSE(Connects(socket.target()));
}

TEST_F(TrustedSocketTest, WhatIsNoSocketLeadsNowhere) {
  std::ofstream(path_) << "a file";
  TrustedSocket socket(path_, std::nullopt);
  EXPECT_TRUE(socket.Look().ok());
  EXPECT_FALSE(Connects(socket.target()));
}

// Whoever asks may have others to serve.
TEST_F(TrustedSocketTest, WhereAsManyWaitAsMayNobodyWaitsForLongerThanHeLikes) {
  using std::chrono::milliseconds;
  const sockaddr_un address = AddressOf(path_);
  for (const milliseconds patience : {milliseconds(0), milliseconds(1'100)}) {
    const UniqueFd listener = Listen(path_);
    const auto is_taken = [&](std::vector<UniqueFd>* waiting) {
      waiting->emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      return connect(waiting->back().get(), reinterpret_cast<const sockaddr*>(&address),
                     sizeof address) == 0;
    };
    std::vector<UniqueFd> waiting;
    while (is_taken(&waiting)) {
    }
    TrustedSocket socket(path_, std::nullopt, patience);
    const auto begun_at = std::chrono::steady_clock::now();
    const absl::Status status = socket.Look();
    const auto took = std::chrono::steady_clock::now() - begun_at;
    EXPECT_TRUE(status.ok()) << status;
    // The system counts in steps of some milliseconds.
    EXPECT_GE(took, patience * 9 / 10);
    EXPECT_LT(took, patience + std::chrono::seconds(2));
    EXPECT_FALSE(LeadsTo(socket.target(), listener)) << "nobody has seen whose it is";
    EXPECT_TRUE(socket.Look().ok());
    EXPECT_TRUE(LeadsTo(socket.target(), listener));
  }
}

TEST_F(TrustedSocketTest, WithoutFilesItIsLookedAtOnceThereAreSome) {
  const UniqueFd listener = Listen(path_);
  TrustedSocket socket(path_, std::nullopt);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = socket.Look();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_FALSE(Connects(socket.target()));
  EXPECT_TRUE(socket.Look().ok());
  EXPECT_TRUE(LeadsTo(socket.target(), listener));
}

TEST(SocketPathTest, IsWhatGrpcTakesItFor) {
  EXPECT_EQ(SocketPathOf("unix:server/kerfd.sock"), "server/kerfd.sock");
  EXPECT_EQ(SocketPathOf("unix:/run/kerfd.sock"), "/run/kerfd.sock");
  EXPECT_EQ(SocketPathOf("unix:///run/kerfd.sock"), "/run/kerfd.sock");
}

TEST_F(TrustedSocketTest, AnothersIsNotConnectedTo) {
  if (!CanBeMallory()) GTEST_SKIP() << "nobody else can be had here";
  const UniqueFd listener = ListenAsMallory(path_);
  TrustedSocket socket(path_, std::nullopt);
  const absl::Status status = socket.Look();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_EQ(MessageOf(status), Cat(path_, " is a socket of user ", kMallory));
  EXPECT_FALSE(Connects(socket.target()));
  TrustedSocket other(path_, kMallory + 1);
  EXPECT_TRUE(absl::IsUnauthenticated(other.Look()));
  TrustedSocket named(path_, kMallory);
  EXPECT_TRUE(named.Look().ok());
  EXPECT_TRUE(LeadsTo(named.target(), listener));
}

// In a user namespace whoever has no number there has that of all others who have none.
TEST_F(TrustedSocketTest, WhoMayBeAnybodyIsNotTrusted) {
  if (!CanBeMallory()) GTEST_SKIP() << "nobody else can be had here";
  const UniqueFd listener = ListenAsMallory(path_);
  KERF_CHECK(chmod(path_.c_str(), 0777) == 0);
  const pid_t child = fork();
  if (child == 0) {
    // From now on nobody has a number there, nor has this process.
    if (unshare(CLONE_NEWUSER) != 0) _exit(77);
    for (const std::optional<uid_t> named : {std::optional<uid_t>(), {geteuid()}}) {
      TrustedSocket socket(path_, named);
      const absl::Status status = socket.Look();
      if (!absl::IsFailedPrecondition(status)) _exit(1);
      if (MessageOf(status).find("no number in it") == std::string_view::npos) _exit(2);
      if (Connects(socket.target())) _exit(3);
    }
    _exit(0);
  }
  EXPECT_EQ(ExitCodeOf(child), 0);
}

// As in a chroot: nobody learns by what is there that a token is not shown.
TEST_F(TrustedSocketTest, ThatItNeedsProcIsSaid) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may change its root";
  const UniqueFd listener = Listen(path_);
  const pid_t child = fork();
  if (child == 0) {
    if (chroot(folder_.c_str()) != 0 || chdir("/") != 0) _exit(77);
    TrustedSocket socket("/kerfd.sock", std::nullopt);
    const absl::Status status = socket.Look();
    if (status.ok() || absl::IsUnauthenticated(status)) _exit(1);
    if (MessageOf(status).find("which needs /proc") == std::string_view::npos) _exit(2);
    _exit(Connects(socket.target()) ? 3 : 0);
  }
  EXPECT_EQ(ExitCodeOf(child), 0);
}

// It was root's a moment ago: what is connected to is what was looked at.
TEST_F(TrustedSocketTest, WhoComesToStandAtThePathIsNotConnectedTo) {
  if (!CanBeMallory()) GTEST_SKIP() << "nobody else can be had here";
  UniqueFd honest = Listen(path_);
  TrustedSocket socket(path_, std::nullopt);
  ASSERT_TRUE(socket.Look().ok());
  const UniqueFd mallory = ListenAsMallory(folder_ + "/other.sock");
  std::filesystem::rename(folder_ + "/other.sock", path_);
  ASSERT_TRUE(LeadsTo(path_, mallory));
  EXPECT_TRUE(LeadsTo(socket.target(), honest));
  EXPECT_TRUE(absl::IsUnauthenticated(socket.Look()));
  EXPECT_TRUE(LeadsTo(socket.target(), honest));
  honest.Reset();
  EXPECT_TRUE(absl::IsUnauthenticated(socket.Look()));
  EXPECT_FALSE(Connects(socket.target()));
  EXPECT_EQ(MetCount(mallory), 2) << "the two looks";
  honest = Listen(path_);
  EXPECT_TRUE(socket.Look().ok());
  EXPECT_TRUE(LeadsTo(socket.target(), honest));
}

// A user trusts root, whoever he is, and himself.
TEST_F(TrustedSocketTest, RootsIsAnybodysToUseAndHisOwn) {
  if (!CanBeMallory()) GTEST_SKIP() << "nobody else can be had here";
  for (const bool is_roots : {true, false}) {
    const UniqueFd listener = is_roots ? Listen(path_) : ListenAsMallory(path_);
    KERF_CHECK(chmod(path_.c_str(), 0777) == 0 && seteuid(kMallory) == 0);
    TrustedSocket socket(path_, std::nullopt);
    const absl::Status status = socket.Look();
    const bool leads = LeadsTo(socket.target(), listener);
    KERF_CHECK(seteuid(0) == 0);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(leads);
    unlink(path_.c_str());
  }
}

TEST_F(TrustedSocketTest, ThatItMayNotBeUsedIsSaid) {
  if (!CanBeMallory()) GTEST_SKIP() << "nobody else can be had here";
  const UniqueFd listener = Listen(path_);
  KERF_CHECK(chmod(path_.c_str(), 0700) == 0 && seteuid(kMallory) == 0);
  TrustedSocket socket(path_, std::nullopt);
  const absl::Status status = socket.Look();
  KERF_CHECK(seteuid(0) == 0);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
}

}  // namespace
}  // namespace kerf
