#include "server/redis/topology.h"

#include <gtest/gtest.h>

#include <set>

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

}  // namespace
}  // namespace kerf::redis
