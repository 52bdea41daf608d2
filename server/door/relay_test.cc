#include "server/door/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "server/door/testing/relay_fixture.h"

namespace kerf::door {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_P(RelayTest, ACallAndItsAnswerComeThrough) {
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

TEST_P(RelayTest, TheServerLearnsWhoCallsFromTheDoorAlone) {
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
TEST_P(RelayTest, EveryByteComesThrough) {
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
TEST_P(RelayTest, EveryByteComesThroughCopied) {
  RelayWorld world;
  world.SetMaxSharedBytes(0);
  world.AddClient();
  Random random(TestSeed());
  const std::string body = RandomBytes(random, 1'000'000);
  const std::int32_t stream = world.client->Call("/echo", body);
  world.Run();
  EXPECT_TRUE(world.client->call(stream).body == body);
}

TEST_P(RelayTest, AnAnswerWithoutABodyIsOneBlock) {
  const std::int32_t stream = world_.client->Call("/nothing", "");
  world_.Run();
  EXPECT_EQ(world_.client->call(stream).HeaderOf("grpc-status"), "12");
  EXPECT_TRUE(world_.client->call(stream).is_closed);
}

// A status before the request has ended: the client is told to send no more, and it is no
// cancelled call.
TEST_P(RelayTest, AnEarlyAnswerEndsTheRequest) {
  const std::int32_t stream = world_.client->Call("/early", "some", false);
  world_.Run();
  PeerCall& call = world_.client->call(stream);
  EXPECT_EQ(call.HeaderOf("grpc-status"), "0");
  EXPECT_TRUE(call.is_closed);
  EXPECT_FALSE(world_.relay().has_calls());
  EXPECT_EQ(world_.metrics().calls_cancelled.value(), 0u);
}

TEST_P(RelayTest, AServersResetReachesTheClientAsItIs) {
  const std::int32_t stream = world_.client->Call("/reset", "some", false);
  world_.Run();
  EXPECT_EQ(world_.client->call(stream).error, std::uint32_t{NGHTTP2_REFUSED_STREAM});
  EXPECT_EQ(world_.metrics().calls_cancelled.value(), 0u);
}

TEST_P(RelayTest, AClientsResetReachesTheServer) {
  const std::int32_t stream = world_.client->Call("/echo", "some", false);
  world_.Run();
  world_.client->Reset(stream, NGHTTP2_CANCEL);
  world_.Run();
  EXPECT_TRUE(world_.server().call(1).is_closed);
  EXPECT_EQ(world_.server().call(1).error, std::uint32_t{NGHTTP2_CANCEL});
  EXPECT_EQ(world_.metrics().calls_cancelled.value(), 1u);
}

TEST_P(RelayTest, AClientThatVanishesIsSeenByTheServer) {
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

TEST_P(RelayTest, WhereNobodyServesACallIsRefused) {
  world_.takes_connections = false;
  const std::int32_t refused = world_.client->Call("/echo", "some");
  world_.Run();
  EXPECT_EQ(world_.client->call(refused).HeaderOf("grpc-status"), "14");
  world_.takes_connections = true;
  const std::int32_t taken = world_.client->Call("/echo", "some");
  world_.Run();
  EXPECT_EQ(world_.client->call(taken).body, "some");
}

TEST_P(RelayTest, AServerThatVanishesEndsItsCallsAndTheNextOneIsServed) {
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

// What it has said before it went is heard, even by a relay that is just writing to it.
TEST_P(RelayTest, AServersLastWordsAreHeard) {
  const std::int32_t stream = world_.client->Call("/echo", "some", false);
  world_.Run();
  world_.server().End(1);
  world_.server().Move();
  world_.server().CloseSocket();
  world_.client->Send(stream, "more", false);
  world_.client->Move();
  world_.Run();
  EXPECT_EQ(world_.client->call(stream).TrailerOf("grpc-status"), "0");
  EXPECT_TRUE(world_.client->call(stream).is_closed);
  EXPECT_EQ(Refused(RefusedCallReason::kNoServer), 0u);
}

// nghttp2 reads nothing more of it, and says so; nobody waits for what will not be heard.
TEST_P(RelayTest, AServerThatBreaksTheRulesIsLeft) {
  const std::int32_t stream = world_.client->Call("/echo", "some", false);
  world_.Run();
  SendRaw(world_.server().socket(), RawFrame(kRawData, 0, 0, "data of no stream"));
  world_.Run();
  EXPECT_EQ(world_.client->call(stream).TrailerOf("grpc-status"), "14");
  EXPECT_TRUE(world_.client->call(stream).is_closed);
  const std::int32_t next = world_.client->Call("/echo", "next");
  world_.Run();
  EXPECT_EQ(world_.client->call(next).body, "next");
  EXPECT_EQ(world_.servers.size(), 2u);
}

// The client is told, finishes what it has, and goes.
TEST_P(RelayTest, AServersGoAwayIsTheClients) {
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

TEST_P(RelayTest, RequestTrailersEndTheRequest) {
  const std::int32_t stream = world_.client->Call("/count", "12345", false);
  world_.Run();
  PeerCall& call = world_.client->call(stream);
  call.last_headers = {{"x-trailer", "yes"}};
  world_.client->Send(stream, "", true);
  world_.Run();
  EXPECT_EQ(call.TrailerOf("bytes"), "5");
}

// Nothing goes out to the server, and nghttp2 has a frame whose bytes it was promised.
TEST_P(RelayTest, WhatIsCancelledBehindAServerThatReadsNothingIsNotMissed) {
  RelayWorld world(RelayWorldOptions{.has_small_server_socket = true});
  world.AddClient();
  const std::int32_t before = world.client->Call("/echo", "before");
  world.Run();
  EXPECT_EQ(world.client->call(before).body, "before");
  world.moves_servers = false;
  Random random(TestSeed());
  std::vector<std::int32_t> streams;
  streams.reserve(10);
  for (int count = 0; count < 10; ++count) {
    streams.push_back(world.client->Call("/echo", RandomBytes(random, 60'000)));
  }
  world.Run();
  EXPECT_TRUE(world.relay().is_server_waiting_to_write());
  for (const std::int32_t stream : streams) world.client->Reset(stream, NGHTTP2_CANCEL);
  world.Run();
  world.moves_servers = true;
  world.Run();
  EXPECT_FALSE(world.relay().has_calls());
  const std::string body = RandomBytes(random, 300'000);
  const std::int32_t after = world.client->Call("/echo", body);
  world.Run();
  EXPECT_TRUE(world.client->call(after).body == body);
}

// The same the other way round: the answers of a client that reads nothing.
TEST_P(RelayTest, WhatTheServerResetsBehindAClientThatReadsNothingIsNotMissed) {
  RelayWorld world(RelayWorldOptions{.has_small_client_socket = true});
  world.AddClient();
  std::vector<std::int32_t> streams;
  streams.reserve(10);
  for (int count = 0; count < 10; ++count) streams.push_back(world.client->Call("/part", ""));
  while (!world.relay().is_client_waiting_to_write()) world.Step();
  world.moves_client = false;
  world.Run();
  for (const std::int32_t stream : streams) world.server().Reset(stream, NGHTTP2_INTERNAL_ERROR);
  world.Run();
  world.moves_client = true;
  world.Run();
  for (const std::int32_t stream : streams) EXPECT_TRUE(world.client->call(stream).is_closed);
  EXPECT_FALSE(world.relay().has_calls());
  EXPECT_EQ(world.metrics().calls_cancelled.value(), 0u);
}

TEST_P(RelayTest, AnAnswerMayEndWithoutTrailers) {
  const std::int32_t stream = world_.client->Call("/bare", "12345");
  world_.Run();
  const PeerCall& call = world_.client->call(stream);
  EXPECT_EQ(call.body, "5");
  EXPECT_TRUE(call.trailers.empty());
  EXPECT_TRUE(call.is_closed);
  EXPECT_EQ(Refused(RefusedCallReason::kNoServer), 0u);
}

TEST_P(RelayTest, AnInformationalAnswerIsNotTheAnswer) {
  const std::int32_t stream = world_.client->Call("/hints", "12345");
  world_.Run();
  EXPECT_EQ(world_.client->call(stream).HeaderOf(":status"), "200");
  EXPECT_EQ(world_.client->call(stream).TrailerOf("bytes"), "5");
}

TEST_P(RelayTest, AnAnswerThatCannotBeSentEndsItsCall) {
  const std::int32_t stream = world_.client->Call("/huge", "");
  world_.Run();
  EXPECT_TRUE(world_.client->call(stream).is_closed);
  EXPECT_EQ(world_.client->call(stream).error, std::uint32_t{NGHTTP2_INTERNAL_ERROR});
  const std::int32_t next = world_.client->Call("/echo", "next");
  world_.Run();
  EXPECT_EQ(world_.client->call(next).body, "next");
}

INSTANTIATE_TEST_SUITE_P(Wires, RelayTest, testing::Bool(), RelayTest::NameOf);

}  // namespace
}  // namespace kerf::door
