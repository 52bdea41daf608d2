// Where no server is named kerf starts a kerfd for itself: what it prints, what it leaves, who
// shares it, and what follows when one of the two is killed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/fs/testing/settle.h"
#include "e2e/network_namespace.h"
#include "e2e/world.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kOk = 0;
constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr int kUnavailable = 5;
constexpr int kNoRoom = 7;
constexpr std::uint16_t kDefaultPort = 7461;
// On a machine that is busy with other tests.
constexpr seconds kStartPatience{60};
constexpr seconds kEndPatience{20};
// Of a stream: who has taken so much has sent some of it.
constexpr std::size_t kMoreThanKerfHolds = 24'000'000;

template <typename Condition>
bool IsTrueWithin(seconds time, Condition condition) {
  const auto deadline = steady_clock::now() + time;
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

// In a network of its own, where nobody listens.
class OwnKerfd : public ::testing::Test {
 protected:
  OwnKerfd() {
    if (geteuid() == 0) network_.emplace();
    if (network_) scope_.emplace(*network_);
    world_.UnsetEnvironment("KERF_SERVER");
    SetPath(std::filesystem::canonical(BuiltProgram("server/kerfd")).parent_path());
    std::filesystem::create_directory(world_ / "tree");
    WriteText(world_ / "tree/a", std::string(300'000, 'a') + "b");
    WriteText(world_ / "tree/b", "b");
  }

  void SetPath(const std::string& folder) {
    world_.SetEnvironment("PATH", Cat(folder, ":/usr/local/bin:/usr/bin:/bin"));
  }
  std::string State(const std::string& name = "") const { return state_ + name; }
  pid_t KerfdPid() const {
    std::ifstream file(State("/running"));
    pid_t pid = 0;
    return file >> pid ? pid : 0;
  }
  // Of a test that is no parent of it, so that nobody waits for it: gone, or a zombie of kerf's.
  static bool IsAlive(pid_t pid) {
    std::ifstream status(Cat("/proc/", pid, "/status"));
    // Ends early, too, where the process ends meanwhile.
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("State:")) return line.find("\tZ") == std::string::npos;
    }
    return false;
  }
  void ExpectNoKerfd(pid_t pid) const {
    ASSERT_GT(pid, 0);
    EXPECT_TRUE(IsTrueWithin(kEndPatience, [&] { return !IsAlive(pid); })) << "a kerfd stays";
  }
  // Holds on to a kerfd for as long as it runs.
  std::unique_ptr<Program> StartHolder() {
    auto holder = world_.Start({"top", "--server", "own"});
    const bool serves = IsTrueWithin(kStartPatience, [&] {
      return holder->HasEnded() ||
             (KerfdPid() > 0 && IsAlive(KerfdPid()) && std::filesystem::exists(State("/socket")));
    });
    EXPECT_TRUE(serves && !holder->HasEnded());
    return holder;
  }
  // Of what comes through pipe_. Returns in the middle of its stream.
  std::unique_ptr<Program> StartEndlessBackup() {
    EXPECT_EQ(mkfifo((world_ / "pipe").c_str(), 0600), 0);
    pipe_ = UniqueFd(open((world_ / "pipe").c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    auto backup = world_.StartOther(
        {"/bin/sh", "-c",
         Cat("exec ", BuiltProgram("client/agent/kerf"), " backup --stdin-filename f < pipe")});
    const std::string some(64 << 10, 'x');
    std::size_t sent_bytes = 0;
    EXPECT_TRUE(IsTrueWithin(kStartPatience, [&] {
      ssize_t count = 0;
      while ((count = write(pipe_.get(), some.data(), some.size())) > 0) {
        sent_bytes += static_cast<std::size_t>(count);
      }
      return sent_bytes > kMoreThanKerfHolds || backup->HasEnded();
    }));
    EXPECT_FALSE(backup->HasEnded());
    return backup;
  }

  std::optional<NetworkNamespace> network_;
  std::optional<NetworkNamespace::Scope> scope_;
  World world_;
  std::string state_ = world_ / ".local/state/kerf/kerfd";
  UniqueFd pipe_;
};

TEST_F(OwnKerfd, TheFirstBackupIsOneCommand) {
  agent::testing::LetFilesSettle();
  const Completed first = world_.Kerf({"backup", "tree"});
  EXPECT_EQ(first.exit_code, kOk) << first.err;
  EXPECT_THAT(first.out,
              AllOf(HasSubstr("no server is named"), HasSubstr(State()), HasSubstr("is complete")));
  // It has ended when kerf does.
  EXPECT_FALSE(IsAlive(KerfdPid()));
  struct stat facts{};
  ASSERT_EQ(stat(State().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0700u);
  EXPECT_TRUE(std::filesystem::exists(State("/index")));

  // Read again, and found in the index that was left.
  const nlohmann::json second = world_.Backup({"tree", "--force"});
  world_.ExpectNothingNew(second);
  EXPECT_THAT(world_.Kerf({"backup", "tree"}).out, Not(HasSubstr("no server is named")));

  const Completed restored = world_.Kerf({"restore", "latest", "--target", "out"});
  EXPECT_EQ(restored.exit_code, kOk) << restored.err;
  EXPECT_EQ(ReadText(world_ / ("out" + world_.path() + "/tree/a")), ReadText(world_ / "tree/a"));
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"verify", "--read-data"},
                                             {"forget", "--keep-last", "1"},
                                             {"gc"},
                                             {"index", "check"},
                                             {"index", "stats"},
                                             {"index", "rebuild"},
                                             {"repo", "list"},
                                             {"repo", "stats", "--store", world_.store()}}) {
    const Completed run = world_.Kerf(arguments);
    EXPECT_EQ(run.exit_code, kOk) << arguments[0] << ": " << run.err;
    EXPECT_EQ(run.err, "") << arguments[0];
  }
  EXPECT_FALSE(IsAlive(KerfdPid()));
}

// As in a backup of one's home: it changes while that runs.
TEST_F(OwnKerfd, ItsFolderIsNotBackedUp) {
  std::filesystem::create_directories(world_ / ".local/state/others");
  WriteText(world_ / ".local/state/others/file", "x");
  agent::testing::LetFilesSettle();
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(world_.Backup({".local", "--force"})["warnings"], 0);
    EXPECT_TRUE(std::filesystem::exists(State("/index")));
    const Completed list = world_.Kerf({"ls", "latest"});
    EXPECT_EQ(list.exit_code, kOk) << list.err;
    EXPECT_THAT(list.out,
                AllOf(HasSubstr("state/others/file"), Not(HasSubstr("state/kerf/kerfd"))));
  }
  // And it is known that it was left out.
  const std::string local = world_ / ".local";
  const Completed restored = world_.Kerf({"restore", Cat("latest:", local), "--target", local,
                                          "--overwrite", "if-changed", "--delete"});
  EXPECT_EQ(restored.exit_code, kOk) << restored.err;
  EXPECT_TRUE(std::filesystem::exists(State("/index")));
}

TEST_F(OwnKerfd, AnIndexThatIsLostCostsNoChunk) {
  world_.Backup({"tree"});
  std::filesystem::remove_all(State());
  const nlohmann::json again = world_.Backup({"tree", "--force"});
  // Sent again, and found in the store.
  EXPECT_EQ(again["new_bytes"], again["new_metadata_bytes"]) << again;
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, kOk);
  EXPECT_EQ(world_.Kerf({"gc"}).exit_code, kOk);
}

TEST_F(OwnKerfd, AShortPathAndASignThatNoAddressHas) {
  const agent::testing::TemporaryDirectory short_one("/tmp");
  for (const std::string name : {"/s", "/a, b%41"}) {
    world_.SetEnvironment("XDG_STATE_HOME", short_one.path() + name);
    const Completed run = world_.Kerf({"backup", "tree"});
    EXPECT_EQ(run.exit_code, kOk) << run.err;
    EXPECT_TRUE(std::filesystem::exists(short_one.path() + name + "/kerf/kerfd/index"));
  }
}

TEST_F(OwnKerfd, TwoAtOnceShareOne) {
  const auto holder = StartHolder();
  const pid_t kerfd = KerfdPid();
  const auto other = world_.Start({"backup", "tree", "--store", world_ / "other"});
  world_.Backup({"tree"});
  const Completed end = other->Wait();
  EXPECT_EQ(end.exit_code, kOk) << end.err;
  EXPECT_EQ(KerfdPid(), kerfd);
  EXPECT_TRUE(IsAlive(kerfd)) << "somebody holds on to it";
  holder->Signal(SIGTERM);
  EXPECT_EQ(holder->Wait().exit_code, 128 + SIGTERM);
  ExpectNoKerfd(kerfd);
}

TEST_F(OwnKerfd, ManyThatBeginAtOnceShareOne) {
  std::vector<std::unique_ptr<Program>> all(4);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = world_.Start({"backup", "tree", "--store", world_ / Cat("store-", i)});
  }
  for (const auto& one : all) {
    const Completed end = one->Wait();
    EXPECT_EQ(end.exit_code, kOk) << end.err;
    EXPECT_THAT(end.err, Not(HasSubstr("lost")));
  }
  EXPECT_TRUE(IsTrueWithin(kEndPatience, [&] { return !IsAlive(KerfdPid()); }));
}

TEST_F(OwnKerfd, WhoStartedItMayEndFirst) {
  auto first = StartHolder();
  const pid_t kerfd = KerfdPid();
  const auto second = world_.Start({"top", "--server", "own"});
  // It has shown something.
  ASSERT_TRUE(IsTrueWithin(kStartPatience, [&] {
    return !ReadText(world_ / "runs/2.out").empty() || second->HasEnded();
  }));
  first->Kill();
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_TRUE(IsAlive(kerfd));
  second->Kill();
  ExpectNoKerfd(kerfd);
}

TEST_F(OwnKerfd, NoneStaysBehindAKillOfKerfAndItsSocketIsInNobodysWay) {
  const auto holder = StartHolder();
  const pid_t kerfd = KerfdPid();
  EXPECT_TRUE(holder->Kill());
  ExpectNoKerfd(kerfd);
  // Both at once: the socket stays.
  const auto next = StartHolder();
  const pid_t next_kerfd = KerfdPid();
  kill(next_kerfd, SIGSTOP);
  EXPECT_TRUE(next->Kill());
  kill(next_kerfd, SIGKILL);
  ExpectNoKerfd(next_kerfd);
  EXPECT_TRUE(std::filesystem::exists(State("/socket")));
  world_.Backup({"tree"});
}

// Whether a backup outlives it that its kerfd gets this signal in the middle.
class LostKerfd : public OwnKerfd, public ::testing::WithParamInterface<int> {};

TEST_P(LostKerfd, ABackupGoesOnWithAnotherOne) {
  const auto backup = world_.StartOther(
      {"/bin/sh", "-c",
       Cat("(head -c ", kMoreThanKerfHolds,
           " /dev/urandom; : > sent; while ! [ -e go ]; do sleep 0.02; done; head -c 3000000 "
           "/dev/urandom) | ",
           BuiltProgram("client/agent/kerf"), " backup --stdin-filename f")});
  ASSERT_TRUE(
      IsTrueWithin(kStartPatience, [&] { return std::filesystem::exists(world_ / "sent"); }));
  const pid_t first = KerfdPid();
  ASSERT_EQ(kill(first, GetParam()), 0);
  // A kerfd that is asked to end gives streams some time.
  ASSERT_TRUE(IsTrueWithin(kStartPatience, [&] { return KerfdPid() != first; }));
  WriteText(world_ / "go", "");
  const Completed end = backup->Wait();
  EXPECT_EQ(end.exit_code, kOk) << end.err;
  EXPECT_THAT(end.err, AllOf(HasSubstr(GetParam() == SIGKILL ? "lost (signal 9), and another one"
                                                             : "lost (exit code 0), and another"),
                             HasSubstr(State("/kerfd.log"))));
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, kOk);
  ExpectNoKerfd(KerfdPid());
}

// The first as by the system that has no memory left, the other as by a service manager that ends
// all processes of the service whose kerf has started it, while another one needs it, too.
INSTANTIATE_TEST_SUITE_P(Signals, LostKerfd, ::testing::Values(SIGKILL, SIGTERM));

// It has served, and is gone before anything is asked of it: that is no server that nobody has met.
TEST_F(OwnKerfd, OneThatIsLostBeforeTheFirstCallIsStartedAnew) {
  const std::string once = world_ / "once";
  const std::string kerfd = std::filesystem::canonical(BuiltProgram("server/kerfd"));
  std::filesystem::create_directory(world_ / "bin");
  WriteText(world_ / "bin/kerfd",
            Cat("#!/usr/bin/python3\nimport os, signal, socket, sys\n", "if not os.path.exists('",
                once, "'):\n", "    os.execv('", kerfd, "', ['kerfd', *sys.argv[1:]])\n",
                "os.unlink('", once, "')\n", "listener = socket.socket(socket.AF_UNIX)\n",
                "path = sys.argv[sys.argv.index('--listen') + 1].removeprefix('unix:')\n",
                "if os.path.exists(path): os.unlink(path)\n",
                "listener.bind(path)\nlistener.listen()\nlistener.accept()\n",
                "os.kill(os.getpid(), signal.SIGKILL)\n"));
  std::filesystem::permissions(world_ / "bin/kerfd", std::filesystem::perms::owner_all);
  SetPath(world_ / "bin");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"backup", "tree"}, {"gc"}, {"repo", "list"}}) {
    WriteText(once, "");
    const Completed run = world_.Kerf(arguments);
    EXPECT_EQ(run.exit_code, kOk) << arguments[0] << ": " << run.err;
    EXPECT_THAT(run.err, HasSubstr("lost (signal 9), and another one is started"));
  }
}

TEST_F(OwnKerfd, OneThatIsLostAgainAndAgainIsGivenUp) {
  const auto backup = StartEndlessBackup();
  const auto said = [&] { return ReadText(world_ / "runs/1.err"); };
  pid_t last = 0;
  for (int count = 1; count <= 4; ++count) {
    ASSERT_TRUE(IsTrueWithin(kStartPatience, [&] { return KerfdPid() > 0 && KerfdPid() != last; }));
    last = KerfdPid();
    ASSERT_EQ(kill(last, SIGKILL), 0);
    const std::string told = count <= 3 ? "and another one is started" : "no other one is started";
    ASSERT_TRUE(IsTrueWithin(kStartPatience, [&] {
      std::size_t told_count = 0;
      const std::string text = said();
      for (std::size_t at = 0; (at = text.find(told, at)) != std::string::npos; ++at) ++told_count;
      return told_count == (count <= 3 ? static_cast<std::size_t>(count) : 1u);
    })) << said();
  }
  // Nobody waits for one that is not started: --retry-for is minutes.
  ASSERT_TRUE(IsTrueWithin(kStartPatience, [&] { return backup->HasEnded(); })) << said();
  const Completed end = backup->Wait();
  EXPECT_EQ(end.exit_code, kUnavailable) << end.err;
  EXPECT_THAT(end.err, AllOf(HasSubstr("was lost 4 times"), HasSubstr(State("/kerfd.log"))));
  EXPECT_EQ(KerfdPid(), last);
}

TEST_F(OwnKerfd, WithoutTheProgramItIsSaidWhereItWasLookedFor) {
  SetPath("/none");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"backup", "tree"}, {"repo", "list"}}) {
    const Completed run = world_.Kerf(arguments);
    EXPECT_EQ(run.exit_code, kUnavailable);
    const std::string beside =
        std::filesystem::canonical(BuiltProgram("client/agent/kerf")).parent_path();
    EXPECT_THAT(run.err, AllOf(HasSubstr("kerfd"), HasSubstr(beside), HasSubstr("PATH"),
                               HasSubstr("--server")));
  }
  EXPECT_FALSE(std::filesystem::exists(world_.store()));
  EXPECT_FALSE(std::filesystem::exists(State()));
}

TEST_F(OwnKerfd, OneThatDoesNotStartSaysWhy) {
  std::filesystem::create_directory(world_ / "bin");
  WriteText(world_ / "bin/kerfd", Cat("#!/bin/sh\necho x >> ", world_ / "starts",
                                      "\necho first >&2\necho no luck >&2\nexit 3\n"));
  std::filesystem::permissions(world_ / "bin/kerfd", std::filesystem::perms::owner_all);
  SetPath(world_ / "bin");
  const Completed run = world_.Kerf({"backup", "tree"});
  EXPECT_EQ(run.exit_code, kUnavailable);
  EXPECT_THAT(run.err, AllOf(HasSubstr("exit code 3"), HasSubstr("no luck"),
                             HasSubstr(State("/kerfd.log"))));
  // Nor does kerf start one after the other where it is not told that they end.
  const Completed deaf = world_.Run({"/usr/bin/env", "--ignore-signal=CHLD",
                                     BuiltProgram("client/agent/kerf"), "backup", "tree"});
  EXPECT_EQ(deaf.exit_code, kUnavailable);
  EXPECT_THAT(deaf.err, HasSubstr("no luck"));
  EXPECT_EQ(ReadText(world_ / "starts"), "x\nx\n");
  EXPECT_FALSE(std::filesystem::exists(world_.store()));
}

TEST_F(OwnKerfd, WhereItsDiskIsFullThatIsSaid) {
  if (!network_) GTEST_SKIP() << "only root can mount a disk";
  ASSERT_EQ(unshare(CLONE_NEWNS), 0);
  ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  std::filesystem::create_directories(State());
  ASSERT_EQ(chmod(State().c_str(), 0700), 0);
  ASSERT_EQ(mount("none", State().c_str(), "tmpfs", 0, "size=64k,mode=700"), 0);
  // With some room it says why it does not start, with none it is kerf that does.
  for (const bool is_full : {false, true}) {
    if (is_full) {
      // In a page that it has already there is room for its words.
      std::filesystem::remove(State("/kerfd.log"));
      std::ofstream file(State("/others"), std::ios::binary);
      const std::vector<char> page(4096);
      while (file.write(page.data(), static_cast<std::streamsize>(page.size())).flush()) {
      }
    }
    const Completed run = world_.Kerf({"backup", "tree"});
    EXPECT_EQ(run.exit_code, is_full ? kNoRoom : kUnavailable) << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr("make room"), HasSubstr(State())));
  }
  EXPECT_FALSE(std::filesystem::exists(world_.store()));
  ASSERT_EQ(umount(State().c_str()), 0);
}

TEST_F(OwnKerfd, WhoNamesAServerGetsThatOneAndNoOther) {
  world_.StartServer();
  world_.Backup({"tree", "--server", world_.address()});
  world_.SetEnvironment("KERF_SERVER", world_.address());
  world_.Backup({"tree"});
  EXPECT_EQ(world_.Kerf({"gc"}).exit_code, kOk);
  world_.StopServer();
  EXPECT_EQ(world_.Kerf({"gc"}).exit_code, kUnavailable);
  world_.UnsetEnvironment("KERF_SERVER");
  std::filesystem::create_directories(world_ / ".config/kerf");
  WriteText(world_ / ".config/kerf/config.toml", Cat("server = \"", world_.address(), "\"\n"));
  const Completed run = world_.Kerf({"backup", "tree"});
  EXPECT_EQ(run.exit_code, kUnavailable);
  EXPECT_THAT(run.err, HasSubstr(world_.address()));
  EXPECT_FALSE(std::filesystem::exists(State()));
  // Who proves who he is, or wants to know who the server is, means one that does so.
  std::filesystem::remove(world_ / ".config/kerf/config.toml");
  ASSERT_EQ(world_.Kerf({"tls", "init", "tls", "--name", "127.0.0.1"}).exit_code, kOk);
  const Completed with_tls = world_.Kerf({"backup", "tree", "--tls-ca", "tls/ca.pem"});
  EXPECT_EQ(with_tls.exit_code, kUnavailable);
  EXPECT_THAT(with_tls.err, HasSubstr("127.0.0.1:7461"));
  EXPECT_FALSE(std::filesystem::exists(State()));
  // By its name it may stand there, too.
  WriteText(world_ / ".config/kerf/config.toml", "server = \"own\"\n");
  world_.Backup({"tree"});
  EXPECT_TRUE(std::filesystem::exists(State("/index")));
}

TEST_F(OwnKerfd, CtrlCEndsBothAndTheNextOneGoesOn) {
  const auto backup = StartEndlessBackup();
  const pid_t kerfd = KerfdPid();
  // As of a terminal: all who are in the foreground with kerf get it.
  EXPECT_NE(getpgid(kerfd), getpgid(backup->pid()));
  backup->Signal(SIGINT);
  EXPECT_EQ(backup->Wait().exit_code, 128 + SIGINT);
  ExpectNoKerfd(kerfd);
  world_.Backup({"tree"});
}

TEST_F(OwnKerfd, AFolderThatOthersMayEnterIsRefused) {
  std::filesystem::create_directories(State());
  ASSERT_EQ(chmod(State().c_str(), 0755), 0);
  const Completed open = world_.Kerf({"backup", "tree"});
  EXPECT_EQ(open.exit_code, kFailure);
  EXPECT_THAT(open.err, HasSubstr(Cat("chmod 700 ", State())));
  ASSERT_EQ(chmod(State().c_str(), 0700), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(State().c_str(), 1234, 1234), 0);
    const Completed foreign = world_.Kerf({"backup", "tree"});
    EXPECT_EQ(foreign.exit_code, kFailure);
    EXPECT_THAT(foreign.err, HasSubstr("user 1234"));
    ASSERT_EQ(chown(State().c_str(), 0, 0), 0);
  }
  EXPECT_FALSE(std::filesystem::exists(world_.store()));
  EXPECT_EQ(world_.Kerf({"backup", "tree"}).exit_code, kOk);
}

TEST_F(OwnKerfd, MistakesOnTheCommandLineTouchNothing) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"backup"},
                                             {"backup", "tree", "--retry-for", "never"},
                                             {"gc", "--retry-for", "never"}}) {
    EXPECT_EQ(world_.Kerf(arguments).exit_code, kUsage);
  }
  EXPECT_FALSE(std::filesystem::exists(State()));
}

TEST_F(OwnKerfd, ItOpensNoPort) {
  if (!network_) GTEST_SKIP() << "only root can have a network of its own";
  world_.SetEnvironment("KERFD_LISTEN", "127.0.0.1:0");
  world_.SetEnvironment("KERFD_METRICS_LISTEN", "127.0.0.1:0");
  const auto holder = StartHolder();
  ASSERT_TRUE(IsTrueWithin(kStartPatience, [&] {
    return !ReadText(world_ / "runs/1.out").empty() || holder->HasEnded();
  }));
  for (const char* file : {"tcp", "tcp6", "udp", "udp6"}) {
    const std::string sockets = ReadText(Cat("/proc/", KerfdPid(), "/net/", file));
    EXPECT_EQ(std::count(sockets.begin(), sockets.end(), '\n'), 1) << sockets;
  }
}

TEST_F(OwnKerfd, AKerfdAtTheDefaultAddressGoesFirst) {
  if (!network_) GTEST_SKIP() << "only root can have a network of its own";
  world_.StartServer({"--listen", Cat("127.0.0.1:", kDefaultPort)});
  EXPECT_EQ(world_.Backup({"tree"})["warnings"], 0);
  EXPECT_FALSE(std::filesystem::exists(State())) << "there is one already";
  world_.Backup({"tree", "--server", "own"});
  EXPECT_TRUE(std::filesystem::exists(State("/index")));
  std::filesystem::remove_all(State());
  world_.StopServer();
  world_.Backup({"tree"});
  EXPECT_TRUE(std::filesystem::exists(State("/index")));
}

TEST_F(OwnKerfd, AStrangerAtTheDefaultAddressIsShownNothing) {
  if (!network_) GTEST_SKIP() << "only root can have a network of its own";
  setfsuid(1234);
  const UniqueFd stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  setfsuid(0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kDefaultPort);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(stranger.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(stranger.get(), 8), 0);
  const Completed run = world_.Kerf({"backup", "tree"});
  EXPECT_EQ(run.exit_code, kOk) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("user 1234"), HasSubstr("--server 127.0.0.1:7461")));
  EXPECT_LT(accept(stranger.get(), nullptr, nullptr), 0) << "it was connected to";
  EXPECT_TRUE(std::filesystem::exists(State("/index")));
}

}  // namespace
}  // namespace kerf::e2e
