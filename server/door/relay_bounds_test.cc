// Of a relay: what strangers may do, and for how long they are waited for.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "server/door/relay.h"
#include "server/door/testing/relay_fixture.h"

namespace kerf::door {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using RelayBoundsTest = RelayTest;

TEST_P(RelayBoundsTest, AnAnswerThatNobodyReadsIsEnded) {
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

// What was written and is not taken: of the connection, whatever its windows are.
TEST_P(RelayBoundsTest, AConnectionThatNobodyReadsIsEnded) {
  RelayWorld world(RelayWorldOptions{.has_tls = has_tls(), .has_small_client_socket = true});
  world.AddClient(2 * kMiB);
  for (int count = 0; count < 3; ++count) world.client->Call("/big", "");
  while (!world.relay().is_client_waiting_to_write()) world.Step();
  world.moves_client = false;
  world.Run();
  for (int count = 0; count < 3; ++count) {
    world.Pass(world.options().times.unread / 3 - milliseconds(1));
    EXPECT_FALSE(world.relay().is_done());
  }
  world.Pass(milliseconds(10));
  EXPECT_TRUE(world.relay().is_done());
  EXPECT_EQ(world.relay().end_reason(), EndReason::kNotReading);
}

TEST_P(RelayBoundsTest, WhoReadsSlowlyIsWaitedFor) {
  RelayWorld world(RelayWorldOptions{.has_tls = has_tls(), .has_small_client_socket = true});
  world.AddClient(2 * kMiB);
  // Else it would be asked whether it is there, behind all that it has not read.
  world.options().times.ping = world.options().times.idle = std::chrono::hours(10);
  const std::int32_t stream = world.client->Call("/big", "");
  while (!world.relay().is_client_waiting_to_write()) world.Step();
  int round = 0;
  for (; world.client->call(stream).body.size() < kMiB && round < 10'000; ++round) {
    world.moves_client = false;
    world.Pass(world.options().times.unread / 20);
    ASSERT_FALSE(world.relay().is_done()) << round;
    world.moves_client = true;
    world.client->Move();
    world.Step();
  }
  EXPECT_EQ(world.client->call(stream).body.size(), std::size_t{1} << 20);
  EXPECT_GT(round, 20);
}

// The last of what was written is still to be sent once HTTP/2 has nothing to say any more.
TEST_P(RelayBoundsTest, WhoIsToldToGoGetsAllOfTheAnswer) {
  RelayWorld world(RelayWorldOptions{.has_tls = has_tls(), .has_small_client_socket = true});
  world.AddClient(2 * kMiB);
  const std::int32_t stream = world.client->Call("/part", "");
  while (!world.relay().is_client_waiting_to_write()) world.Step();
  world.moves_client = false;
  world.Run();
  world.relay().GoAway(world.now());
  world.moves_client = true;
  world.Run();
  EXPECT_EQ(world.client->call(stream).body.size(), 100'000u);
  EXPECT_TRUE(world.client->call(stream).is_closed);
  EXPECT_TRUE(world.relay().is_done());
}

TEST_P(RelayBoundsTest, ARequestThatDoesNotGoOnIsEnded) {
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
TEST_P(RelayBoundsTest, AnUploadMayBeSilent) {
  const std::int32_t stream = world_.client->Call("/echo", "open", false);
  world_.Run();
  world_.Pass(10 * world_.options().times.request);
  world_.Pass(milliseconds(1));
  EXPECT_FALSE(world_.client->call(stream).is_closed);
}

TEST_P(RelayBoundsTest, MetadataBeyondItsBoundCostsThatCallAlone) {
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

TEST_P(RelayBoundsTest, TooManyCancelledCallsEndTheConnectionAndKeepItsOpenCalls) {
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

TEST_P(RelayBoundsTest, CallsThatEndWithTheirConnectionAreCancelledCalls) {
  for (int count = 0; count < 25; ++count) world_.client->Call("/hold", "", false);
  world_.Run();
  world_.client->CloseSocket();
  world_.Run();
  world_.CloseRelay();
  EXPECT_EQ(world_.metrics().calls_cancelled.value(), 25u);
  EXPECT_FALSE(world_.cancels().Has({}, world_.now()));
}

TEST_P(RelayBoundsTest, AConnectionThatBreaksTheRulesCountsAsCancelledCalls) {
  RelayWorld world;
  ASSERT_EQ(send(world.client_socket(), "GET / HTTP/1.1\r\n\r\nand more of this", 34, 0), 34);
  world.Run();
  EXPECT_TRUE(world.relay().is_done());
  EXPECT_EQ(world.relay().end_reason(), EndReason::kNotHttp2);
  // 20 of 20.
  EXPECT_TRUE(world.cancels().Has({}, world.now()));
  EXPECT_FALSE(world.cancels().Take({}, 1, world.now()));
}

TEST_P(RelayBoundsTest, WhoHasNoCallsGoesAfterAWhile) {
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

TEST_P(RelayBoundsTest, WhoAnswersNoPingIsGone) {
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

// What keeps the rules of frames and breaks those of HTTP/2 is told by a GOAWAY, and counts.
TEST_P(RelayBoundsTest, WhoeverBreaksTheRulesIsCountedWhereverItIsSeen) {
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

// It costs the same to be gone before that can be said.
TEST_P(RelayBoundsTest, WhoeverBreaksTheRulesAndIsGoneIsCounted) {
  std::string flood;
  for (int count = 0; count < 6'000; ++count) flood += RawFrame(kRawPing, 0, 0, "12345678");
  const std::string broken[] = {RawFrame(kRawData, 0, 0, "data of no stream"), flood};
  for (const std::string& frames : broken) {
    RelayWorld world;
    SendRaw(world.client_socket(), RawBeginning() + frames);
    world.CloseClientSocket();
    world.Run();
    EXPECT_TRUE(world.relay().is_done());
    EXPECT_EQ(world.relay().end_reason(), EndReason::kNotHttp2);
    EXPECT_FALSE(world.cancels().Take({}, 1, world.now()));
  }
}

// One that does not read what it is told is not waited for: no new calls of it get to the server.
TEST_P(RelayBoundsTest, WhoHasCancelledTooMuchBeginsNothingMoreWhetherItReadsOrNot) {
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
  world.Pass(world.options().times.unread + milliseconds(1));
  EXPECT_TRUE(world.relay().is_done());
  EXPECT_EQ(world.relay().end_reason(), EndReason::kNotReading);
}

// What comes while the client is being told to go is refused for it to try again, elsewhere.
TEST_P(RelayBoundsTest, ACallThatCrossesAGoAwayIsRefusedUntouched) {
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

// All bytes have gone, and the end waits for a window that never comes.
TEST_P(RelayBoundsTest, AnEndThatNobodyReadsIsEnded) {
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

// Trailers that break the rules end their call: no header block is waited for behind it.
TEST_P(RelayBoundsTest, ABrokenBlockIsNotWaitedFor) {
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

TEST_P(RelayBoundsTest, WhoSaysNothingIsEnded) {
  RelayWorld world;
  SendRaw(world.client_socket(), kRawPreface);
  world.Run();
  world.Pass(world.options().times.first_frame);
  EXPECT_FALSE(world.relay().is_done());
  world.Pass(milliseconds(1));
  EXPECT_TRUE(world.relay().is_done());
  EXPECT_EQ(world.relay().end_reason(), EndReason::kSilent);
}

// Whatever else ends meanwhile.
TEST_P(RelayBoundsTest, ABlockThatDoesNotEndIsEnded) {
  RelayWorld world;
  SendRaw(world.client_socket(), RawBeginning() + RawRequest(1, "/hold", false));
  world.Run();
  SendRaw(world.client_socket(), RawFrame(kRawHeaders, 0, 3, "\x83\x86"));
  world.Run();
  world.Pass(world.options().times.header - milliseconds(1));
  world.server().Reset(1, NGHTTP2_CANCEL);
  world.Run();
  EXPECT_FALSE(world.relay().is_done());
  world.Pass(milliseconds(2));
  EXPECT_TRUE(world.relay().is_done());
  EXPECT_EQ(world.relay().end_reason(), EndReason::kSlowHeader);
}

TEST_P(RelayBoundsTest, ABlockThatIsTooLargeEndsTheConnection) {
  Pairs headers;
  for (int count = 0; count < 9; ++count) headers.emplace_back("x", std::string(7'000, 'x'));
  const std::int32_t large = world_.client->Call("/count", "", true, headers);
  world_.Run();
  EXPECT_EQ(world_.client->call(large).HeaderOf("grpc-status"), "8");
  headers.emplace_back("x", std::string(7'000, 'x'));
  world_.client->Call("/count", "", true, headers);
  world_.Run();
  EXPECT_TRUE(world_.relay().is_done());
  EXPECT_EQ(world_.relay().end_reason(), EndReason::kLargeHeader);
  EXPECT_FALSE(world_.cancels().Take({}, 1, world_.now()));
}

// Those of a proxy, which have no path, and of a browser.
TEST_P(RelayBoundsTest, WhatIsNoPostDoesNotComeToGrpc) {
  RelayWorld world;
  // CONNECT is in no static table; GET is 2 there.
  const std::string authority("\x01\x01h", 3);
  SendRaw(world.client_socket(), RawBeginning() +
                                     RawFrame(kRawHeaders, kRawEndHeaders, 1,
                                              "\x02\x07"
                                              "CONNECT" +
                                                  authority) +
                                     RawFrame(kRawHeaders, kRawEndHeaders | kRawEndStream, 3,
                                              "\x82\x86\x04\x06/count" + authority));
  world.Run();
  EXPECT_TRUE(world.servers.empty());
  std::string answer(1'000, '\0');
  const ssize_t size = recv(world.client_socket(), answer.data(), answer.size(), 0);
  ASSERT_GT(size, 0);
  answer.resize(static_cast<std::size_t>(size));
  // Of each: a status that HPACK has no number for, and whom it would take.
  EXPECT_NE(answer.find("405"), std::string::npos);
  EXPECT_NE(answer.find("POST"), std::string::npos);
  EXPECT_FALSE(world.relay().has_calls());
  EXPECT_FALSE(world.relay().is_done());
  SendRaw(world.client_socket(), RawRequest(5, "/count", true));
  world.Run();
  EXPECT_EQ(world.servers.size(), 1u);
}

// Who it was, as far as anybody knows, and what he wanted. A call that gRPC has seen is not told of
// here: whoever has taken it tells of it.
TEST_P(RelayBoundsTest, WhoIsNotLetInIsToldOf) {
  std::vector<TurnedAway> told;
  world_.options().on_turned_away = [&told](TurnedAway client) {
    told.push_back(std::move(client));
  };
  std::string seen;
  world_.options().max_connections_of = [&seen](std::string_view whom) {
    seen = whom;
    return std::optional<std::uint64_t>(0);
  };
  const std::int32_t large =
      world_.client->Call("/large", "", true, {{"x", std::string(7'168, 'x')}});
  world_.Run();
  const std::int32_t refused =
      world_.client->Call("/count", "", true, {{"kerf-request-id", "r-1"}});
  world_.Run();
  EXPECT_EQ(world_.client->call(large).HeaderOf("grpc-message"), "large");
  EXPECT_TRUE(world_.client->call(refused).is_closed);
  EXPECT_EQ(seen, has_tls() ? "tls spiffe://kerf.test/agent" : "clear");
  ASSERT_EQ(told.size(), 2u);
  for (const TurnedAway& client : told) {
    EXPECT_EQ(client.peer, "ipv4:192.0.2.1:7");
    EXPECT_EQ(client.seen, seen);
  }
  EXPECT_EQ(told[0].why, TurnedAway::Why(RefusedCallReason::kLargeMetadata));
  EXPECT_EQ(told[0].method, "/large");
  EXPECT_EQ(told[1].why, TurnedAway::Why(RefusedCallReason::kManyConnections));
  EXPECT_EQ(told[1].method, "/count");
  EXPECT_EQ(told[1].request_id, "r-1");
}

TEST_P(RelayBoundsTest, WhoHasNoMemoryIsToldOfAndWhoseServerIsLostIsNot) {
  std::vector<TurnedAway> told;
  world_.options().on_turned_away = [&told](TurnedAway client) {
    told.push_back(std::move(client));
  };
  world_.client->Call("/hold", "", false);
  world_.Run();
  ASSERT_EQ(world_.servers.size(), 1u);
  Reservation others(&world_.memory());
  ASSERT_TRUE(others.Set(world_.memory().limit_bytes() - world_.memory().used_bytes()));
  world_.client->Call("/count", "");
  world_.Run();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].why, TurnedAway::Why(RefusedCallReason::kNoMemory));
  world_.server().CloseSocket();
  world_.Run();
  EXPECT_GE(world_.metrics().Refused(RefusedCallReason::kNoServer).value(), 1u);
  EXPECT_EQ(told.size(), 1u);
}

// Who is idle is so since its last call's end.
TEST_P(RelayBoundsTest, ACallMakesAConnectionYoung) {
  const DoorTimes& times = world_.options().times;
  world_.client->Call("/count", "");
  world_.Run();
  for (milliseconds passed{0}; passed < times.idle - seconds(10); passed += seconds(10)) {
    world_.Pass(seconds(10));
  }
  world_.client->Call("/count", "");
  world_.Run();
  world_.Pass(seconds(30));
  EXPECT_FALSE(world_.client->has_goaway());
}

INSTANTIATE_TEST_SUITE_P(Wires, RelayBoundsTest, testing::Bool(), RelayBoundsTest::NameOf);

}  // namespace
}  // namespace kerf::door
