#include "server/redis/topology.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "base/test_seed.h"

namespace kerf::redis {
namespace {

const std::vector<RedisAddress> kSeeds = {{"a", 1}, {"b", 2}, {"c", 3}};

RedisReply Error(std::string text) {
  RedisReply reply;
  reply.kind = RedisReply::Kind::kError;
  reply.text = std::move(text);
  return reply;
}

TEST(TopologyTest, AsksOneNodeAfterTheOther) {
  Topology topology(kSeeds);
  EXPECT_EQ(topology.MasterOf(7), std::nullopt);
  std::set<RedisAddress> asked;
  for (std::uint64_t question = 1; question <= kSeeds.size(); ++question) {
    asked.insert(topology.Ask());
    EXPECT_TRUE(topology.is_asking());
    EXPECT_EQ(topology.question(), question);
    EXPECT_TRUE(topology.Failed("it is gone", false).ok());
    EXPECT_FALSE(topology.is_asking());
    EXPECT_EQ(topology.error(), "it is gone");
  }
  EXPECT_EQ(asked.size(), kSeeds.size());
}

// One that lets nobody in says nothing of the others.
TEST(TopologyTest, IsForbiddenOnceAllHaveBeenAsked) {
  Topology topology(kSeeds);
  topology.Ask();
  EXPECT_TRUE(topology.Failed("a: NOAUTH", true).ok());
  topology.Ask();
  EXPECT_TRUE(topology.Failed("b: it is gone", false).ok());
  topology.Ask();
  const absl::Status status = topology.Failed("c: it is gone", false);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_EQ(status.message(), "a: NOAUTH");
  // The next turn begins anew.
  for (std::size_t at = 0; at < 2 * kSeeds.size(); ++at) {
    topology.Ask();
    EXPECT_TRUE(topology.Failed("it is gone", false).ok());
  }
}

TEST(TopologyTest, AnAnswerEndsATurn) {
  Topology topology(kSeeds);
  topology.Ask();
  EXPECT_TRUE(topology.Failed("a: NOAUTH", true).ok());
  const RedisAddress asked = topology.Ask();
  EXPECT_FALSE(topology.Answered(Error("LOADING"), asked));
  EXPECT_TRUE(topology.is_asking());
  EXPECT_TRUE(topology.Answered(Error("ERR This instance has cluster support disabled"), asked));
  EXPECT_FALSE(topology.is_asking());
  EXPECT_EQ(topology.MasterOf(7), asked);
  EXPECT_EQ(topology.masters(), std::vector<RedisAddress>{asked});
  for (std::size_t at = 0; at < 2 * kSeeds.size(); ++at) {
    topology.Ask();
    EXPECT_TRUE(topology.Failed("it is gone", false).ok());
  }
  // A redirect says that it is no single one.
  topology.Learn(7, {"d", 4});
  EXPECT_EQ(topology.MasterOf(7), (RedisAddress{"d", 4}));
  EXPECT_EQ(topology.MasterOf(8), std::nullopt);
}

RedisReply Integer(std::int64_t value) { return {RedisReply::Kind::kInteger, value, "", {}}; }
RedisReply Text(const std::string& text) { return {RedisReply::Kind::kText, 0, text, {}}; }
RedisReply Array(std::vector<RedisReply> elements) {
  return {RedisReply::Kind::kArray, 0, "", std::move(elements)};
}

// All slots of one master and its replica.
RedisReply MapOf(const std::string& master_id, const std::string& replica_id) {
  return Array({Array({Integer(0), Integer(16'383), Array({Text("m"), Integer(1), Text(master_id)}),
                       Array({Text("r"), Integer(1), Text(replica_id)})})});
}

TEST(TopologyTest, OfEachMasterThereIsASlot) {
  Topology topology(kSeeds);
  std::minstd_rand random(static_cast<unsigned>(TestSeed()));
  EXPECT_TRUE(topology.SlotOfEach(random).empty());
  const auto range = [](int first, int last, const std::string& host) {
    return Array({Integer(first), Integer(last), Array({Text(host), Integer(1), Text(host)})});
  };
  ASSERT_TRUE(topology.Answered(Array({range(0, 99, "m"), range(100, 100, "n"),
                                       range(101, 16'000, "m"), range(16'100, 16'383, "o")}),
                                topology.Ask()));
  std::set<RedisAddress> masters;
  std::set<std::uint16_t> drawn;
  for (int times = 0; times < 10; ++times) {
    const std::vector<MasterSlot> slots = topology.SlotOfEach(random);
    EXPECT_EQ(slots.size(), 3u);
    for (const MasterSlot& of : slots) {
      EXPECT_EQ(of.master, topology.MasterOf(of.slot));
      masters.insert(of.master);
      drawn.insert(of.slot);
    }
  }
  EXPECT_EQ(masters, (std::set<RedisAddress>{{"m", 1}, {"n", 1}, {"o", 1}}));
  // One that moves is not drawn each time.
  EXPECT_GT(drawn.size(), 6u);
  // One whose slots have all gone to others has none.
  topology.Learn(100, {"o", 1});
  EXPECT_EQ(topology.SlotOfEach(random).size(), 2u);
}

TEST(TopologyTest, OfASingleRedisAnySlotIsTheRight) {
  Topology topology(kSeeds);
  const RedisReply single = Error("ERR This instance has cluster support disabled");
  ASSERT_TRUE(topology.Answered(single, topology.Ask()));
  std::minstd_rand random(static_cast<unsigned>(TestSeed()));
  ASSERT_EQ(topology.SlotOfEach(random).size(), 1u);
  EXPECT_EQ(topology.SlotOfEach(random).front().master, topology.masters().front());
}

TEST(TopologyTest, AStrangersAnswerChangesNothing) {
  Topology topology(kSeeds);
  const RedisReply single = Error("ERR This instance has cluster support disabled");
  EXPECT_EQ(topology.StrangerIn(single), "");
  ASSERT_TRUE(topology.Answered(MapOf("a", "b"), topology.Ask()));
  EXPECT_TRUE(topology.is_cluster());
  const RedisAddress master{"m", 1};
  for (const bool may_be_others : {false, true}) {
    const RedisAddress asked = topology.Ask();
    EXPECT_NE(topology.StrangerIn(single), "");
    EXPECT_FALSE(topology.Answered(single, asked, may_be_others));
    EXPECT_TRUE(topology.is_asking());
    EXPECT_TRUE(topology.Failed("a stranger", false).ok());
    EXPECT_EQ(topology.MasterOf(7), master);
    EXPECT_FALSE(topology.is_single());
  }
  EXPECT_NE(topology.StrangerIn(MapOf("c", "d")), "");
  EXPECT_FALSE(topology.Answered(MapOf("c", "d"), topology.Ask()));
  EXPECT_TRUE(topology.Failed("a stranger", false).ok());
  // Nodes come and go one by one, as those know who stay.
  EXPECT_EQ(topology.StrangerIn(MapOf("b", "c")), "");
  ASSERT_TRUE(topology.Answered(MapOf("b", "c"), topology.Ask()));
  EXPECT_NE(topology.StrangerIn(MapOf("a", "d")), "");
  // Nobody else has answered for long: it was made anew.
  ASSERT_TRUE(topology.Answered(MapOf("a", "d"), topology.Ask(), /*may_be_others=*/true));
  EXPECT_EQ(topology.StrangerIn(MapOf("a", "x")), "");
  // One that says no ids cannot be told.
  EXPECT_EQ(topology.StrangerIn(MapOf("", "")), "");
}

TEST(TopologyTest, ATurnHasFailedOnceAllWereAskedInVain) {
  Topology topology(kSeeds);
  for (std::size_t at = 0; at < kSeeds.size(); ++at) {
    EXPECT_FALSE(topology.has_turn_failed());
    topology.Ask();
    EXPECT_TRUE(topology.Failed("it is gone", false).ok());
  }
  EXPECT_TRUE(topology.has_turn_failed());
  ASSERT_TRUE(topology.Answered(MapOf("a", "b"), topology.Ask()));
  EXPECT_FALSE(topology.has_turn_failed());
}

}  // namespace
}  // namespace kerf::redis
