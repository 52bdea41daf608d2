// The wire under TLS, beside a client whose bytes come as the test says.
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "base/tls/testing/test_certificates.h"
#include "base/unique_fd.h"
#include "server/door/testing/relay_fixture.h"
#include "server/door/testing/relay_world.h"
#include "server/door/wire.h"

namespace kerf::door {
namespace {

using Kind = Wire::Got::Kind;
using Side = TlsRules::Side;

constexpr int kBufferBytes = 200'000;

class TlsWireTest : public testing::Test {
 protected:
  TlsWireTest() {
    auto [ours, theirs] = SocketPair();
    // The system doubles it.
    for (const UniqueFd* end : {&ours, &theirs}) {
      KERF_CHECK(
          setsockopt(end->get(), SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes) == 0);
    }
    socket_ = std::move(theirs);
    const auto& all = TestCertificates::Get();
    TlsSession accepting = all.ContextOf(Side::kHttp2Server, all.server)->NewSession();
    SSL_set_accept_state(accepting.get());
    wire_ = MakeTlsWire(std::move(ours), std::move(accepting));
    session_ = all.ContextOf(Side::kClient, all.client)->NewSession();
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(in_, -1);
    SSL_set_bio(session_.get(), in_, out_);
    SSL_set_connect_state(session_.get());
  }

  void Shake() {
    for (int turn = 0; turn < 4; ++turn) {
      SSL_do_handshake(session_.get());
      Send(TakeSealed());
      EXPECT_EQ(Read(room_).first, Kind::kNothing);
      Receive();
    }
    ERR_clear_error();
    ASSERT_TRUE(SSL_is_init_finished(session_.get()) == 1 && wire_->is_open_for_writing());
  }

  // Client's.
  void Seal(std::string_view text, std::size_t record_bytes = 16'384) {
    while (!text.empty()) {
      const std::string_view part = text.substr(0, record_bytes);
      ASSERT_EQ(SSL_write(session_.get(), part.data(), static_cast<int>(part.size())),
                static_cast<int>(part.size()));
      text.remove_prefix(part.size());
    }
  }
  void SealNewKeys(int count) {
    for (; count > 0; --count) {
      SSL_key_update(session_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
      ASSERT_EQ(SSL_do_handshake(session_.get()), 1);
    }
  }
  std::string TakeSealed() {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out_, &bytes);
    std::string taken(bytes, static_cast<std::size_t>(size));
    BIO_reset(out_);
    return taken;
  }
  void Send(std::string_view bytes) {
    ASSERT_EQ(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // What is there, and how many records it was.
  int Receive() {
    std::array<char, 65'536> part;
    ssize_t size = 0;
    while ((size = recv(socket_.get(), part.data(), part.size(), 0)) > 0) {
      received_.append(part.data(), static_cast<std::size_t>(size));
    }
    is_over_ = size == 0;
    BIO_write(in_, received_.data(), static_cast<int>(received_.size()));
    int count = 0;
    for (std::size_t at = 0; at + 5 <= received_.size(); ++count) {
      at += 5 + (std::size_t{static_cast<std::uint8_t>(received_[at + 3])} << 8) +
            static_cast<std::uint8_t>(received_[at + 4]);
    }
    received_.clear();
    return count;
  }
  std::string Open() {
    Receive();
    std::string opened;
    std::array<char, 16'384> part;
    int size = 0;
    while ((size = SSL_read(session_.get(), part.data(), part.size())) > 0) {
      opened.append(part.data(), static_cast<std::size_t>(size));
    }
    end_ = SSL_get_error(session_.get(), size);
    ERR_clear_error();
    return opened;
  }

  // The wire's.
  std::pair<Kind, std::string> Read(std::size_t room) {
    std::vector<std::uint8_t> bytes(room);
    const Wire::Got got = wire_->Read(bytes);
    return {got.kind,
            std::string(bytes.begin(), bytes.begin() + static_cast<long>(got.size_bytes))};
  }
  // As the loop does: it reads where the socket says so, or the wire.
  std::string ReadAll(std::size_t room) {
    std::string all;
    while (wire_->has_unread() || Pending() > 0) {
      const auto [kind, text] = Read(room);
      if (kind == Kind::kEnded) break;
      EXPECT_LE(text.size(), room);
      all += text;
    }
    return all;
  }
  int Pending() const {
    int count = 0;
    ioctl(wire_->socket(), FIONREAD, &count);
    return count;
  }
  static std::vector<iovec> VectorsOf(std::string& text, Random& random, std::size_t most) {
    std::vector<iovec> vectors;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = std::min(text.size() - at, 1 + random.Below(most));
      vectors.push_back({.iov_base = &text[at], .iov_len = size});
      at += size;
    }
    return vectors;
  }

  static constexpr std::size_t room_ = 128 << 10;
  UniqueFd socket_;
  std::unique_ptr<Wire> wire_;
  TlsSession session_;
  BIO* in_ = nullptr;
  BIO* out_ = nullptr;
  std::string received_;
  bool is_over_ = false;
  int end_ = SSL_ERROR_NONE;
};

// What OpenSSL holds the socket does not tell of.
TEST_F(TlsWireTest, NothingIsLeftUnreadThatNobodyTellsOf) {
  Shake();
  Random random(TestSeed());
  for (const std::size_t room :
       {std::size_t{1}, std::size_t{1'000}, std::size_t{16'384}, std::size_t{50'000}, room_}) {
    const std::string text = RandomBytes(random, std::min<std::size_t>(150'000, room * 1'000));
    Seal(text, 1 + random.Below(16'384));
    Send(TakeSealed());
    EXPECT_TRUE(ReadAll(room) == text) << room;
    EXPECT_EQ(Read(room).first, Kind::kNothing);
    EXPECT_FALSE(wire_->has_unread());
  }
  // Records that fill the room behind which others are there already.
  for (const std::size_t room : {std::size_t{1}, std::size_t{1'000}, std::size_t{16'384}}) {
    const std::string text = RandomBytes(random, 3 * room);
    Seal(text, room);
    Send(TakeSealed());
    EXPECT_TRUE(ReadAll(room) == text) << room;
  }
  // The last record of those that fill the room is there to its end: nothing else is to be read.
  Seal("12");
  Send(TakeSealed());
  EXPECT_EQ(Read(1).second, "1");
  EXPECT_TRUE(wire_->has_unread());
  EXPECT_EQ(Read(1).second, "2");
  EXPECT_FALSE(wire_->has_unread());
}

TEST_F(TlsWireTest, OneReadTakesNoMoreThanItsShareOfRecords) {
  Shake();
  const std::string text(13'000, 'x');
  Seal(text, 1);
  Send(TakeSealed());
  const auto [kind, first] = Read(room_);
  EXPECT_GT(Pending(), 0);
  EXPECT_LE(first.size(), 1'024u);
  EXPECT_GT(first.size(), 100u);
  EXPECT_TRUE(wire_->has_unread());
  EXPECT_EQ(first.size() + ReadAll(room_).size(), text.size());
}

// Most of which is padding.
TEST_F(TlsWireTest, OneReadTakesNoMoreThanItsShareOfBytes) {
  Shake();
  SSL_set_block_padding(session_.get(), 4'096);
  const std::string text(80, 'x');
  Seal(text, 1);
  const std::string sealed = TakeSealed();
  ASSERT_GT(sealed.size(), 300'000u);
  Send(sealed);
  const auto [kind, first] = Read(room_);
  EXPECT_GT(Pending(), 0);
  EXPECT_GT(first.size(), 30u);
  EXPECT_FALSE(wire_->has_unread()) << "the socket tells of it";
  EXPECT_EQ(first.size() + ReadAll(room_).size(), text.size());
}

TEST_F(TlsWireTest, NewKeysWithoutEndAreTheEndHoweverManyDataAreBetween) {
  Shake();
  int sealed = 0;
  for (; sealed < 2'000 && !wire_->failure().has_value(); sealed += 40) {
    SealNewKeys(40);
    Seal("x");
    Send(TakeSealed());
    ReadAll(room_);
  }
  EXPECT_EQ(wire_->failure(), EndReason::kTlsFailed);
  EXPECT_LE(sealed, 200);
  EXPECT_EQ(Read(room_).first, Kind::kEnded);
}

// OpenSSL takes many at once, and does not come back in between.
TEST_F(TlsWireTest, NewKeysThatComeAtOnceAreCountedThoughDataFollow) {
  Shake();
  SealNewKeys(2'000);
  Seal("x");
  Send(TakeSealed());
  ReadAll(room_);
  EXPECT_EQ(wire_->failure(), EndReason::kTlsFailed);
}

TEST_F(TlsWireTest, NewKeysNowAndThenAreTaken) {
  Shake();
  const std::string text(70'000, 'x');
  for (int round = 0; round < 30; ++round) {
    SealNewKeys(10);
    Seal(text);
    Send(TakeSealed());
    EXPECT_EQ(ReadAll(room_).size(), text.size());
    std::string answer = "answer";
    const iovec vector{.iov_base = answer.data(), .iov_len = answer.size()};
    EXPECT_EQ(wire_->Write({&vector, 1}).size_bytes, answer.size());
    EXPECT_EQ(Open(), answer);
  }
}

// It would be kept until it is whole.
TEST_F(TlsWireTest, AGreetingWithoutEndIsNotWaitedFor) {
  // 131,000 bytes long; its header comes alone.
  Send(std::string("\x16\x03\x01\x00\x04\x01\x01\xff\xb0", 9));
  const std::string record = std::string("\x16\x03\x01\x40\x00", 5) + std::string(16'384, '\0');
  for (int count = 0; count < 2; ++count) Send(record);
  EXPECT_EQ(ReadAll(room_), "");
  EXPECT_FALSE(wire_->failure().has_value());
  Send(record);
  ReadAll(room_);
  EXPECT_EQ(wire_->failure(), EndReason::kTlsFailed);
  EXPECT_EQ(Read(room_).first, Kind::kEnded);
}

TEST_F(TlsWireTest, WhatCameBeforeTheEndIsHeard) {
  Shake();
  Seal("last words");
  std::string sealed = TakeSealed();
  Seal("damaged");
  sealed += TakeSealed();
  sealed.back() ^= 1;
  Send(sealed);
  EXPECT_EQ(Read(room_), std::pair(Kind::kBytes, std::string("last words")));
  EXPECT_TRUE(wire_->has_unread());
  EXPECT_EQ(wire_->failure(), EndReason::kTlsFailed);
  EXPECT_EQ(Read(room_).first, Kind::kEnded);
  EXPECT_FALSE(wire_->Write({}).is_open);
  // The client learns why.
  Open();
  EXPECT_EQ(end_, SSL_ERROR_SSL);
}

// It has spoken TLS.
TEST_F(TlsWireTest, WhatIsWrongBehindTheHandshakeIsNoOtherProtocol) {
  Shake();
  Send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(Read(room_).first, Kind::kEnded);
  EXPECT_EQ(wire_->failure(), EndReason::kTlsFailed);
}

TEST_F(TlsWireTest, WhoSaysGoodbyeHasDoneNothingWrong) {
  Shake();
  Seal("last words");
  SSL_shutdown(session_.get());
  Send(TakeSealed());
  EXPECT_EQ(Read(room_), std::pair(Kind::kBytes, std::string("last words")));
  EXPECT_TRUE(wire_->has_unread());
  EXPECT_EQ(Read(room_).first, Kind::kEnded);
  EXPECT_FALSE(wire_->failure().has_value());
}

TEST_F(TlsWireTest, NorHasWhoIsGone) {
  Shake();
  Seal("last words");
  Send(TakeSealed());
  shutdown(socket_.get(), SHUT_WR);
  EXPECT_EQ(Read(room_), std::pair(Kind::kBytes, std::string("last words")));
  EXPECT_EQ(Read(room_).first, Kind::kEnded);
  EXPECT_FALSE(wire_->failure().has_value());
}

TEST_F(TlsWireTest, GoodbyeIsSaid) {
  Shake();
  wire_.reset();
  EXPECT_EQ(Open(), "");
  EXPECT_EQ(end_, SSL_ERROR_ZERO_RETURN);
  EXPECT_TRUE(is_over_);
}

// Half of a message is none: until the rest has come nothing can be sealed.
TEST_F(TlsWireTest, HalfOfAMessageKeepsBackWhatIsWrittenAndNothingElse) {
  Shake();
  SealNewKeys(1);
  const std::string sealed = TakeSealed();
  Send(sealed.substr(0, sealed.size() / 2));
  EXPECT_EQ(ReadAll(room_), "");
  std::string text = "text";
  const iovec vector{.iov_base = text.data(), .iov_len = text.size()};
  EXPECT_EQ(wire_->Write({&vector, 1}).size_bytes, text.size());
  Send(sealed.substr(sealed.size() / 2));
  EXPECT_EQ(ReadAll(room_), "");
  EXPECT_EQ(wire_->Write({&vector, 1}).size_bytes, text.size());
  EXPECT_EQ(Open(), "texttext");
}

TEST_F(TlsWireTest, BeforeTheHandshakeNothingIsTaken) {
  std::string text = "text";
  const iovec vector{.iov_base = text.data(), .iov_len = text.size()};
  EXPECT_FALSE(wire_->is_open_for_writing());
  EXPECT_FALSE(wire_->has_greeted());
  const Wire::Put put = wire_->Write({&vector, 1});
  EXPECT_TRUE(put.is_open);
  EXPECT_EQ(put.size_bytes, 0u);
  Shake();
  EXPECT_TRUE(wire_->has_greeted());
  EXPECT_EQ(wire_->Write({&vector, 1}).size_bytes, text.size());
}

// Into few records, whatever pieces they are in.
TEST_F(TlsWireTest, PiecesGoIntoWholeRecords) {
  Shake();
  std::string text(16'384, 'x');
  std::vector<iovec> vectors;
  vectors.reserve(64);
  for (int count = 0; count < 64; ++count) {
    vectors.push_back({.iov_base = &text[static_cast<std::size_t>(count) * 256], .iov_len = 256});
  }
  EXPECT_EQ(wire_->Write(vectors).size_bytes, text.size());
  EXPECT_EQ(Receive(), 1);
  EXPECT_EQ(Open(), text);
  std::string large(40'000, 'y');
  const iovec vector{.iov_base = large.data(), .iov_len = large.size()};
  EXPECT_EQ(wire_->Write({&vector, 1}).size_bytes, large.size());
  EXPECT_EQ(Receive(), 3);
  EXPECT_EQ(Open(), large);
  // One ends where a record does, and others follow.
  Random random(TestSeed());
  std::string several = RandomBytes(random, 16'384 + 32'768 + 5 + 5'000);
  std::vector<iovec> pieces;
  std::size_t at = 0;
  for (const std::size_t size :
       {std::size_t{16'384}, std::size_t{32'768}, std::size_t{5}, std::size_t{5'000}}) {
    pieces.push_back({.iov_base = &several[at], .iov_len = size});
    at += size;
  }
  EXPECT_EQ(wire_->Write(pieces).size_bytes, several.size());
  EXPECT_TRUE(Open() == several);
  EXPECT_EQ(wire_->Write({}).size_bytes, 0u);
  EXPECT_EQ(Receive(), 0);
}

TEST_F(TlsWireTest, WhatIsWrittenComesInOrderHoweverLittleTheSocketTakes) {
  Shake();
  Random random(TestSeed());
  MakeSmall(UniqueFd(dup(wire_->socket())));
  for (int round = 0; round < 40; ++round) {
    std::string text = RandomBytes(random, 1 + random.Below(200'000));
    const std::vector<iovec> all = VectorsOf(text, random, round % 2 == 0 ? 40'000 : 3'000);
    std::vector<iovec> left = all;
    std::string came;
    while (came.size() < text.size()) {
      const Wire::Put put = wire_->Write(left);
      ASSERT_TRUE(put.is_open);
      // Less than 96 KiB, and never more once there is some.
      EXPECT_LE(put.size_bytes, 96'000u);
      std::size_t size = put.size_bytes;
      while (size > 0) {
        const std::size_t part = std::min(size, left.front().iov_len);
        left.front().iov_base = static_cast<char*>(left.front().iov_base) + part;
        left.front().iov_len -= part;
        size -= part;
        if (left.front().iov_len == 0) left.erase(left.begin());
      }
      if (wire_->has_unsent()) {
        const Wire::Put more = wire_->Write(left);
        EXPECT_EQ(more.size_bytes, 0u);
        EXPECT_FALSE(more.has_moved);
      }
      const std::string part = Open();
      EXPECT_TRUE(part.empty() || put.has_moved || !came.empty());
      came += part;
    }
    EXPECT_TRUE(came == text);
    EXPECT_TRUE(left.empty());
    EXPECT_FALSE(wire_->has_unsent());
  }
}

// What one wire has sealed is not another one's, though they share where it is sealed.
TEST_F(TlsWireTest, AWireThatIsGoneLeavesNothingToTheNext) {
  Shake();
  MakeSmall(UniqueFd(dup(wire_->socket())));
  std::string text(60'000, 'x');
  const iovec vector{.iov_base = text.data(), .iov_len = text.size()};
  EXPECT_EQ(wire_->Write({&vector, 1}).size_bytes, text.size());
  EXPECT_TRUE(wire_->has_unsent());
  wire_.reset();
  auto [ours, theirs] = SocketPair();
  TlsSession session = TestCertificates::Get()
                           .ContextOf(Side::kHttp2Server, TestCertificates::Get().server)
                           ->NewSession();
  SSL_set_accept_state(session.get());
  const auto next = MakeTlsWire(std::move(ours), std::move(session));
  std::array<std::uint8_t, 100> room;
  EXPECT_EQ(next->Read(room).kind, Kind::kNothing);
  EXPECT_FALSE(next->has_unsent());
  std::array<char, 100> said;
  EXPECT_EQ(recv(theirs.get(), said.data(), said.size(), 0), -1);
}

}  // namespace
}  // namespace kerf::door
