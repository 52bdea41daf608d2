#include "server/door/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "server/door/testing/raw_frames.h"
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
  for (int round = 0; round < 10; ++round) {
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

// Windows grow into one half of the memory: the other one is there for calls that begin.
TEST_F(RelayTest, WindowsThatHaveGrownLeaveRoomForOtherCalls) {
  Random random(TestSeed());
  for (int grown = 0; grown < 80; ++grown) {
    const std::int32_t stream = world_.client->Call("/echo", RandomBytes(random, 500'000), false);
    world_.Run();
    ASSERT_EQ(world_.client->call(stream).body.size(), 500'000u);
  }
  EXPECT_GT(world_.memory().used_bytes(), world_.memory().limit_bytes() / 3);
  for (int more = 0; more < 20; ++more) world_.client->Call("/hold", "", false);
  world_.Run();
  EXPECT_EQ(Refused(RefusedCallReason::kNoMemory), 0u);
  EXPECT_EQ(world_.server().call_count(), 100u);
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

// A connection's window is given back before half of it is used up by those that stand: else the
// last one that goes on would wait for them, too.
TEST_F(RelayTest, WhoGoesOnBesideManyThatStandGoesOnForEver) {
  Random random(TestSeed());
  for (int held = 0; held < 40; ++held) {
    world_.client->Call("/hold", RandomBytes(random, 2'000'000), false);
  }
  world_.Run();
  const std::string body = RandomBytes(random, 5'000'000);
  const std::int32_t stream = world_.client->Call("/echo", body);
  world_.Run();
  EXPECT_TRUE(world_.client->call(stream).body == body)
      << world_.client->call(stream).body.size() << " bytes";
}

TEST_F(RelayTest, AnAnswerBesideManyThatAreNotReadGoesOnForEver) {
  for (int held = 0; held < 40; ++held) {
    world_.client->call(world_.client->Call("/big", "")).is_held = true;
    world_.Run();
  }
  const std::int32_t stream = world_.client->Call("/big", "");
  world_.Run();
  EXPECT_EQ(world_.client->call(stream).body.size(), std::size_t{1} << 20);
}

// Windows are given to calls, and back, in any order: what goes on has its own all the time.
TEST_F(RelayTest, WindowsComeAndGoAndNobodyWaitsForThem) {
  Random random(TestSeed());
  std::vector<std::int32_t> held;
  for (int round = 0; round < 60; ++round) {
    for (std::uint64_t count = random.Below(8); count > 0; --count) {
      held.push_back(world_.client->Call("/hold", RandomBytes(random, 300'000), false));
    }
    world_.Run();
    while (held.size() > 80 || (!held.empty() && random.Below(3) != 0)) {
      // Both count alike, as there is one connection on either side.
      world_.server().Reset(held.back(), NGHTTP2_CANCEL);
      held.pop_back();
    }
    const std::string body = RandomBytes(random, random.Below(600'000));
    const std::int32_t stream = world_.client->Call("/echo", body);
    world_.Run();
    ASSERT_TRUE(world_.client->call(stream).body == body)
        << "round " << round << ": " << world_.client->call(stream).HeaderOf("grpc-status");
  }
}

// What keeps the rules of frames and breaks those of HTTP/2 is told by a GOAWAY, and counts.
TEST_F(RelayTest, WhoeverBreaksTheRulesIsCountedWhereverItIsSeen) {
  const std::string broken[] = {
      RawFrame(kRawData, 0, 0, "data of no stream"),
      RawFrame(kRawWindowUpdate, 0, 0, RawNumber(0, 4)),
      RawFrame(kRawSettings, 0, 0, "abc"),
      RawFrame(kRawHeaders, kRawEndHeaders, 1, "\xff\xff\xff\xff\xff\xff"),
  };
  for (const std::string& frame : broken) {
    RelayWorld world;
    SendRaw(world.client_socket(), RawBeginning() + frame);
    world.Run();
    EXPECT_TRUE(world.relay().is_done());
    EXPECT_EQ(world.relay().end_reason(), EndReason::kNotHttp2);
    EXPECT_FALSE(world.cancels().Take({}, 1, world.now()));
  }
}

// One that does not read what it is told is not waited for: no new calls of it get to the server.
TEST_F(RelayTest, WhoHasCancelledTooMuchBeginsNothingMoreWhetherItReadsOrNot) {
  RelayWorld world;
  SendRaw(world.client_socket(), RawBeginning());
  world.Run();
  // Answers to pings that nobody reads, until nothing goes out any more.
  for (int count = 0; count < 100'000 && !world.relay().is_client_waiting_to_write(); ++count) {
    SendRaw(world.client_socket(), RawFrame(kRawPing, 0, 0, "12345678"));
    if (count % 500 == 0) world.Run();
  }
  // And as much again as may wait ahead of a socket.
  for (int count = 0; count < 4'200; ++count) {
    SendRaw(world.client_socket(), RawFrame(kRawPing, 0, 0, "12345678"));
    if (count % 100 == 0) world.Run();
  }
  world.Run();
  ASSERT_TRUE(world.relay().is_client_waiting_to_write());
  ASSERT_FALSE(world.relay().is_done());
  for (std::uint32_t stream = 1; stream < 401; stream += 2) {
    SendRaw(world.client_socket(), RawRequest(stream, "/hold", false));
    world.Run();
    SendRaw(world.client_socket(), RawResetOf(stream, NGHTTP2_CANCEL));
    world.Run();
  }
  // The bound is 20, and the next one is seen before it is known to be too much.
  EXPECT_LE(world.server().call_count(), 22u);
}

// What comes while the client is being told to go is refused for it to try again, elsewhere.
TEST_F(RelayTest, ACallThatCrossesAGoAwayIsRefusedUntouched) {
  RelayWorld world;
  SendRaw(world.client_socket(), RawBeginning() + RawRequest(1, "/hold", false));
  world.Run();
  std::string calls;
  // In one piece: the last ones are read before the GOAWAY can be written.
  for (std::uint32_t stream = 3; stream < 103; stream += 2) {
    calls += RawRequest(stream, "/hold", false) + RawResetOf(stream, NGHTTP2_CANCEL);
  }
  SendRaw(world.client_socket(), calls + RawRequest(103, "/hold", false));
  world.Run();
  EXPECT_EQ(world.server().call_count(), 1u);
  // It was refused, which is no call that the client has cancelled.
  EXPECT_EQ(world.metrics().calls_cancelled.value(), 21u);
  EXPECT_FALSE(world.cancels().Has({}, world.now()));
}

TEST_F(RelayTest, AnInformationalAnswerIsNotTheAnswer) {
  const std::int32_t stream = world_.client->Call("/hints", "12345");
  world_.Run();
  EXPECT_EQ(world_.client->call(stream).HeaderOf(":status"), "200");
  EXPECT_EQ(world_.client->call(stream).TrailerOf("bytes"), "5");
}

// All bytes have gone, and the end waits for a window that never comes.
TEST_F(RelayTest, AnEndThatNobodyReadsIsEnded) {
  RelayWorld world;
  world.AddClient(10);
  const std::int32_t stream = world.client->Call("/later", "");
  world.client->call(stream).is_held = true;
  world.Run();
  EXPECT_EQ(world.client->call(stream).body.size(), 10u);
  world.Pass(seconds(300));
  EXPECT_FALSE(world.client->call(stream).is_closed);
  world.server().End(1);
  world.Run();
  world.Pass(world.options().times.unread - milliseconds(1));
  EXPECT_FALSE(world.client->call(stream).is_closed);
  world.Pass(milliseconds(2));
  EXPECT_TRUE(world.client->call(stream).is_closed);
  EXPECT_FALSE(world.relay().has_calls());
}

TEST_F(RelayTest, AnAnswerThatCannotBeSentEndsItsCall) {
  const std::int32_t stream = world_.client->Call("/huge", "");
  world_.Run();
  EXPECT_TRUE(world_.client->call(stream).is_closed);
  EXPECT_EQ(world_.client->call(stream).error, std::uint32_t{NGHTTP2_INTERNAL_ERROR});
  const std::int32_t next = world_.client->Call("/echo", "next");
  world_.Run();
  EXPECT_EQ(world_.client->call(next).body, "next");
}

// Trailers that break the rules end their call: no header block is waited for behind it.
TEST_F(RelayTest, ABrokenBlockIsNotWaitedFor) {
  RelayWorld world;
  // A name in capitals, behind the request.
  const std::string trailers("\x00\x01X\x01y", 5);
  SendRaw(world.client_socket(),
          RawBeginning() + RawRequest(1, "/hold", false) + RawRequest(3, "/hold", false));
  world.Run();
  SendRaw(world.client_socket(),
          RawFrame(kRawHeaders, kRawEndHeaders | kRawEndStream, 3, trailers));
  world.Run();
  EXPECT_EQ(world.server().call_count(), 2u);
  world.Pass(world.options().times.header + milliseconds(1));
  EXPECT_FALSE(world.relay().is_done());
}

// The window of a connection is not used up by what stands around data.
TEST_F(RelayTest, PaddingIsGivenBack) {
  RelayWorld world;
  SendRaw(world.client_socket(), RawBeginning() + RawRequest(1, "/count", false));
  std::size_t sent_bytes = 0;
  for (int count = 0; count < 8'000; ++count) {
    const std::string padded = std::string("\xff") + "x" + std::string(255, '\0');
    SendRaw(world.client_socket(), RawFrame(kRawData, kRawPadded, 1, padded));
    ++sent_bytes;
    world.Run();
  }
  SendRaw(world.client_socket(), RawFrame(kRawData, kRawEndStream, 1, ""));
  world.Run();
  ASSERT_FALSE(world.relay().is_done());
  EXPECT_EQ(world.server().call(1).body.size(), sent_bytes);
}

// A server that is gone takes its windows with it: the next one has its own.
TEST_F(RelayTest, WhatWasOfAServerThatIsGoneIsNotOfTheNext) {
  for (int held = 0; held < 20; ++held) {
    world_.client->call(world_.client->Call("/big", "")).is_held = true;
  }
  world_.Run();
  world_.server().CloseSocket();
  world_.Run();
  for (int held = 0; held < 20; ++held) {
    world_.client->call(world_.client->Call("/big", "")).is_held = true;
  }
  world_.Run();
  world_.Pass(world_.options().times.unread + milliseconds(1));
  const std::int32_t stream = world_.client->Call("/big", "");
  world_.Run();
  EXPECT_EQ(world_.client->call(stream).body.size(), std::size_t{1} << 20);
  EXPECT_EQ(world_.servers.size(), 2u);
}

}  // namespace
}  // namespace kerf::door
