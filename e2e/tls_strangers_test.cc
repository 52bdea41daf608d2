// Strangers who reach a port that is served over TLS: what they can do before anybody knows who
// they are, and those who have a certificate. Beside strangers_test, whose frames are the same
// within.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/open_files.h"
#include "base/tls/testing/test_certificates.h"
#include "base/unique_fd.h"
#include "e2e/honest.h"
#include "e2e/raw_http2.h"
#include "e2e/world.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

constexpr std::uint64_t kMaxGrowthMiB = 64;
constexpr int kStrangers = 3;

// A client's end, whose bytes are sent when the test says so.
class Client {
 public:
  explicit Client(const TlsContext& context, const char* groups = nullptr)
      : session_(context.NewSession()), in_(BIO_new(BIO_s_mem())), out_(BIO_new(BIO_s_mem())) {
    BIO_set_mem_eof_return(in_, -1);
    SSL_set_bio(session_.get(), in_, out_);
    SSL_set_connect_state(session_.get());
    SSL_set_verify(session_.get(), SSL_VERIFY_NONE, nullptr);
    if (groups == nullptr) return;
    KERF_CHECK(SSL_ctrl(session_.get(), SSL_CTRL_SET_GROUPS_LIST, 0, const_cast<char*>(groups)) ==
               1);
  }

  // What it says first.
  std::string Greeting() {
    SSL_do_handshake(session_.get());
    ERR_clear_error();
    return TakeSealed();
  }
  bool Shake(int socket) {
    for (int turn = 0; turn < 10 && SSL_do_handshake(session_.get()) != 1; ++turn) {
      std::array<char, 65'536> got;
      if (!Send(socket)) break;
      const ssize_t size = recv(socket, got.data(), got.size(), 0);
      if (size <= 0) break;
      BIO_write(in_, got.data(), static_cast<int>(size));
    }
    ERR_clear_error();
    return SSL_is_init_finished(session_.get()) == 1 && Send(socket);
  }
  void Seal(std::string_view text) {
    SSL_write(session_.get(), text.data(), static_cast<int>(text.size()));
  }
  void SealNewKeys() {
    SSL_key_update(session_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    SSL_do_handshake(session_.get());
  }
  bool Send(int socket) {
    const std::string sealed = TakeSealed();
    for (std::size_t at = 0; at < sealed.size();) {
      const ssize_t size = send(socket, &sealed[at], sealed.size() - at, MSG_NOSIGNAL);
      if (size <= 0) return false;
      at += static_cast<std::size_t>(size);
    }
    return true;
  }

 private:
  std::string TakeSealed() {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out_, &bytes);
    std::string taken(bytes, static_cast<std::size_t>(size));
    BIO_reset(out_);
    return taken;
  }

  TlsSession session_;
  BIO* in_ = nullptr;
  BIO* out_ = nullptr;
};

class TlsStrangersTest : public testing::Test {
 protected:
  void SetUp() override {
    KERF_CHECK(RaiseOpenFileLimit(6'000) >= 5'000);
    signal(SIGPIPE, SIG_IGN);
    WriteTlsFile(world_ / "ca.pem", all_.ca.certificate);
    const TlsFiles files = WriteTlsFiles(world_.path(), "kerfd", all_.server, world_ / "ca.pem");
    flags_ = {"--listen",        "127.0.0.1:0",     "--log-format", "json",
              "--tls-cert",      files.certificate, "--tls-key",    files.key,
              "--tls-client-ca", files.ca};
  }

  void Start(const std::vector<std::string>& more = {}) {
    flags_.insert(flags_.end(), more.begin(), more.end());
    world_.StartServer(flags_);
    address_ = world_.last_address();
    before_MiB_ = world_.server().PeakResidentMiB();
  }
  std::unique_ptr<Honest> NewHonest() const {
    return std::make_unique<Honest>(
        address_, grpc::SslCredentials({.pem_root_certs = all_.ca.certificate,
                                        .pem_private_key = all_.client.key,
                                        .pem_cert_chain = all_.client.certificate}));
  }
  // As strangers_test does: each waits for kerfd for so long. How many connections were made.
  std::size_t Flood(const std::function<void(int socket)>& attack, seconds patience = seconds(2)) {
    const auto honest = NewHonest();
    const Clock::time_point end = Clock::now() + FloodTime();
    std::vector<std::thread> strangers;
    strangers.reserve(kStrangers);
    std::atomic<std::size_t> count{0};
    for (int stranger = 0; stranger < kStrangers; ++stranger) {
      strangers.emplace_back([&] {
        while (Clock::now() < end) {
          const UniqueFd socket = ConnectAsStranger(address_);
          if (!socket.valid()) continue;
          const timeval timeout{.tv_sec = patience.count(), .tv_usec = 0};
          setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
          setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
          attack(socket.get());
          ++count;
        }
      });
    }
    for (std::thread& stranger : strangers) stranger.join();
    honest->ExpectGoodService();
    EXPECT_GT(count.load(), 0u);
    ExpectItIsWell();
    return count.load();
  }
  void ExpectItIsWell(std::uint64_t max_growth_MiB = kMaxGrowthMiB) {
    EXPECT_FALSE(world_.server().HasEnded());
    if (kMemoryIsOurs) {
      EXPECT_LT(world_.server().PeakResidentMiB(), before_MiB_ + max_growth_MiB);
    }
    log_ = world_.StopServer();
  }

  const TestCertificates& all_ = TestCertificates::Get();
  const std::shared_ptr<const TlsContext> client_ =
      all_.ContextOf(TlsRules::Side::kClient, all_.client);
  World world_;
  std::vector<std::string> flags_;
  std::string address_;
  std::uint64_t before_MiB_ = 0;
  std::string log_;
};

// Which costs a stranger nothing, and kerfd a signature.
TEST_F(TlsStrangersTest, GreetingsWhoseAnswerNobodyWaitsFor) {
  Start({"--max-streams", "8"});
  const std::string greeting = Client(*client_).Greeting();
  const std::size_t count = Flood([&](int socket) {
    char byte = 0;
    send(socket, greeting.data(), greeting.size(), MSG_NOSIGNAL);
    recv(socket, &byte, 1, 0);
  });
  // Of one address 50 a second are let by, and at once as many as there may be calls: a machine
  // that makes no more has no flood.
  const std::size_t let_by_count = 300 + 50 * static_cast<std::size_t>(FloodTime().count());
  const bool is_flood = count > 2 * let_by_count;
  std::printf("%zu greetings, %zu are let by: %s flood\n", count, let_by_count,
              is_flood ? "a" : "no");
  if (kMemoryIsOurs || is_flood) {
    EXPECT_THAT(log_, HasSubstr("\"reason\":\"cancels\""));
  }
}

// An exponentiation of 8,192 bits for each, if it were done.
TEST_F(TlsStrangersTest, GreetingsThatAskForDearKeys) {
  Start();
  const std::string greeting = Client(*client_, "ffdhe8192").Greeting();
  Flood([&](int socket) {
    char byte = 0;
    send(socket, greeting.data(), greeting.size(), MSG_NOSIGNAL);
    recv(socket, &byte, 1, 0);
  });
}

TEST_F(TlsStrangersTest, HandshakesThatStandBeyondAllBounds) {
  Start({"--max-connections", "500"});
  // All but the end of one that is as long as it may be.
  const std::string begun = std::string("\x16\x03\x01\x00\x04\x01\x01\xff\xb0", 9) +
                            std::string("\x16\x03\x01\x40\x00", 5) + std::string(16'384, '\0');
  const auto honest = NewHonest();
  for (int round = 0; round < 6; ++round) {
    std::vector<UniqueFd> sockets(2'000);
    for (std::size_t number = 0; number < sockets.size(); ++number) {
      sockets[number] = ConnectAsStranger(address_);
      ASSERT_TRUE(sockets[number].valid());
      const std::string_view said =
          std::string_view(begun).substr(0, number % 2 == 0 ? 1 : begun.size());
      send(sockets[number].get(), said.data(), said.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
  honest->ExpectGoodService();
  // Of 500, 128 KiB each, and as much as that again for those that were there before them.
  ExpectItIsWell(128);
}

// Thousands of new keys for each byte of data.
TEST_F(TlsStrangersTest, NewKeysWithoutEnd) {
  Start();
  Flood(
      [&](int socket) {
        Client client(*client_);
        if (!client.Shake(socket)) return;
        client.Seal(http2::kPreface);
        for (int round = 0; round < 20; ++round) {
          for (int count = 0; count < 2'000; ++count) client.SealNewKeys();
          client.Seal(http2::Frame(http2::kPing, 0, 0, "whatever"));
          // Or a slow machine would send no frame in time, and be ended for that.
          if (!client.Send(socket)) break;
        }
        // Until kerfd has read them, or does no more.
        std::array<char, 4'096> answer;
        while (recv(socket, answer.data(), answer.size(), 0) > 0) {
        }
      },
      seconds(60));
  EXPECT_THAT(log_, HasSubstr("\"reason\":\"tls_failed\""));
}

// Frames of a kind that HTTP/2 has no use for, byte by byte.
TEST_F(TlsStrangersTest, RecordsOfOneByte) {
  Start();
  Flood([&](int socket) {
    Client client(*client_);
    if (!client.Shake(socket)) return;
    client.Seal(http2::kPreface);
    client.Seal(http2::Frame(http2::kSettings, 0, 0, ""));
    const std::string frame = http2::Frame(0x77, 0, 0, std::string(16'000, 'x'));
    for (int round = 0; round < 8; ++round) {
      for (const char byte : frame) client.Seal({&byte, 1});
      if (!client.Send(socket)) return;
    }
  });
}

}  // namespace
}  // namespace kerf::e2e
