// A door with its threads: clients come over TCP, and servers are given the other ends.
#include "server/door/door.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/test_seed.h"
#include "base/tls/testing/test_certificates.h"
#include "base/unique_fd.h"
#include "server/door/testing/h2_peer.h"
#include "server/door/testing/raw_frames.h"
#include "server/door/wire.h"

namespace kerf::door {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPatience{20};

// Until `condition` holds: both ends are driven by hand.
template <typename Condition>
bool MoveUntil(H2Peer& peer, const Condition& condition) {
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (!condition() && Clock::now() < deadline) {
    if (!peer.Move()) std::this_thread::sleep_for(milliseconds(1));
  }
  return condition();
}

TlsSession SessionOf(const TlsContext& context, void (*set_side)(SSL*)) {
  TlsSession session = context.NewSession();
  set_side(session.get());
  return session;
}

// In the clear, or over TLS.
class DoorTest : public testing::TestWithParam<bool> {
 public:
  static std::string NameOf(const testing::TestParamInfo<bool>& info) {
    return info.param ? "Tls" : "Clear";
  }

 protected:
  void Start(DoorOptions options = {}) {
    if (options.max_connections == 0) options.max_connections = 100;
    options.max_calls = 100;
    options.memory_bytes = 64 << 20;
    options.expected_calls = 100;
    if (options.cancel_burst == 0) options.cancel_burst = 1'000;
    options.on_turned_away = [this](TurnedAway client) {
      const std::lock_guard lock(mutex_);
      turned_away_.push_back(std::move(client));
    };
    if (GetParam()) {
      options.new_session = [] { return SessionOf(*kServerTls, SSL_set_accept_state); };
    }
    UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* const generic = reinterpret_cast<sockaddr*>(&at);
    KERF_CHECK(bind(listener.get(), generic, size) == 0 && listen(listener.get(), 1'024) == 0);
    KERF_CHECK(getsockname(listener.get(), generic, &size) == 0);
    address_ = at;
    std::vector<UniqueFd> listeners;
    listeners.push_back(std::move(listener));
    door_ = std::make_unique<Door>(
        options, std::move(listeners), [this](UniqueFd fd) { return Serve(std::move(fd)); },
        Door::Headers{.peer = "kerf-door-peer", .seen = "kerf-door-seen", .stamp = "stamp "});
    door_->Start();
  }

  void TearDown() override {
    door_->Stop(milliseconds(200));
    door_.reset();
    for (std::thread& server : servers_) server.join();
  }

  UniqueFd Connect() const {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    KERF_CHECK(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_) ==
               0);
    const int flags = fcntl(fd.get(), F_GETFL);
    KERF_CHECK(fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) == 0);
    return fd;
  }

  std::unique_ptr<H2Peer> NewClient() const {
    auto wire = GetParam() ? MakeTlsWire(Connect(), SessionOf(*kClientTls, SSL_set_connect_state))
                           : MakeClearWire(Connect());
    return std::make_unique<H2Peer>(H2Peer::Role::kClient, std::move(wire));
  }

  // Whether a call over a new connection is answered.
  bool IsServed() const {
    const auto made = NewClient();
    H2Peer& client = *made;
    const std::int32_t stream = client.Call("/echo", "hello");
    MoveUntil(client, [&] { return !client.is_open() || client.call(stream).is_closed; });
    return client.call(stream).body == "hello";
  }

  // Whether it is told soon that a connection from here was turned away for this.
  bool IsTold(EndReason reason) {
    const Clock::time_point deadline = Clock::now() + kPatience;
    while (Clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
      const std::lock_guard lock(mutex_);
      for (const TurnedAway& client : turned_away_) {
        if (client.why == TurnedAway::Why(reason)) {
          return client.peer.starts_with("ipv4:127.0.0.1:") && client.method.empty();
        }
      }
    }
    return false;
  }

  static bool IsClosedSoon(const UniqueFd& socket) {
    pollfd readable{socket.get(), POLLIN, 0};
    const Clock::time_point deadline = Clock::now() + kPatience;
    char bytes[4'096];
    while (Clock::now() < deadline) {
      if (poll(&readable, 1, 100) == 1 && recv(socket.get(), bytes, sizeof bytes, 0) <= 0) {
        return true;
      }
    }
    return false;
  }

  static inline const auto kServerTls = TestCertificates::Get().ContextOf(
      TlsRules::Side::kHttp2Server, TestCertificates::Get().server);
  static inline const auto kClientTls =
      TestCertificates::Get().ContextOf(TlsRules::Side::kClient, TestCertificates::Get().client);

  std::unique_ptr<Door> door_;
  std::mutex mutex_;
  std::vector<TurnedAway> turned_away_;

 private:
  bool Serve(UniqueFd fd) {
    const std::lock_guard lock(mutex_);
    servers_.emplace_back([socket = std::make_shared<UniqueFd>(std::move(fd))] {
      H2Peer server(H2Peer::Role::kServer, std::move(*socket));
      while (server.is_open()) {
        if (!server.Move()) std::this_thread::sleep_for(milliseconds(1));
      }
    });
    return true;
  }

  sockaddr_in address_{};
  std::vector<std::thread> servers_;
};

// One with many connections would else be in the way of whoever has the thread that took them all.
TEST_P(DoorTest, EachThreadHasItsPartOfTheConnections) {
  Start();
  std::vector<UniqueFd> sockets;
  const auto are_there = [&] {
    const std::vector<std::size_t> counts = door_->client_counts();
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0}) == sockets.size() &&
           *most - *least <= 1;
  };
  for (int number = 0; number < 40; ++number) {
    sockets.push_back(Connect());
    const Clock::time_point deadline = Clock::now() + kPatience;
    while (!are_there() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
    ASSERT_TRUE(are_there()) << number;
  }
  sockets.clear();
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (!are_there() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(are_there());
}

TEST_P(DoorTest, ManyClientsAtOnceEachGetTheirOwn) {
  Start();
  Random random(TestSeed());
  std::vector<std::thread> clients;
  clients.reserve(8);
  std::atomic<int> good_count{0};
  for (int number = 0; number < 8; ++number) {
    clients.emplace_back([&, seed = random.Next()] {
      Random own(seed);
      const auto made = NewClient();
      H2Peer& client = *made;
      for (int round = 0; round < 5; ++round) {
        std::string body(own.Below(300'000), '\0');
        for (char& byte : body) byte = static_cast<char>(own.Next());
        const std::int32_t stream = client.Call("/echo", body);
        MoveUntil(client, [&] { return client.call(stream).is_closed; });
        if (client.call(stream).body == body) ++good_count;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good_count.load(), 40);
  EXPECT_EQ(door_->metrics().connections_accepted.value(), 8u);
  EXPECT_EQ(door_->metrics().calls.value(), 40u);
  EXPECT_EQ(door_->metrics().calls_cancelled.value(), 0u);
}

TEST_P(DoorTest, OneWithoutCallsMakesRoom) {
  DoorOptions options;
  options.max_connections = 4;
  Start(options);
  std::vector<UniqueFd> silent(20);
  for (UniqueFd& socket : silent) socket = Connect();
  // One that comes later may take the place of one that has not spoken yet.
  constexpr auto kMadeRoom = static_cast<std::size_t>(EndReason::kMadeRoom);
  const auto made_room = [&] { return door_->metrics().connections_ended[kMadeRoom].value(); };
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (made_room() < silent.size() - options.max_connections && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(IsServed());
  EXPECT_LE(door_->metrics().connections.load(), 4u);
}

TEST_P(DoorTest, WhereAllHaveCallsOneMoreIsRefused) {
  DoorOptions options;
  options.max_connections = 2;
  Start(options);
  std::vector<std::unique_ptr<H2Peer>> busy;
  for (int count = 0; count < 2; ++count) {
    busy.push_back(NewClient());
    H2Peer& client = *busy.back();
    const std::int32_t stream = client.Call("/echo", "some", false);
    ASSERT_TRUE(MoveUntil(client, [&] { return client.call(stream).body == "some"; }));
  }
  EXPECT_TRUE(IsClosedSoon(Connect()));
  EXPECT_TRUE(IsTold(EndReason::kFull));
  busy.clear();
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (!IsServed() && Clock::now() < deadline) {
  }
  EXPECT_TRUE(IsServed());
}

TEST_P(DoorTest, AnAddressThatCancelsTooMuchIsRefusedForAWhile) {
  DoorOptions options;
  options.cancel_burst = 10;
  options.cancels_per_second = 10;
  Start(options);
  {
    const auto made = NewClient();
    H2Peer& client = *made;
    for (int count = 0; count < 12; ++count) client.Call("/hold", "", false);
    ASSERT_TRUE(MoveUntil(client, [&] { return door_->metrics().calls.value() == 12; }));
  }
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (door_->metrics().calls_cancelled.value() < 12 && Clock::now() < deadline) {
  }
  EXPECT_TRUE(IsClosedSoon(Connect()));
  EXPECT_TRUE(IsTold(EndReason::kCancels));
  while (!IsServed() && Clock::now() < deadline) {
  }
  EXPECT_TRUE(IsServed());
}

TEST_P(DoorTest, WhoSpeaksNoTlsIsToldOfAndWhoJustGoesIsNot) {
  Start();
  {
    const UniqueFd goes = Connect();
  }
  const UniqueFd speaks = Connect();
  const std::string text = "GET / HTTP/1.1\r\nHost: kerfd\r\n\r\n";
  ASSERT_EQ(send(speaks.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
  EXPECT_TRUE(IsClosedSoon(speaks));
  if (GetParam()) {
    EXPECT_TRUE(IsTold(EndReason::kNotTls));
  }
  door_->Stop(milliseconds(0));
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(turned_away_.size(), GetParam() ? 1u : 0u);
}

// It had calls, and what they came to is told elsewhere.
TEST_P(DoorTest, WhoWasInAndCancelsTooMuchIsNotToldOfAsIfHeHadNotBeen) {
  DoorOptions options;
  options.cancel_burst = 10;
  options.cancels_per_second = 0.001;
  Start(options);
  const auto made = NewClient();
  H2Peer& client = *made;
  constexpr std::size_t kCalls = 12;
  std::vector<std::int32_t> streams;
  streams.reserve(kCalls);
  while (streams.size() < kCalls) streams.push_back(client.Call("/hold", "", false));
  ASSERT_TRUE(MoveUntil(client, [&] { return door_->metrics().calls.value() == kCalls; }));
  for (const std::int32_t stream : streams) client.Reset(stream, NGHTTP2_CANCEL);
  EXPECT_TRUE(MoveUntil(client, [&] { return !client.is_open(); }));
  constexpr auto kCancels = static_cast<std::size_t>(EndReason::kCancels);
  const auto ended = [&] { return door_->metrics().connections_ended[kCancels].value(); };
  for (const auto deadline = Clock::now() + kPatience; ended() == 0 && Clock::now() < deadline;) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(ended(), 1u);
  {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(turned_away_.empty());
  }
  // Who comes now is.
  EXPECT_TRUE(IsClosedSoon(Connect()));
  EXPECT_TRUE(IsTold(EndReason::kCancels));
}

// Beside kFull and kCancels, as docs/spec/audit.md has them.
TEST(TurnedAwayTest, IsWhoseTlsDoesNotLetHimIn) {
  std::vector<std::string_view> names;
  for (std::size_t index = 0; index < kEndReasonCount; ++index) {
    const auto reason = static_cast<EndReason>(index);
    if (IsTurnedAwayByTls(reason)) names.push_back(NameOf(reason));
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("not_tls", "old_tls", "no_certificate",
                                                   "expired_certificate", "unknown_certificate"));
}

// What is under way has the grace to end; what does not is cut off, and so is who comes meanwhile.
TEST_P(DoorTest, AStopLetsCallsEnd) {
  Start();
  const auto made = NewClient();
  H2Peer& client = *made;
  const std::int32_t stream = client.Call("/echo", "some", false);
  ASSERT_TRUE(MoveUntil(client, [&] { return client.call(stream).body == "some"; }));
  std::thread stopping([&] { door_->Stop(kPatience); });
  ASSERT_TRUE(MoveUntil(client, [&] { return client.has_goaway(); }));
  client.Send(stream, " more", true);
  EXPECT_TRUE(MoveUntil(client, [&] { return client.call(stream).is_closed; }));
  EXPECT_EQ(client.call(stream).body, "some more");
  stopping.join();
  EXPECT_EQ(door_->metrics().connections.load(), 0u);
}

TEST_P(DoorTest, AStopDoesNotWaitForever) {
  Start();
  const auto made = NewClient();
  H2Peer& client = *made;
  const std::int32_t stream = client.Call("/echo", "some", false);
  ASSERT_TRUE(MoveUntil(client, [&] { return client.call(stream).body == "some"; }));
  const Clock::time_point begin = Clock::now();
  door_->Stop(milliseconds(100));
  EXPECT_LT(Clock::now() - begin, kPatience);
  EXPECT_TRUE(MoveUntil(client, [&] { return !client.is_open(); }));
}

// A connection of which OpenSSL holds what the socket does not tell of is read on, whoever else has
// something to say, and also while nobody has.
TEST_P(DoorTest, ManyThatSendMuchAtOnceAreAllReadToTheEnd) {
  Start();
  Random random(TestSeed());
  std::string body(2'000'000, '\0');
  for (char& byte : body) byte = static_cast<char>(random.Next());
  std::vector<std::unique_ptr<H2Peer>> clients;
  std::vector<std::int32_t> streams;
  for (int count = 0; count < 6; ++count) {
    clients.push_back(NewClient());
    streams.push_back(clients.back()->Call("/count", body));
  }
  const Clock::time_point deadline = Clock::now() + kPatience;
  std::size_t closed_count = 0;
  while (closed_count < clients.size() && Clock::now() < deadline) {
    closed_count = 0;
    for (std::size_t index = 0; index < clients.size(); ++index) {
      clients[index]->Move();
      closed_count += clients[index]->call(streams[index]).is_closed ? 1 : 0;
    }
  }
  for (std::size_t index = 0; index < clients.size(); ++index) {
    EXPECT_EQ(clients[index]->call(streams[index]).TrailerOf("bytes"), "2000000");
  }
}

// It is the loop that has to look again, and soon, where the socket says nothing any more.
TEST_P(DoorTest, WhatTlsHoldsIsReadThoughTheSocketIsSilent) {
  Start();
  if (!GetParam()) GTEST_SKIP() << "nothing is held";
  constexpr int kConnections = 40;
  std::vector<Clock::duration> times;
  for (int count = 0; count < kConnections; ++count) {
    const Clock::time_point begin = Clock::now();
    const UniqueFd socket = Connect();
    fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
    const TlsSession session = SessionOf(*kClientTls, SSL_set_connect_state);
    SSL_set_fd(session.get(), socket.get());
    ASSERT_EQ(SSL_do_handshake(session.get()), 1);
    std::string text = RawBeginning() + RawFrame(kRawSettings, 1, 0, "");
    ASSERT_GT(SSL_write(session.get(), text.data(), static_cast<int>(text.size())), 0);
    // Its settings, and that it has heard of ours.
    std::string heard;
    while (heard.find(RawFrame(kRawSettings, 1, 0, "")) == std::string::npos) {
      char bytes[4'096];
      const int size = SSL_read(session.get(), bytes, sizeof bytes);
      ASSERT_GT(size, 0);
      heard.append(bytes, static_cast<std::size_t>(size));
    }
    // Thousands of records at once, of a type of frames that there is not, behind which is a ping:
    // more than one turn, and more than two.
    BIO* const out = BIO_new(BIO_s_mem());
    SSL_set0_wbio(session.get(), out);
    const auto send_sealed = [&] {
      char* bytes = nullptr;
      const long size = BIO_get_mem_data(out, &bytes);
      EXPECT_EQ(send(socket.get(), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL), size);
      BIO_reset(out);
    };
    text = RawFrame(0x77, 0, 0, std::string(2'500, 'x')) + RawFrame(kRawPing, 0, 0, "whatever");
    for (const char byte : text) SSL_write(session.get(), &byte, 1);
    send_sealed();
    const timeval patience{.tv_sec = 5, .tv_usec = 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    heard.resize(100);
    ASSERT_EQ(SSL_read(session.get(), heard.data(), 100), 17) << "an answer to the ping";
    // The end is known with what is before it, for which nothing is said.
    text = RawFrame(0x77, 0, 0, "whatever");
    SSL_write(session.get(), text.data(), static_cast<int>(text.size()));
    SSL_shutdown(session.get());
    send_sealed();
    EXPECT_TRUE(IsClosedSoon(socket));
    times.push_back(Clock::now() - begin);
  }
  // The loop's own look at the time is every 250 ms. Not of the slowest, which wait for a processor
  // on a machine that does much beside.
  std::nth_element(times.begin(), times.begin() + kConnections / 4, times.end());
  EXPECT_LT(times[kConnections / 4], milliseconds(150));
}

INSTANTIATE_TEST_SUITE_P(Wires, DoorTest, testing::Bool(), DoorTest::NameOf);

}  // namespace
}  // namespace kerf::door
