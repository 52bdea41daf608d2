// Of a relay: windows and memory, that nobody waits for another one, and that nothing is kept.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "server/door/relay.h"
#include "server/door/testing/relay_fixture.h"

namespace kerf::door {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using RelayWindowsTest = RelayTest;

// Who does not take one body does not keep others of the same connection from going on.
TEST_P(RelayWindowsTest, OneThatStandsStopsNoOther) {
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
TEST_P(RelayWindowsTest, AnAnswerThatIsNotReadStopsNoOther) {
  world_.client->SetTaking(false);
  for (int held = 0; held < 20; ++held) world_.client->Call("/big", "");
  world_.Run();
  const std::int32_t stream = world_.client->Call("/nothing", "");
  world_.Run();
  EXPECT_EQ(world_.client->call(stream).HeaderOf("grpc-status"), "12");
}

// Windows grow into one half of the memory: the other one is there for calls that begin.
TEST_P(RelayWindowsTest, WindowsThatHaveGrownLeaveRoomForOtherCalls) {
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

// Who has come before, and has many calls, has all that windows grow into.
TEST_P(RelayWindowsTest, WhoHasTakenAllLeavesOthersTheirPart) {
  Random random(TestSeed());
  const auto greedy = world_.windows().ShareOf(1);
  greedy->Take(world_.windows().total().limit_bytes());
  const std::int32_t stream = world_.client->Call("/echo", RandomBytes(random, 2'000'000), false);
  world_.Run();
  ASSERT_EQ(world_.client->call(stream).body.size(), 2'000'000u);
  EXPECT_EQ(world_.memory().used_bytes(), kMaxWindowBytes + RelayWorld::kWindowBytes);
  greedy->GiveBack(greedy->used_bytes());
}

// Many who have a call each, as agents have: one of them with many is not kept to its part.
TEST_P(RelayWindowsTest, WhereThereIsEnoughNobodyIsKeptToHisPart) {
  Random random(TestSeed());
  std::vector<std::shared_ptr<SharedBudget::Share>> others;
  for (std::uint64_t number = 0; number < 200; ++number) {
    others.push_back(world_.windows().ShareOf(number));
    others.back()->Take(1);
  }
  const std::int32_t stream = world_.client->Call("/echo", RandomBytes(random, 2'000'000), false);
  world_.Run();
  ASSERT_EQ(world_.client->call(stream).body.size(), 2'000'000u);
  EXPECT_EQ(world_.memory().used_bytes(), kMaxWindowBytes + RelayWorld::kWindowBytes);
  for (const auto& other : others) other->GiveBack(1);
}

TEST_P(RelayWindowsTest, WhereThereIsNotEverybodyIsKeptToHisPart) {
  Random random(TestSeed());
  const std::size_t limit_bytes = world_.windows().total().limit_bytes();
  std::vector<std::shared_ptr<SharedBudget::Share>> others;
  for (std::uint64_t number = 0; number < 3; ++number) {
    others.push_back(world_.windows().ShareOf(number));
    others.back()->Take(limit_bytes / 4);
  }
  for (int grown = 0; grown < 20; ++grown) {
    const std::int32_t stream = world_.client->Call("/echo", RandomBytes(random, 500'000), false);
    world_.Run();
    ASSERT_EQ(world_.client->call(stream).body.size(), 500'000u);
  }
  // And what calls begin with, for that is nobody kept from.
  EXPECT_LE(world_.memory().used_bytes(), limit_bytes / 4 + 40 * RelayWorld::kWindowBytes);
  EXPECT_GT(world_.memory().used_bytes(), limit_bytes / 4 * 3 / 4);
  for (const auto& other : others) other->GiveBack(limit_bytes / 4);
}

// Each has a part of what there was when he came, and goes on with it.
TEST_P(RelayWindowsTest, ManyWhoComeOneBehindTheOtherLeaveRoomForCallsThatBegin) {
  constexpr std::uint64_t kMemoryBytes = 16 * kMiB;
  // As many as are expected: an eighth of the memory is one window of each.
  constexpr std::size_t kClients = kMemoryBytes / 8 / RelayWorld::kWindowBytes;
  Random random(TestSeed());
  MemoryBudget memory(kMemoryBytes);
  SharedBudget windows(kMemoryBytes / 2);
  std::vector<std::unique_ptr<RelayWorld>> worlds;
  for (std::size_t number = 0; number < kClients; ++number) {
    worlds.push_back(std::make_unique<RelayWorld>(
        RelayWorldOptions{.has_tls = has_tls(),
                          .memory = &memory,
                          .windows = &windows,
                          .number = static_cast<std::uint8_t>(number + 1)}));
    RelayWorld& world = *worlds.back();
    world.AddClient();
    const std::int32_t stream = world.client->Call("/echo", RandomBytes(random, 1'500'000), false);
    world.Run();
    EXPECT_EQ(world.metrics().Refused(RefusedCallReason::kNoMemory).value(), 0u) << number;
    EXPECT_EQ(world.client->call(stream).body.size(), 1'500'000u);
  }
  EXPECT_GT(memory.used_bytes(), kMemoryBytes / 2);
  worlds.clear();
  EXPECT_EQ(memory.used_bytes(), 0u);
  EXPECT_EQ(windows.total().used_bytes(), 0u);
}

// What comes of a front is of many, and is divided there.
TEST_P(RelayWindowsTest, BehindFrontsNobodyIsKeptToHisPart) {
  Random random(TestSeed());
  world_.options().is_behind_fronts = true;
  const std::size_t limit_bytes = world_.windows().total().limit_bytes();
  const auto other = world_.windows().ShareOf(1);
  other->Take(limit_bytes / 8);
  for (int grown = 0; grown < 80; ++grown) {
    const std::int32_t stream = world_.client->Call("/echo", RandomBytes(random, 500'000), false);
    world_.Run();
    ASSERT_EQ(world_.client->call(stream).body.size(), 500'000u);
  }
  EXPECT_GT(world_.windows().total().used_bytes(), limit_bytes / 4 * 3);
  other->GiveBack(limit_bytes / 8);
}

TEST_P(RelayWindowsTest, WithoutMemoryACallIsRefused) {
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

// A connection's window is given back before half of it is used up by those that stand: else the
// last one that goes on would wait for them, too.
TEST_P(RelayWindowsTest, WhoGoesOnBesideManyThatStandGoesOnForEver) {
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

TEST_P(RelayWindowsTest, AnAnswerBesideManyThatAreNotReadGoesOnForEver) {
  for (int held = 0; held < 40; ++held) {
    world_.client->call(world_.client->Call("/big", "")).is_held = true;
    world_.Run();
  }
  const std::int32_t stream = world_.client->Call("/big", "");
  world_.Run();
  EXPECT_EQ(world_.client->call(stream).body.size(), std::size_t{1} << 20);
}

// What nobody takes any more is given back to who has sent it: else a connection's window would
// become less with each call, until it stands.
TEST_P(RelayWindowsTest, ARequestThatIsNotTakenIsGivenBack) {
  Random random(TestSeed());
  const std::string body = RandomBytes(random, 400'000);
  for (int round = 0; round < 60; ++round) {
    const std::int32_t stream = world_.client->Call("/hold", body, false);
    world_.Run();
    ASSERT_GT(world_.pool().used_bytes(), 0u);
    world_.server().Reset(stream, NGHTTP2_CANCEL);
    world_.Run();
  }
  const std::int32_t stream = world_.client->Call("/echo", body);
  world_.Run();
  EXPECT_TRUE(world_.client->call(stream).body == body);
}

// The same of what comes with a call that is refused.
TEST_P(RelayWindowsTest, ARequestThatIsRefusedIsGivenBack) {
  RelayWorld world;
  SendRaw(world.client_socket(), RawBeginning());
  const std::string data(16'000, 'x');
  std::uint32_t stream = 1;
  world.takes_connections = false;
  for (; stream < 401; stream += 2) {
    SendRaw(world.client_socket(), RawRequest(stream, "/count", false) +
                                       RawFrame(kRawData, 0, stream, data) +
                                       RawFrame(kRawData, 0, stream, data));
    world.Run();
    ASSERT_FALSE(world.relay().is_done()) << stream;
  }
  world.takes_connections = true;
  SendRaw(world.client_socket(),
          RawRequest(stream, "/count", false) + RawFrame(kRawData, kRawEndStream, stream, data));
  world.Run();
  ASSERT_FALSE(world.relay().is_done());
  EXPECT_EQ(world.server().call(world.server().last_stream()).body.size(), data.size());
}

// And of an answer that its client does not want any more.
TEST_P(RelayWindowsTest, AnAnswerThatIsNotTakenIsGivenBack) {
  RelayWorld world;
  world.SetServerWindow(1'000'000);
  world.AddClient();
  for (int round = 0; round < 60; ++round) {
    const std::int32_t stream = world.client->Call("/big", "");
    world.client->call(stream).is_held = true;
    world.Run();
    world.client->Reset(stream, NGHTTP2_CANCEL);
    world.Pass(seconds(2));
  }
  const std::int32_t stream = world.client->Call("/big", "");
  world.Run();
  EXPECT_EQ(world.client->call(stream).body.size(), std::size_t{1} << 20);
}

// Windows are given to calls, and back, in any order: what goes on has its own all the time.
TEST_P(RelayWindowsTest, WindowsComeAndGoAndNobodyWaitsForThem) {
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

// A frame more at most: windows are not given back for what waits for a socket.
TEST_P(RelayWindowsTest, WhatIsAheadOfASocketIsBounded) {
  RelayWorld world(RelayWorldOptions{.has_small_client_socket = true});
  world.AddClient(2 * kMiB);
  for (int count = 0; count < 10; ++count) world.client->Call("/big", "");
  while (!world.relay().is_client_waiting_to_write()) world.Step();
  world.moves_client = false;
  world.Run();
  EXPECT_LE(world.pool().used_bytes(), 3 * kMiB);
}

// The window of a connection is not used up by what stands around data.
TEST_P(RelayWindowsTest, PaddingIsGivenBack) {
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
TEST_P(RelayWindowsTest, WhatWasOfAServerThatIsGoneIsNotOfTheNext) {
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

INSTANTIATE_TEST_SUITE_P(Wires, RelayWindowsTest, testing::Bool(), RelayWindowsTest::NameOf);

}  // namespace
}  // namespace kerf::door
