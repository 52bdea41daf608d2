#include "server/door/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "server/door/testing/relay_world.h"

namespace kerf::door {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string RandomBytes(Random& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Next());
  return bytes;
}

class RelayTest : public testing::Test {
 protected:
  RelayTest() { world_.AddClient(); }

  // Whatever has happened: nothing is held once the connection is gone.
  ~RelayTest() override {
    world_.CloseRelay();
    EXPECT_EQ(world_.memory().used_bytes(), 0u);
    EXPECT_EQ(world_.pool().used_bytes(), 0u);
  }

  std::uint64_t Refused(RefusedCallReason reason) {
    return world_.metrics().Refused(reason).value();
  }

  RelayWorld world_;
};

TEST_F(RelayTest, ACallAndItsAnswerComeThrough) {
  const std::int32_t stream = world_.client->Call("/echo", "hello");
  world_.Run();
  PeerCall& call = world_.client->call(stream);
  EXPECT_EQ(call.body, "hello");
  EXPECT_EQ(call.HeaderOf(":status"), "200");
  EXPECT_EQ(call.TrailerOf("grpc-status"), "0");
  EXPECT_EQ(call.TrailerOf("path"), "echo");
  EXPECT_TRUE(call.is_closed);
  EXPECT_EQ(call.error, 0u);
  EXPECT_FALSE(world_.relay().has_calls());
  EXPECT_EQ(world_.memory().used_bytes(), 0u);
  EXPECT_EQ(world_.metrics().calls_cancelled.value(), 0u);
}

TEST_F(RelayTest, TheServerLearnsWhoCallsFromTheDoorAlone) {
  world_.client->Call("/count", "", true, {{"kerf-door-peer", "stamp ipv4:203.0.113.9:1"}});
  world_.Run();
  PeerCall& seen = world_.server().call(1);
  std::vector<std::string> peers;
  for (const auto& [name, value] : seen.headers) {
    if (name == "kerf-door-peer") peers.push_back(value);
  }
  EXPECT_THAT(peers, testing::ElementsAre("stamp ipv4:192.0.2.1:7"));
}

// Bodies of all sizes around those of frames, windows and blocks, each way, many at once.
TEST_F(RelayTest, EveryByteComesThrough) {
  Random random(TestSeed());
  std::map<std::int32_t, std::string> sent;
  for (int round = 0; round < 40; ++round) {
    for (int call = 0; call < 20; ++call) {
      static constexpr std::size_t kSizes[] = {0,      1,      1'023,   1'024,   16'384,
                                               65'535, 65'536, 131'072, 200'000, 1'500'000};
      const std::size_t size =
          random.Below(4) == 0 ? random.Below(300'000) : kSizes[random.Below(7)] + random.Below(3);
      std::string body = RandomBytes(random, size);
      if (random.Below(2) == 0) {
        sent[world_.client->Call("/echo", body)] = body;
      } else {
        const std::int32_t stream = world_.client->Call("/echo", "", false);
        sent[stream] = body;
        while (!body.empty()) {
          const std::size_t piece = random.Between(1, body.size());
          world_.client->Send(stream, body.substr(0, piece), false);
          body.erase(0, piece);
          world_.Step();
        }
        world_.client->Send(stream, "", true);
      }
    }
    world_.Run();
    for (const auto& [stream, body] : sent) {
      PeerCall& call = world_.client->call(stream);
      ASSERT_TRUE(call.is_closed);
      ASSERT_TRUE(call.body == body) << "stream " << stream << " of " << body.size() << " bytes";
      ASSERT_EQ(call.TrailerOf("grpc-status"), "0");
    }
    ASSERT_EQ(world_.memory().used_bytes(), 0u);
    sent.clear();
  }
}

// The same where nothing may be shared.
TEST_F(RelayTest, EveryByteComesThroughCopied) {
  RelayWorld world;
  world.SetMaxSharedBytes(0);
  world.AddClient();
  Random random(TestSeed());
  const std::string body = RandomBytes(random, 1'000'000);
  const std::int32_t stream = world.client->Call("/echo", body);
  world.Run();
  EXPECT_TRUE(world.client->call(stream).body == body);
}

TEST_F(RelayTest, AnAnswerWithoutABodyIsOneBlock) {
  const std::int32_t stream = world_.client->Call("/nothing", "");
  world_.Run();
  EXPECT_EQ(world_.client->call(stream).HeaderOf("grpc-status"), "12");
  EXPECT_TRUE(world_.client->call(stream).is_closed);
}

// A status before the request has ended: the client is told to send no more, and it is no
// cancelled call.
TEST_F(RelayTest, AnEarlyAnswerEndsTheRequest) {
  const std::int32_t stream = world_.client->Call("/early", "some", false);
  world_.Run();
  PeerCall& call = world_.client->call(stream);
  EXPECT_EQ(call.HeaderOf("grpc-status"), "0");
  EXPECT_TRUE(call.is_closed);
  EXPECT_FALSE(world_.relay().has_calls());
  EXPECT_EQ(world_.metrics().calls_cancelled.value(), 0u);
}

TEST_F(RelayTest, AServersResetReachesTheClientAsItIs) {
  const std::int32_t stream = world_.client->Call("/reset", "some", false);
  world_.Run();
  EXPECT_EQ(world_.client->call(stream).error, std::uint32_t{NGHTTP2_REFUSED_STREAM});
  EXPECT_EQ(world_.metrics().calls_cancelled.value(), 0u);
}

TEST_F(RelayTest, AClientsResetReachesTheServer) {
  const std::int32_t stream = world_.client->Call("/echo", "some", false);
  world_.Run();
  world_.client->Reset(stream, NGHTTP2_CANCEL);
  world_.Run();
  EXPECT_TRUE(world_.server().call(1).is_closed);
  EXPECT_EQ(world_.server().call(1).error, std::uint32_t{NGHTTP2_CANCEL});
  EXPECT_EQ(world_.metrics().calls_cancelled.value(), 1u);
}

TEST_F(RelayTest, AClientThatVanishesIsSeenByTheServer) {
  world_.client->Call("/echo", "some", false);
  world_.Run();
  world_.client->CloseSocket();
  world_.Run();
  ASSERT_TRUE(world_.relay().is_done());
  world_.CloseRelay();
  world_.Run();
  EXPECT_FALSE(world_.server().is_open());
  EXPECT_EQ(world_.metrics().calls_cancelled.value(), 1u);
}

// Who does not take one body does not keep others of the same connection from going on.
TEST_F(RelayTest, OneThatStandsStopsNoOther) {
  Random random(TestSeed());
  for (int held = 0; held < 40; ++held) {
    world_.client->Call("/hold", RandomBytes(random, 3'000'000), false);
  }
  world_.Run();
  const std::string body = RandomBytes(random, 700'000);
  const std::int32_t stream = world_.client->Call("/echo", body);
  world_.Run();
  EXPECT_TRUE(world_.client->call(stream).body == body);
  // What stands is bounded by the windows, whatever the client would send.
  EXPECT_LE(world_.pool().used_bytes(), world_.memory().limit_bytes());
}

// And the other way round: a client that reads one answer of two.
TEST_F(RelayTest, AnAnswerThatIsNotReadStopsNoOther) {
  world_.client->SetTaking(false);
  for (int held = 0; held < 20; ++held) world_.client->Call("/big", "");
  world_.Run();
  const std::int32_t stream = world_.client->Call("/nothing", "");
  world_.Run();
  EXPECT_EQ(world_.client->call(stream).HeaderOf("grpc-status"), "12");
}

TEST_F(RelayTest, AnAnswerThatNobodyReadsIsEnded) {
  world_.client->SetTaking(false);
  const std::int32_t stream = world_.client->Call("/big", "");
  world_.Run();
  EXPECT_FALSE(world_.client->call(stream).is_closed);
  world_.Pass(world_.options().times.unread - milliseconds(1));
  EXPECT_FALSE(world_.client->call(stream).is_closed);
  world_.Pass(milliseconds(2));
  EXPECT_TRUE(world_.client->call(stream).is_closed);
  EXPECT_TRUE(world_.server().call(1).is_closed);
  EXPECT_FALSE(world_.relay().is_done());
}

TEST_F(RelayTest, ARequestThatDoesNotGoOnIsEnded) {
  const std::int32_t stream = world_.client->Call("/count", "some", false);
  world_.Run();
  world_.Pass(world_.options().times.request - milliseconds(1));
  world_.client->Send(stream, "more", false);
  world_.Run();
  world_.Pass(world_.options().times.request - milliseconds(1));
  EXPECT_FALSE(world_.client->call(stream).is_closed);
  world_.Pass(milliseconds(2));
  EXPECT_EQ(world_.client->call(stream).HeaderOf("grpc-status"), "4");
  EXPECT_TRUE(world_.client->call(stream).is_closed);
  EXPECT_EQ(Refused(RefusedCallReason::kSlowRequest), 1u);
}

// One that was answered something already may take its time: an upload between two files.
TEST_F(RelayTest, AnUploadMayBeSilent) {
  const std::int32_t stream = world_.client->Call("/echo", "open", false);
  world_.Run();
  world_.Pass(10 * world_.options().times.request);
  world_.Pass(milliseconds(1));
  EXPECT_FALSE(world_.client->call(stream).is_closed);
}

TEST_F(RelayTest, MetadataBeyondItsBoundCostsThatCallAlone) {
  const std::int32_t other = world_.client->Call("/echo", "before", false);
  world_.Run();
  const std::int32_t small =
      world_.client->Call("/count", "", true, {{"x", std::string(6'000, 'x')}});
  const std::int32_t large =
      world_.client->Call("/count", "", true, {{"x", std::string(7'200, 'x')}});
  world_.client->Send(other, ", after", true);
  world_.Run();
  EXPECT_EQ(world_.client->call(small).TrailerOf("grpc-status"), "0");
  EXPECT_EQ(world_.client->call(large).HeaderOf("grpc-status"), "8");
  EXPECT_EQ(world_.client->call(large).HeaderOf("grpc-message"), "large");
  EXPECT_EQ(world_.client->call(large).HeaderOf("grpc-status-details-bin"), "AAAA");
  EXPECT_EQ(world_.client->call(other).body, "before, after");
  EXPECT_EQ(Refused(RefusedCallReason::kLargeMetadata), 1u);
  EXPECT_EQ(world_.server().call_count(), 2u);
}

TEST_F(RelayTest, WithoutMemoryACallIsRefused) {
  RelayWorld world(4 * RelayWorld::kWindowBytes);
  world.AddClient();
  const std::int32_t first = world.client->Call("/echo", "", false);
  const std::int32_t second = world.client->Call("/echo", "", false);
  const std::int32_t third = world.client->Call("/echo", "", false);
  world.Run();
  EXPECT_FALSE(world.client->call(first).is_closed);
  EXPECT_FALSE(world.client->call(second).is_closed);
  EXPECT_EQ(world.client->call(third).HeaderOf("grpc-status"), "8");
  EXPECT_EQ(world.client->call(third).HeaderOf("grpc-status-details-bin"), "");
  world.client->Send(first, "done", true);
  world.Run();
  const std::int32_t fourth = world.client->Call("/echo", "now");
  world.Run();
  EXPECT_EQ(world.client->call(fourth).body, "now");
}

TEST_F(RelayTest, WhereNobodyServesACallIsRefused) {
  world_.takes_connections = false;
  const std::int32_t refused = world_.client->Call("/echo", "some");
  world_.Run();
  EXPECT_EQ(world_.client->call(refused).HeaderOf("grpc-status"), "14");
  world_.takes_connections = true;
  const std::int32_t taken = world_.client->Call("/echo", "some");
  world_.Run();
  EXPECT_EQ(world_.client->call(taken).body, "some");
}

TEST_F(RelayTest, AServerThatVanishesEndsItsCallsAndTheNextOneIsServed) {
  const std::int32_t unanswered = world_.client->Call("/hold", "some", false);
  const std::int32_t answered = world_.client->Call("/echo", "some", false);
  world_.Run();
  world_.server().CloseSocket();
  world_.Run();
  EXPECT_EQ(world_.client->call(unanswered).HeaderOf("grpc-status"), "14");
  EXPECT_EQ(world_.client->call(answered).TrailerOf("grpc-status"), "14");
  EXPECT_TRUE(world_.client->call(answered).is_closed);
  EXPECT_FALSE(world_.relay().has_calls());
  const std::int32_t next = world_.client->Call("/echo", "next");
  world_.Run();
  EXPECT_EQ(world_.client->call(next).body, "next");
  EXPECT_EQ(world_.servers.size(), 2u);
  EXPECT_EQ(world_.metrics().calls_cancelled.value(), 0u);
}

// The client is told, finishes what it has, and goes.
TEST_F(RelayTest, AServersGoAwayIsTheClients) {
  const std::int32_t open = world_.client->Call("/echo", "some", false);
  world_.Run();
  world_.server().GoAway();
  world_.Run();
  EXPECT_TRUE(world_.client->has_goaway());
  EXPECT_EQ(world_.client->goaway_error(), std::uint32_t{NGHTTP2_NO_ERROR});
  EXPECT_FALSE(world_.relay().is_done());
  world_.client->Send(open, " more", true);
  world_.Run();
  EXPECT_EQ(world_.client->call(open).body, "some more");
  EXPECT_TRUE(world_.relay().is_done());
  EXPECT_EQ(world_.relay().end_reason(), EndReason::kClosed);
}

TEST_F(RelayTest, TooManyCancelledCallsEndTheConnectionAndKeepItsOpenCalls) {
  const std::int32_t open = world_.client->Call("/echo", "some", false);
  world_.Run();
  for (int count = 0; count < 21; ++count) {
    const std::int32_t stream = world_.client->Call("/hold", "", false);
    world_.Run();
    EXPECT_FALSE(world_.client->has_goaway()) << count;
    world_.client->Reset(stream, NGHTTP2_CANCEL);
    world_.Run();
  }
  EXPECT_TRUE(world_.client->has_goaway());
  EXPECT_EQ(world_.client->goaway_error(), std::uint32_t{NGHTTP2_ENHANCE_YOUR_CALM});
  EXPECT_FALSE(world_.cancels().Has(world_.relay().address().key, world_.now()));
  world_.client->Send(open, " more", true);
  world_.Run();
  EXPECT_EQ(world_.client->call(open).body, "some more");
  EXPECT_TRUE(world_.relay().is_done());
  EXPECT_EQ(world_.relay().end_reason(), EndReason::kCancels);
}

TEST_F(RelayTest, CallsThatEndWithTheirConnectionAreCancelledCalls) {
  for (int count = 0; count < 25; ++count) world_.client->Call("/hold", "", false);
  world_.Run();
  world_.client->CloseSocket();
  world_.Run();
  world_.CloseRelay();
  EXPECT_EQ(world_.metrics().calls_cancelled.value(), 25u);
  EXPECT_FALSE(world_.cancels().Has({}, world_.now()));
}

TEST_F(RelayTest, AConnectionThatBreaksTheRulesCountsAsCancelledCalls) {
  RelayWorld world;
  ASSERT_EQ(send(world.client_socket(), "GET / HTTP/1.1\r\n\r\nand more of this", 34, 0), 34);
  world.Run();
  EXPECT_TRUE(world.relay().is_done());
  EXPECT_EQ(world.relay().end_reason(), EndReason::kNotHttp2);
  // 20 of 20.
  EXPECT_TRUE(world.cancels().Has({}, world.now()));
  EXPECT_FALSE(world.cancels().Take({}, 1, world.now()));
}

TEST_F(RelayTest, WhoHasNoCallsGoesAfterAWhile) {
  const std::int32_t stream = world_.client->Call("/count", "");
  world_.Run();
  EXPECT_TRUE(world_.client->call(stream).is_closed);
  const DoorTimes& times = world_.options().times;
  for (milliseconds passed{0}; passed < times.idle; passed += seconds(10)) {
    EXPECT_FALSE(world_.client->has_goaway());
    world_.Pass(seconds(10));
  }
  world_.Pass(seconds(1));
  EXPECT_TRUE(world_.client->has_goaway());
  EXPECT_TRUE(world_.relay().is_done());
  EXPECT_EQ(world_.relay().end_reason(), EndReason::kIdle);
}

TEST_F(RelayTest, WhoAnswersNoPingIsGone) {
  world_.client->Call("/echo", "", false);
  world_.Run();
  const DoorTimes& times = world_.options().times;
  // Answered.
  for (int count = 0; count < 5; ++count) world_.Pass(times.ping + milliseconds(1));
  EXPECT_FALSE(world_.relay().is_done());
  // Its machine is gone: nothing answers, and nothing says so.
  const auto silent = std::move(world_.client);
  world_.Pass(times.ping + milliseconds(1));
  EXPECT_FALSE(world_.relay().is_done());
  world_.Pass(times.ping_timeout + milliseconds(1));
  EXPECT_TRUE(world_.relay().is_done());
  EXPECT_EQ(world_.relay().end_reason(), EndReason::kNoPing);
}

TEST_F(RelayTest, RequestTrailersEndTheRequest) {
  const std::int32_t stream = world_.client->Call("/count", "12345", false);
  world_.Run();
  PeerCall& call = world_.client->call(stream);
  call.last_headers = {{"x-trailer", "yes"}};
  world_.client->Send(stream, "", true);
  world_.Run();
  EXPECT_EQ(call.TrailerOf("bytes"), "5");
}

}  // namespace
}  // namespace kerf::door
