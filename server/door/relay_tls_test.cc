// What a relay makes of clients that do with TLS what they should not.
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/tls/testing/test_certificates.h"
#include "server/door/testing/relay_fixture.h"

namespace kerf::door {
namespace {

const TestCertificates& Certificates() { return TestCertificates::Get(); }

// A world whose client's socket is the test's.
class RelayTlsTest : public testing::Test {
 protected:
  ~RelayTlsTest() override {
    world_.CloseRelay();
    EXPECT_EQ(world_.memory().used_bytes(), 0u);
    EXPECT_EQ(world_.pool().used_bytes(), 0u);
  }

  // A client's session on that socket.
  TlsSession Connect(const std::shared_ptr<const TlsContext>& context,
                     const std::function<void(SSL&)>& change = nullptr) {
    TlsSession session = context->NewSession();
    SSL_set_verify(session.get(), SSL_VERIFY_NONE, nullptr);
    if (change != nullptr) change(*session);
    SSL_set_fd(session.get(), world_.client_socket());
    SSL_set_connect_state(session.get());
    for (int turn = 0; turn < 5; ++turn) {
      SSL_do_handshake(session.get());
      world_.Run();
    }
    ERR_clear_error();
    return session;
  }
  static std::shared_ptr<const TlsContext> With(const CertifiedKey& own) {
    return Certificates().ContextOf(TlsRules::Side::kClient, own);
  }
  void Send(std::string_view bytes) {
    ASSERT_EQ(send(world_.client_socket(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    world_.Run();
  }
  // It has ended for that, and counts as if it had cancelled calls.
  void ExpectEnd(EndReason reason) {
    EXPECT_TRUE(world_.relay().is_done());
    EXPECT_EQ(NameOf(world_.relay().end_reason()), NameOf(reason));
    // 20 of 20.
    EXPECT_FALSE(world_.cancels().Take(world_.relay().address().key, 1, world_.now()));
  }

  RelayWorld world_{RelayWorldOptions{.has_tls = true}};
};

TEST_F(RelayTlsTest, ThePlainTextOfHttp2IsNotTaken) {
  Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  ExpectEnd(EndReason::kNotTls);
}

TEST_F(RelayTlsTest, NorIsAnyOther) {
  Send("GET / HTTP/1.1\r\nHost: kerf\r\n\r\n");
  ExpectEnd(EndReason::kNotTls);
}

TEST_F(RelayTlsTest, TlsOfOldIsNotTaken) {
  const TlsSession session = Connect(With(Certificates().client), [](SSL& old) {
    SSL_set_min_proto_version(&old, TLS1_2_VERSION);
    SSL_set_max_proto_version(&old, TLS1_2_VERSION);
  });
  ExpectEnd(EndReason::kOldTls);
}

TEST_F(RelayTlsTest, WhoShowsNothingIsNotTaken) {
  const auto bare = TlsContext::Make({.side = TlsRules::Side::kClient}, {});
  const TlsSession session = Connect(*bare);
  ExpectEnd(EndReason::kNoCertificate);
}

TEST_F(RelayTlsTest, WhoIsOfAnotherCaIsNotTaken) {
  const TestCertificates others;
  const TlsSession session = Connect(With(others.client));
  ExpectEnd(EndReason::kUnknownCertificate);
}

TEST_F(RelayTlsTest, WhoIsNoClientIsNotTaken) {
  const TlsSession session = Connect(With(Certificates().server));
  ExpectEnd(EndReason::kUnknownCertificate);
}

TEST_F(RelayTlsTest, WhoseTimeIsOverIsNotTaken) {
  const auto old = Certificates().Of("old", {}, false, true, std::chrono::hours(-1));
  const TlsSession session = Connect(With(old));
  ExpectEnd(EndReason::kExpiredCertificate);
}

TEST_F(RelayTlsTest, WhoDoesNotTrustTheServerIsCounted) {
  const TestCertificates others;
  const TlsSession session =
      Connect(others.ContextOf(TlsRules::Side::kClient, Certificates().client),
              [](SSL& strict) { SSL_set_verify(&strict, SSL_VERIFY_PEER, nullptr); });
  ExpectEnd(EndReason::kRefusesCertificate);
}

TEST_F(RelayTlsTest, AHandshakeThatDoesNotGoOnIsEnded) {
  // What it has to say waits for the client, and not for room in the socket.
  EXPECT_FALSE(world_.relay().is_client_waiting_to_write());
  // A record that has begun.
  Send(std::string_view("\x16\x03\x01\x02\x00\x01", 6));
  EXPECT_FALSE(world_.relay().is_done());
  world_.Pass(std::chrono::milliseconds(11'000));
  EXPECT_TRUE(world_.relay().is_done());
  EXPECT_EQ(world_.relay().end_reason(), EndReason::kSilent);
}

TEST_F(RelayTlsTest, RecordsThatBringNothingAreCounted) {
  const TlsSession session = Connect(With(Certificates().client));
  ASSERT_EQ(SSL_is_init_finished(session.get()), 1);
  int sent = 0;
  // Each is answered by one, which is never read.
  for (; sent < 10'000 && !world_.relay().is_done(); ++sent) {
    SSL_key_update(session.get(), SSL_KEY_UPDATE_REQUESTED);
    if (SSL_do_handshake(session.get()) != 1) break;
    if (sent % 16 == 0) world_.Run();
  }
  world_.Run();
  EXPECT_LT(sent, 200);
  ExpectEnd(EndReason::kTlsFailed);
  ERR_clear_error();
}

// It costs us what a handshake costs, and whoever replays a greeting nothing.
TEST_F(RelayTlsTest, AHandshakeBehindWhichNothingComesCountsAsACancelledCall) {
  const auto& key = world_.relay().address().key;
  const TlsSession session = Connect(With(Certificates().client));
  ASSERT_EQ(SSL_is_init_finished(session.get()), 1);
  world_.CloseRelay();
  EXPECT_TRUE(world_.cancels().Take(key, 19, world_.now()));
  EXPECT_FALSE(world_.cancels().Take(key, 1, world_.now()));
}

TEST_F(RelayTlsTest, SoDoesOneThatIsNotGoneOnWith) {
  const auto& key = world_.relay().address().key;
  const TlsSession session = With(Certificates().client)->NewSession();
  SSL_set_fd(session.get(), world_.client_socket());
  SSL_set_connect_state(session.get());
  SSL_do_handshake(session.get());
  world_.Run();
  world_.CloseClientSocket();
  world_.Run();
  EXPECT_TRUE(world_.relay().is_done());
  EXPECT_EQ(world_.relay().end_reason(), EndReason::kClosed);
  world_.CloseRelay();
  EXPECT_TRUE(world_.cancels().Take(key, 19, world_.now()));
  EXPECT_FALSE(world_.cancels().Take(key, 1, world_.now()));
  ERR_clear_error();
}

// Whoever looks whether a port is open has us pay nothing.
TEST_F(RelayTlsTest, AConnectionOnWhichNothingIsSaidCountsAsNone) {
  const auto& key = world_.relay().address().key;
  world_.CloseClientSocket();
  world_.Run();
  EXPECT_TRUE(world_.relay().is_done());
  world_.CloseRelay();
  EXPECT_TRUE(world_.cancels().Take(key, 20, world_.now()));
}

TEST_F(RelayTlsTest, ACallAndGoodbyeCostNothing) {
  const auto& key = world_.relay().address().key;
  const TlsSession session = Connect(With(Certificates().client));
  const std::string text = RawBeginning() + RawRequest(1, "/count", true);
  ASSERT_GT(SSL_write(session.get(), text.data(), static_cast<int>(text.size())), 0);
  world_.Run();
  SSL_shutdown(session.get());
  world_.Run();
  EXPECT_TRUE(world_.relay().is_done());
  world_.CloseRelay();
  EXPECT_TRUE(world_.cancels().Take(key, 20, world_.now()));
}

// Its end is known before the next look at the socket, and what it was for.
TEST_F(RelayTlsTest, WhatWasWrongIsCountedThoughDataCameBeforeIt) {
  TlsSession session = Connect(With(Certificates().client));
  const std::string text = RawBeginning();
  ASSERT_GT(SSL_write(session.get(), text.data(), static_cast<int>(text.size())), 0);
  std::string record("\x17\x03\x03\x00\x20", 5);
  record.append(32, 'x');
  Send(record);
  ExpectEnd(EndReason::kTlsFailed);
}

// Half of a message of TLS keeps back all that is to be written: what is said is not waited for.
TEST_F(RelayTlsTest, WhoDoesNotGoOnInTheMiddleOfAMessageIsEnded) {
  TlsSession session = Connect(With(Certificates().client));
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set0_wbio(session.get(), out);
  const std::string text = RawBeginning() + RawRequest(1, "/count", true);
  ASSERT_GT(SSL_write(session.get(), text.data(), static_cast<int>(text.size())), 0);
  SSL_key_update(session.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
  SSL_do_handshake(session.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  Send({bytes, static_cast<std::size_t>(size) - 10});
  EXPECT_FALSE(world_.relay().is_done());
  for (int count = 0; count < 10 && !world_.relay().is_done(); ++count) {
    world_.Pass(std::chrono::milliseconds(30'000));
  }
  EXPECT_TRUE(world_.relay().is_done());
}

// A handshake, a call and its end, byte by byte.
TEST_F(RelayTlsTest, ItDoesNotMatterHowRecordsComeInPieces) {
  const TlsSession session = With(Certificates().client)->NewSession();
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  BIO_set_mem_eof_return(in, -1);
  SSL_set_bio(session.get(), in, out);
  SSL_set_connect_state(session.get());
  const auto move = [&] {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out, &bytes);
    const std::string all(bytes, static_cast<std::size_t>(size));
    BIO_reset(out);
    for (const char byte : all) Send({&byte, 1});
    std::array<char, 65'536> got;
    const ssize_t count = recv(world_.client_socket(), got.data(), got.size(), MSG_DONTWAIT);
    if (count > 0) BIO_write(in, got.data(), static_cast<int>(count));
  };
  for (int turn = 0; turn < 5; ++turn) {
    SSL_do_handshake(session.get());
    move();
  }
  ASSERT_EQ(SSL_is_init_finished(session.get()), 1);
  const std::string preface = RawBeginning();
  ASSERT_EQ(SSL_write(session.get(), preface.data(), static_cast<int>(preface.size())),
            static_cast<int>(preface.size()));
  move();
  EXPECT_TRUE(world_.relay().has_spoken());
  std::array<char, 1024> answer;
  EXPECT_GT(SSL_read(session.get(), answer.data(), answer.size()), 0);
  SSL_shutdown(session.get());
  move();
  EXPECT_TRUE(world_.relay().is_done());
  EXPECT_EQ(world_.relay().end_reason(), EndReason::kClosed);
  ERR_clear_error();
}

// Its end is not taken for data, nor for a fault of its own.
TEST_F(RelayTlsTest, ADamagedRecordEndsTheConnection) {
  TlsSession session = Connect(With(Certificates().client));
  ASSERT_EQ(SSL_is_init_finished(session.get()), 1);
  std::string record("\x17\x03\x03\x00\x20", 5);
  record.append(32, 'x');
  Send(record);
  ExpectEnd(EndReason::kTlsFailed);
}

}  // namespace
}  // namespace kerf::door
