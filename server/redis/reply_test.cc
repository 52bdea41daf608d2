#include "server/redis/reply.h"

#include <gtest/gtest.h>

namespace kerf {
namespace {

using Action = RedisErrorMeaning::Action;
using Kind = RedisReply::Kind;

const RedisAddress kAsked{"10.0.0.1", 7000};

RedisReply Integer(std::int64_t value) { return {Kind::kInteger, value, "", {}}; }
RedisReply Text(const std::string& text) { return {Kind::kText, 0, text, {}}; }
RedisReply Array(std::vector<RedisReply> elements) {
  return {Kind::kArray, 0, "", std::move(elements)};
}

TEST(RedisErrors, SayWhereTheSlotIs) {
  const RedisErrorMeaning moved = MeaningOf("MOVED 3999 127.0.0.1:6381", kAsked);
  EXPECT_EQ(moved.action, Action::kMoved);
  EXPECT_EQ(moved.target, (RedisAddress{"127.0.0.1", 6381}));
  const RedisErrorMeaning ask = MeaningOf("ASK 3999 fe80::1:6381", kAsked);
  EXPECT_EQ(ask.action, Action::kAsk);
  EXPECT_EQ(ask.target, (RedisAddress{"fe80::1", 6381}));
  // A node that does not know its own address.
  EXPECT_EQ(MeaningOf("MOVED 3999 :6381", kAsked).target, (RedisAddress{"10.0.0.1", 6381}));
  for (const char* broken : {"MOVED", "MOVED 1", "MOVED 1 host", "MOVED 1 host:", "ASK 1 host:0",
                             "MOVED 1 host:65536", "MOVED 1 host:1x"}) {
    EXPECT_EQ(MeaningOf(broken, kAsked).action, Action::kRetry) << broken;
  }
}

TEST(RedisErrors, ThatPassAreToldFromThoseThatStay) {
  for (const char* passing : {"TRYAGAIN Multiple keys request during rehashing of slot",
                              "CLUSTERDOWN The cluster is down", "LOADING Redis is loading",
                              "MASTERDOWN Link with MASTER is down",
                              "READONLY You can't write against a read only replica.",
                              "ERR max number of clients reached"}) {
    EXPECT_EQ(MeaningOf(passing, kAsked).action, Action::kRetry) << passing;
  }
  for (const char* forbidden : {"NOAUTH Authentication required.", "WRONGPASS invalid",
                                "NOPERM this user has no permissions", "DENIED Redis is running"}) {
    EXPECT_EQ(MeaningOf(forbidden, kAsked).action, Action::kForbidden) << forbidden;
  }
  for (const char* answer : {"ERR unknown command", "WRONGTYPE Operation", "NOSCRIPT No matching",
                             "OOM command not allowed", ""}) {
    EXPECT_EQ(MeaningOf(answer, kAsked).action, Action::kAnswer) << answer;
  }
}

TEST(ClusterSlots, AreRangesOfMasters) {
  const RedisReply reply = Array({
      Array({Integer(0), Integer(100), Array({Text("a"), Integer(1), Text("id")}),
             Array({Text("replica"), Integer(9)})}),
      Array({Integer(101), Integer(16383), Array({Text(""), Integer(2)})}),
  });
  const auto ranges = ParseClusterSlots(reply, kAsked);
  ASSERT_TRUE(ranges.ok());
  ASSERT_EQ(ranges->size(), 2u);
  EXPECT_EQ((*ranges)[0].last, 100);
  EXPECT_EQ((*ranges)[0].master, (RedisAddress{"a", 1}));
  EXPECT_EQ((*ranges)[1].master, (RedisAddress{"10.0.0.1", 2}));
}

TEST(ClusterSlots, OfAMasterWithoutAPortAreNobodys) {
  const RedisReply reply =
      Array({Array({Integer(0), Integer(100), Array({Text("a"), Integer(0)})}),
             Array({Integer(101), Integer(200), Array({Text("b"), Integer(2)})})});
  const auto ranges = ParseClusterSlots(reply, kAsked);
  ASSERT_TRUE(ranges.ok());
  ASSERT_EQ(ranges->size(), 1u);
  EXPECT_EQ((*ranges)[0].first, 101);
}

TEST(ClusterSlots, AreNothingElse) {
  const RedisReply node = Array({Text("a"), Integer(1)});
  for (const RedisReply& broken :
       {Text("x"), Array({Text("x")}), Array({Array({Integer(0), Integer(1)})}),
        Array({Array({Integer(0), Integer(16384), node})}),
        Array({Array({Integer(5), Integer(4), node})}),
        Array({Array({Integer(-1), Integer(4), node})}),
        Array({Array({Text("0"), Integer(4), node})}),
        Array({Array({Integer(0), Integer(4), Text("a")})}),
        Array({Array({Integer(0), Integer(4), Array({Text("a"), Integer(-1)})})}),
        Array({Array({Integer(0), Integer(4), Array({Text("a"), Text("1")})})}),
        Array({Array({Integer(0), Integer(4), Array({Text("a"), Integer(65536)})})})}) {
    EXPECT_TRUE(absl::IsDataLoss(ParseClusterSlots(broken, kAsked).status()));
  }
}

TEST(RedisAddressTest, IsHostAndPort) {
  EXPECT_EQ(*ParseRedisAddress("redis-0.redis:6379"), (RedisAddress{"redis-0.redis", 6379}));
  EXPECT_EQ(*ParseRedisAddress("[::1]:1"), (RedisAddress{"::1", 1}));
  EXPECT_EQ(FormatRedisAddress({"::1", 1}), "[::1]:1");
  for (const char* broken :
       {"", "host", ":1", "host:", "host:0", "host:65536", "host:1 ", "::1:1", "[]:1", "host:-1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseRedisAddress(broken).status())) << broken;
  }
}

}  // namespace
}  // namespace kerf
