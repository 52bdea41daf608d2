#include "server/listener/unix_acceptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/passed_file.h"
#include "base/shared_memory.h"
#include "server/logging/logging.h"
#include "server/net/listen_unix.h"
#include "server/net/shared_memories.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{20'000};
constexpr uid_t kMallory = 23'456;

bool Becomes(const std::function<bool()>& is_so) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

bool IsReadable(const UniqueFd& socket, milliseconds patience) {
  pollfd wanted{.fd = socket.get(), .events = POLLIN, .revents = 0};
  return poll(&wanted, 1, static_cast<int>(patience.count())) == 1;
}

// The other side has closed it.
bool Ends(const UniqueFd& socket, milliseconds patience = kPatience) {
  char byte = 0;
  return IsReadable(socket, patience) && read(socket.get(), &byte, 1) <= 0;
}

// What was accepted. Without a virtual function: the sanitizer that looks at what the object of a
// call is needs two descriptors for it, and without any says that it is none.
class Served {
 public:
  bool Take(UniqueFd socket) {
    if (refuses.load()) return false;
    const std::lock_guard lock(mutex_);
    sockets_.push_back(std::move(socket));
    return true;
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return sockets_.size();
  }
  // As gRPC does.
  void Close(std::size_t index) {
    const std::lock_guard lock(mutex_);
    shutdown(sockets_[index].get(), SHUT_RDWR);
    sockets_[index].Reset();
  }
  int At(std::size_t index) {
    const std::lock_guard lock(mutex_);
    return sockets_[index].get();
  }

  std::atomic<bool> refuses{false};

 private:
  std::mutex mutex_;
  std::vector<UniqueFd> sockets_;
};

class UnixAcceptorTest : public testing::Test {
 protected:
  explicit UnixAcceptorTest(bool takes_memory = false) {
    std::string pattern = "/tmp/kerf-acceptor-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    std::vector<UniqueFd> listeners;
    for (const std::string& path : Paths()) {
      auto listener = ListenUnix(path);
      EXPECT_TRUE(listener.ok()) << listener.status();
      listeners.push_back(*std::move(listener));
    }
    acceptor_ = std::make_unique<UnixAcceptor>(
        std::move(listeners),
        [served = &served_](UniqueFd socket) { return served->Take(std::move(socket)); },
        takes_memory ? &memories_ : nullptr);
    acceptor_->Start();
  }
  ~UnixAcceptorTest() override {
    acceptor_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::vector<std::string> Paths() const { return {folder_ + "/a", folder_ + "/b"}; }
  UniqueFd Connect(int listener = 0) const {
    const std::string path = Paths()[static_cast<std::size_t>(listener)];
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), address.sun_path);
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      socket.Reset();
    }
    return socket;
  }
  std::string folder_;
  Served served_;
  SharedMemories memories_{2};
  std::unique_ptr<UnixAcceptor> acceptor_;
};

TEST_F(UnixAcceptorTest, ServesWhoConnectsAtAny) {
  const UniqueFd one = Connect(0);
  const UniqueFd other = Connect(1);
  ASSERT_TRUE(one.valid() && other.valid());
  ASSERT_TRUE(Becomes([&] { return served_.count() == 2; }));
  ASSERT_EQ(write(served_.At(0), "a", 1), 1);
  EXPECT_TRUE(IsReadable(one, kPatience) || IsReadable(other, kPatience));
}

// Else each that ever was would cost a descriptor, and its client would not see it end.
TEST_F(UnixAcceptorTest, KeepsNothingOfWhatHasEnded) {
  for (std::size_t turn = 0; turn < 3; ++turn) {
    UniqueFd gone = Connect();
    const UniqueFd left = Connect();
    const std::size_t first = 2 * turn;
    ASSERT_TRUE(Becomes([&] { return served_.count() == first + 2; }));
    // Both or none are there.
    gone.Reset();
    EXPECT_TRUE(Becomes([&] { return acceptor_->connection_count() == 1; }));
    served_.Close(first + 1);
    EXPECT_TRUE(Becomes([&] { return acceptor_->connection_count() == 0; }));
    EXPECT_TRUE(Ends(left));
    served_.Close(first);
  }
}

TEST_F(UnixAcceptorTest, AClientThatHasSaidAllStays) {
  const UniqueFd client = Connect();
  ASSERT_TRUE(Becomes([&] { return served_.count() == 1; }));
  shutdown(client.get(), SHUT_WR);
  EXPECT_FALSE(Ends(client, milliseconds(400)));
  EXPECT_EQ(acceptor_->connection_count(), 1u);
}

TEST_F(UnixAcceptorTest, WhoIsRefusedIsClosed) {
  served_.refuses.store(true);
  const UniqueFd client = Connect();
  EXPECT_TRUE(Ends(client));
  EXPECT_TRUE(Becomes([&] { return acceptor_->connection_count() == 0; }));
  served_.refuses.store(false);
  const UniqueFd next = Connect();
  EXPECT_TRUE(Becomes([&] { return served_.count() == 1; }));
}

// Whoever serves it is in a write that a client does not read.
TEST_F(UnixAcceptorTest, EndsWhatIsLeftBehindItsGrace) {
  const UniqueFd client = Connect();
  ASSERT_TRUE(Becomes([&] { return served_.count() == 1; }));
  std::atomic<bool> has_ended{false};
  std::thread writer([&, socket = served_.At(0)] {
    const std::string much(1 << 20, 'x');
    pollfd wanted{.fd = socket, .events = POLLOUT, .revents = 0};
    while (poll(&wanted, 1, static_cast<int>(kPatience.count())) == 1 &&
           send(socket, much.data(), much.size(), MSG_NOSIGNAL) > 0) {
    }
    has_ended.store(errno == EPIPE);
  });
  acceptor_->BeginStop(milliseconds(300));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(has_ended.load());
  writer.join();
  EXPECT_TRUE(has_ended.load());
  EXPECT_FALSE(Connect().valid());
}

TEST_F(UnixAcceptorTest, ItsEndEndsAll) {
  const UniqueFd client = Connect();
  ASSERT_TRUE(Becomes([&] { return served_.count() == 1; }));
  acceptor_->BeginStop(std::chrono::hours(1));
  const auto begin = std::chrono::steady_clock::now();
  acceptor_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
  EXPECT_TRUE(Ends(client));
}

// gRPC's own listener never accepts again then (CVE-2023-4785).
TEST_F(UnixAcceptorTest, AcceptsAgainOnceThereAreDescriptors) {
  std::vector<UniqueFd> clients(8);
  for (UniqueFd& client : clients) {
    client = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  // The sanitizer (above) has seen the log's objects once it has written a line.
  Log(LogLevel::kError, "of a test: no fault");
  const std::string path = Paths()[0];
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  Served& served = served_;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(clients.back().get()) + 2;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (const UniqueFd& client : clients) {
    EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  std::this_thread::sleep_for(milliseconds(600));
  EXPECT_LT(served.count(), clients.size());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  // Whoever came meanwhile waits, or was closed; who comes is served.
  const std::size_t count = served.count();
  const UniqueFd next = Connect();
  EXPECT_TRUE(Becomes([&] { return served_.count() > count; }));
  EXPECT_FALSE(Ends(next, milliseconds(400)));
}

class MemoryAcceptorTest : public UnixAcceptorTest {
 protected:
  MemoryAcceptorTest() : UnixAcceptorTest(true) {}

  static void Say(const UniqueFd& client, std::string_view words) {
    EXPECT_EQ(send(client.get(), words.data(), words.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(words.size()));
  }
  UniqueFd Share() const {
    UniqueFd client = Connect();
    const auto memory = SharedMemory::Make(kMinSharedBytes);
    EXPECT_TRUE(SendFile(client.get(), AsBytes(kSharedMemoryHello), memory->fd()).ok());
    return client;
  }
  static std::string TokenOf(const UniqueFd& client) {
    std::string token(kSharedMemoryTokenBytes + 1, '\0');
    if (!IsReadable(client, kPatience)) return "";
    const ssize_t count = recv(client.get(), token.data(), token.size(), 0);
    token.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return token;
  }
  static std::span<const std::uint8_t> AsBytes(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
  }
};

TEST_F(MemoryAcceptorTest, AWordIsServedAndStillThere) {
  const UniqueFd client = Connect();
  Say(client, "PRI * HTTP/2.0");
  ASSERT_TRUE(Becomes([&] { return served_.count() == 1; }));
  std::string words(20, '\0');
  EXPECT_EQ(recv(served_.At(0), words.data(), words.size(), 0), 14);
  EXPECT_EQ(words.substr(0, 14), "PRI * HTTP/2.0");
  // Its end is seen as ever.
  served_.Close(0);
  EXPECT_TRUE(Ends(client));
  EXPECT_TRUE(Becomes([&] { return acceptor_->connection_count() == 0; }));
}

TEST_F(MemoryAcceptorTest, WhoSaysNothingIsServedAllTheSame) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<UniqueFd> clients(20);
  for (UniqueFd& client : clients) client = Connect();
  ASSERT_TRUE(Becomes([&] { return served_.count() == clients.size(); }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, UnixAcceptor::kFirstByteWait / 2);
  // Later words are no memory: it is gRPC's.
  Say(clients[0], kSharedMemoryHello);
  EXPECT_FALSE(Ends(clients[0], milliseconds(300)));
}

TEST_F(MemoryAcceptorTest, WhoGoesBeforeHisFirstWordLeavesNothing) {
  for (int turn = 0; turn < 5; ++turn) {
    Connect();
    EXPECT_TRUE(Becomes([&] { return acceptor_->connection_count() == 0; }));
  }
  EXPECT_EQ(served_.count(), 0u);
}

TEST_F(MemoryAcceptorTest, AMemoryHasATokenAsLongAsItsConnection) {
  UniqueFd client = Share();
  const std::string token = TokenOf(client);
  ASSERT_EQ(token.size(), kSharedMemoryTokenBytes);
  const auto memory = memories_.Find(token);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->size_bytes(), kMinSharedBytes);
  EXPECT_EQ(served_.count(), 0u);
  EXPECT_EQ(acceptor_->connection_count(), 1u);
  client.Reset();
  EXPECT_TRUE(Becomes([&] { return memories_.count() == 0; }));
  EXPECT_EQ(memories_.Find(token), nullptr);
  EXPECT_EQ(acceptor_->connection_count(), 0u);
}

TEST_F(MemoryAcceptorTest, WhoSaysMoreEndsIt) {
  const UniqueFd client = Share();
  ASSERT_EQ(TokenOf(client).size(), kSharedMemoryTokenBytes);
  Say(client, "and more");
  EXPECT_TRUE(Ends(client));
  EXPECT_TRUE(Becomes([&] { return memories_.count() == 0; }));
}

TEST_F(MemoryAcceptorTest, SoManyAreTakenAndNoMore) {
  const UniqueFd one = Share();
  UniqueFd other = Share();
  EXPECT_EQ(TokenOf(one).size(), kSharedMemoryTokenBytes);
  EXPECT_EQ(TokenOf(other).size(), kSharedMemoryTokenBytes);
  EXPECT_TRUE(Ends(Share()));
  other.Reset();
  ASSERT_TRUE(Becomes([&] { return memories_.count() == 1; }));
  EXPECT_EQ(TokenOf(Share()).size(), kSharedMemoryTokenBytes);
}

TEST_F(MemoryAcceptorTest, WhatIsNoneEndsItsConnectionAndNoOther) {
  const UniqueFd there = Share();
  ASSERT_EQ(TokenOf(there).size(), kSharedMemoryTokenBytes);
  const UniqueFd without = Connect();
  Say(without, kSharedMemoryHello);
  EXPECT_TRUE(Ends(without));
  const UniqueFd partly = Connect();
  Say(partly, kSharedMemoryHello.substr(0, 1));
  EXPECT_TRUE(Ends(partly));
  const UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const UniqueFd with_file = Connect();
  EXPECT_TRUE(SendFile(with_file.get(), AsBytes(kSharedMemoryHello), file.get()).ok());
  EXPECT_TRUE(Ends(with_file));
  const auto memory = SharedMemory::Make(kMinSharedBytes);
  const UniqueFd other_words = Connect();
  EXPECT_TRUE(SendFile(other_words.get(), AsBytes("kerf shares memory, v. 2"), memory->fd()).ok());
  EXPECT_TRUE(Ends(other_words));
  EXPECT_EQ(memories_.count(), 1u);
  EXPECT_FALSE(Ends(there, milliseconds(100)));
}

// Whatever came of his would have to be closed, and might never be.
TEST_F(MemoryAcceptorTest, OfAnotherUserNothingIsReceived) {
  if (seteuid(kMallory) != 0 || seteuid(0) != 0) GTEST_SKIP() << "nobody else can be had here";
  ASSERT_EQ(chmod(folder_.c_str(), 0711), 0);
  ASSERT_EQ(chmod(Paths()[0].c_str(), 0777), 0);
  ASSERT_EQ(seteuid(kMallory), 0);
  const UniqueFd shares = Share();
  const UniqueFd speaks = Connect();
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_TRUE(Ends(shares));
  EXPECT_EQ(memories_.count(), 0u);
  // His bytes come as they do over TCP.
  Say(speaks, "PRI * HTTP/2.0");
  EXPECT_TRUE(Becomes([&] { return served_.count() == 1; }));
  EXPECT_EQ(TokenOf(Share()).size(), kSharedMemoryTokenBytes);
}

TEST_F(MemoryAcceptorTest, ItsEndEndsAllOfThem) {
  const UniqueFd shares = Share();
  EXPECT_EQ(TokenOf(shares).size(), kSharedMemoryTokenBytes);
  const UniqueFd silent = Connect();
  ASSERT_TRUE(Becomes([&] { return acceptor_->connection_count() == 2; }));
  acceptor_.reset();
  EXPECT_TRUE(Ends(shares));
  EXPECT_TRUE(Ends(silent));
}

}  // namespace
}  // namespace kerf
