// What Redis does in one step with buckets and their heads: each comparison of these scripts, on a
// real Redis (docs/adr/0022). What `e` and the entries are none of them knows.
#include "server/redis/head_scripts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "server/redis/redis_client.h"
#include "server/redis/scripts.h"
#include "server/redis/slot.h"
#include "server/redis/testing/test_redis.h"

namespace kerf {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

const std::string kBase = "k:{t:0}";
const std::string kLongest = "p:{t:0}";
const std::string kHead = "m:{t:0}";

using Fields = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

class HeadScriptsTest : public testing::Test {
 protected:
  RedisReply Ask(Words arguments) {
    std::promise<absl::StatusOr<RedisReply>> answer;
    client_->Send({kBase, std::nullopt, std::move(arguments)},
                  [&](const absl::StatusOr<RedisReply>& reply) { answer.set_value(reply); });
    const absl::StatusOr<RedisReply> reply = answer.get_future().get();
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : RedisReply();
  }
  RedisReply Run(std::string_view script, const Words& keys, const Words& arguments) {
    Words command = {"EVAL", std::string(script), Cat(keys.size())};
    command.insert(command.end(), keys.begin(), keys.end());
    command.insert(command.end(), arguments.begin(), arguments.end());
    return Ask(std::move(command));
  }
  static Words WordsOf(const RedisReply& reply) {
    if (reply.kind == RedisReply::Kind::kInteger) return {Cat(reply.integer)};
    if (reply.kind != RedisReply::Kind::kArray) return {reply.text};
    Words words;
    for (const RedisReply& element : reply.elements) words.push_back(WordsOf(element).front());
    return words;
  }
  // Of the bucket of that path. Behind its head's new `e` stands that with one loss more.
  Words Change(Words arguments, const std::string& path = "") {
    arguments.insert(arguments.begin() + 4, "lost");
    return WordsOf(Run(redis_scripts::kChange, {kBase + path, kLongest, kHead}, arguments));
  }
  std::string Believe(Words arguments, const std::string& path = "") {
    arguments.insert(arguments.begin() + 3, "lost");
    const Words keys = {kBase + path, kLongest, kHead};
    return WordsOf(Run(redis_scripts::kBelieve, keys, arguments)).front();
  }
  std::string OfBase(std::string_view script, const Words& arguments) {
    return WordsOf(Run(script, {kBase, kLongest, kHead}, arguments)).front();
  }
  Fields At(const std::string& key) {
    const RedisReply reply = Ask({"HGETALL", key});
    Fields fields;
    for (std::size_t at = 0; at + 1 < reply.elements.size(); at += 2) {
      fields[reply.elements[at].text] = reply.elements[at + 1].text;
    }
    return fields;
  }
  void Put(const std::string& key, const Fields& fields) {
    Words command = {"HSET", key};
    for (const auto& [field, value] : fields) command.insert(command.end(), {field, value});
    Ask(std::move(command));
  }
  // In place of what was there.
  void Have(const Fields& bucket, const Fields& head) {
    redis_.Flush();
    if (!bucket.empty()) Put(kBase, bucket);
    if (!head.empty()) Put(kHead, head);
  }
  // Two buckets of three paths below a base bucket.
  void HaveTwo(const Fields& head) {
    Have({}, head);
    Ask({"SET", kLongest, "2"});
    Put(kBase + "0", {{"e", "a"}, {"x", "1"}});
    Put(kBase + "10", {{"e", "b"}, {"y", "1"}, {"z", "2"}});
  }
  void BeFull(bool is_full) { Ask({"CONFIG", "SET", "maxmemory", is_full ? "1" : "0"}); }

  const Fields kBucketOfTwo = {{"e", "b"}, {"x", "1"}, {"y", "2"}};
  const Fields kHeadOfTwo = {{"e", "h"}, {"n", "2"}};
  TestRedis redis_{TestRedis::Kind::kSingle};
  const std::unique_ptr<RedisClient> client_ = *RedisClient::Create(redis_.options());
};

TEST_F(HeadScriptsTest, AChangeIsMadeWhereBucketHeadAndEntriesAreWhatWasRead) {
  Have(kBucketOfTwo, kHeadOfTwo);
  EXPECT_THAT(Change({"other", "b2", "h", "h", "x", "1", "11"}), ElementsAre("0", "0"));
  EXPECT_THAT(Change({"b", "b2", "older", "older", "x", "1", "11"}), ElementsAre("0", "0"));
  EXPECT_THAT(Change({"b", "b2", "", "", "x", "1", "11"}), ElementsAre("0", "0"));
  EXPECT_THAT(Change({"b", "b2", "h", "h", "y", "2", "3", "x", "9", "11"}), ElementsAre("0", "0"));
  EXPECT_EQ(At(kBase), kBucketOfTwo);
  EXPECT_EQ(At(kHead), kHeadOfTwo);
  EXPECT_THAT(Change({"b", "b2", "h", "h", "x", "1", "11"}), ElementsAre("1", "3"));
  EXPECT_EQ(At(kBase), (Fields{{"e", "b2"}, {"x", "11"}, {"y", "2"}}));
  EXPECT_EQ(At(kHead), kHeadOfTwo);
  // Its head is lost meanwhile: nobody makes one that way.
  Have({{"e", "b"}}, {});
  EXPECT_THAT(Change({"b", "b2", "h", "h", "x", "", "1"}), ElementsAre("0", "0"));
  EXPECT_EQ(At(kHead), Fields());
}

TEST_F(HeadScriptsTest, AHeadCountsWhatComesAndWhatGoes) {
  Have(kBucketOfTwo, kHeadOfTwo);
  EXPECT_THAT(Change({"b", "b", "h", "h", "z", "", "5"}), ElementsAre("1", "4"));
  EXPECT_EQ(At(kHead), (Fields{{"e", "h"}, {"n", "3"}}));
  // One comes, one goes, one stays, and one is not there and stays so.
  EXPECT_THAT(Change({"b", "b", "h", "h", "w", "", "5", "x", "1", "", "y", "2", "2", "v", "", ""}),
              ElementsAre("1", "4"));
  EXPECT_EQ(At(kHead), (Fields{{"e", "h"}, {"n", "3"}, {"x", "1"}}));
  EXPECT_THAT(Change({"b", "b", "h", "h", "y", "2", "", "z", "5", ""}), ElementsAre("1", "2"));
  EXPECT_EQ(At(kHead), (Fields{{"e", "h"}, {"n", "1"}, {"x", "3"}}));
  Put(kHead, {{"n", "0"}});
  EXPECT_THAT(Change({"b", "b", "h", "h", "w", "5", ""}), ElementsAre("1", "1"));
  EXPECT_EQ(At(kHead)["n"], "0");
}

// Somebody has written something else there: what is changed is changed as a whole all the same.
TEST_F(HeadScriptsTest, ACountThatIsNoneStaysUnknown) {
  for (const std::string none :
       {"", "many", "nan", "inf", "-inf", "1e300", "-7", "0x", "0x10", "9007199254740992"}) {
    Have(kBucketOfTwo, {{"e", "h"}, {"n", none}, {"x", none}});
    EXPECT_THAT(Change({"b", "b", "h", "h", "z", "", "5"}), ElementsAre("1", "4")) << none;
    EXPECT_EQ(At(kHead)["n"], "?") << none;
    EXPECT_THAT(Change({"b", "b", "h", "h", "y", "2", "", "z", "5", ""}), ElementsAre("1", "2"));
    EXPECT_EQ(At(kHead), (Fields{{"e", "h"}, {"n", "?"}, {"x", "?"}})) << none;
  }
}

// What is written there is no length, or none that a path can have: all is found all the same, and
// no script goes on without end.
TEST_F(HeadScriptsTest, ALongestPathThatIsNoneHidesNothing) {
  for (const std::string none : {"", "many", "nan", "inf", "-1", "1e9", "25", "1000000000"}) {
    HaveTwo({});
    Ask({"SET", kLongest, none});
    Put(kBase + "11", {{"e", "c"}});
    Put(kHead, {{"e", "h"}, {"n", "3"}});
    const Words keys = {kBase, kLongest, kHead};
    EXPECT_THAT(WordsOf(Run(redis_scripts::kFind, keys,
                            {std::string(24, '0'), "1" + std::string(23, '0')})),
                ElementsAre("1", "2", "h", "3", ""))
        << none;
    EXPECT_EQ(Believe({"a", "h", "a2", "x"}, "0"), "1") << none;
    EXPECT_THAT(Change({"a2", "a2", "h", "h", "w", "", "5"}, "0"), ElementsAre("1", "3")) << none;
    EXPECT_THAT(Change({"b", "b2", "h", "h", "w", "", "5"}, "10"), ElementsAre("1", "4")) << none;
    EXPECT_EQ(OfBase(redis_scripts::kRaise, {"h", "h2", "b", "0"}), "1") << none;
    EXPECT_EQ(At(kBase), Fields()) << none;
    const Words keys_of_split = {kBase + "0", kLongest, kBase + "00", kBase + "01"};
    EXPECT_EQ(WordsOf(Run(redis_scripts::kSplit, keys_of_split, {"0", "1", "1", "2", "h2", "h3"})),
              Words{"1"})
        << none;
    EXPECT_THAT(WordsOf(Run(redis_scripts::kWalk, keys, {})),
                ElementsAre("00", "a2", "2", "01", "a2", "0", "10", "b2", "3", "11", "c", "0", "h2",
                            "5", ""))
        << none;
  }
}

TEST_F(HeadScriptsTest, WithoutAHeadNothingIsCounted) {
  for (const Words& keys : {Words{kBase, kLongest}, Words{kBase, kLongest, kHead}}) {
    Have({{"e", "b"}, {"y", "2"}}, {});
    const RedisReply reply =
        Run(redis_scripts::kChange, keys, {"b", "b", "", "", "", "x", "", "1", "y", "2", ""});
    EXPECT_THAT(WordsOf(reply), ElementsAre("1", "2"));
    EXPECT_EQ(At(kHead), Fields());
  }
}

TEST_F(HeadScriptsTest, ABucketIsMadeWithItsHeadOnceAndOverNothing) {
  Have({}, {});
  EXPECT_THAT(Change({"", "b", "", "h", "x", "", "1"}), ElementsAre("1", "2"));
  EXPECT_EQ(At(kBase), (Fields{{"e", "b"}, {"x", "1"}}));
  EXPECT_EQ(At(kHead), (Fields{{"e", "h"}, {"n", "1"}}));
  EXPECT_THAT(Change({"", "b", "", "h", "x", "", "1"}), ElementsAre("0", "0"));
  EXPECT_EQ(At(kHead)["n"], "1");
  EXPECT_THAT(Change({"", "b", "h", "h"}, "0"), ElementsAre("0", "0")) << "one is above it";
  Have({}, {});
  Put(kBase + "01", {{"e", "b"}});
  Ask({"SET", kLongest, "2"});
  EXPECT_THAT(Change({"", "b", "", ""}), ElementsAre("0", "0")) << "one is below it";
  EXPECT_THAT(Change({"", "b", "", ""}, "00"), ElementsAre("1", "1"));
  // One that is lost below a head.
  Have({}, {{"e", "h"}, {"n", "7"}});
  EXPECT_THAT(Change({"", "b", "h", "lost", "x", "", "1"}), ElementsAre("1", "2"));
  EXPECT_EQ(At(kHead), (Fields{{"e", "lost"}, {"n", "8"}}));
}

TEST_F(HeadScriptsTest, ABucketIsRaisedWhereItAndItsHeadAreWhatWasRead) {
  Have({{"e", "b"}, {"x", "1"}}, {{"e", "h"}, {"n", "1"}, {"x", "2"}});
  EXPECT_EQ(Believe({"other", "h", "b2", "x"}), "0");
  EXPECT_EQ(Believe({"b", "older", "b2", "x"}), "0");
  EXPECT_EQ(At(kBase)["e"], "b");
  EXPECT_EQ(Believe({"b", "h", "b2", "x", "y"}), "1");
  EXPECT_EQ(At(kBase), (Fields{{"e", "b2"}, {"x", "1"}}));
  EXPECT_EQ(At(kHead), (Fields{{"e", "h"}, {"n", "1"}, {"x", "2"}}));
  EXPECT_EQ(Believe({"b", "h", "b2", "x"}), "0");
  Have({}, {{"e", "h"}});
  EXPECT_EQ(Believe({"b", "h", "b2", "x"}), "0");
  EXPECT_EQ(At(kBase), Fields());
  Have({{"e", "b"}}, {});
  EXPECT_EQ(Believe({"b", "h", "b2", "x"}), "0");
}

// Somebody remembers its path, and another one was made above it.
TEST_F(HeadScriptsTest, ABucketThatIsHiddenGetsNothingFromItsHead) {
  HaveTwo(kHeadOfTwo);
  Put(kBase, {{"e", "a"}});
  const auto believe = [&] { return Believe({"b", "h", "b2", "y"}, "10"); };
  EXPECT_EQ(believe(), "0");
  EXPECT_THAT(Change({"b", "b2", "h", "h", "w", "", "1"}, "10"), ElementsAre("0", "0"));
  EXPECT_EQ(At(kBase + "10"), (Fields{{"e", "b"}, {"y", "1"}, {"z", "2"}}));
  Ask({"DEL", kBase});
  Put(kBase + "1", {{"e", "a"}});
  EXPECT_EQ(believe(), "0");
  Ask({"DEL", kBase + "1"});
  EXPECT_THAT(Change({"b", "b3", "h", "h", "w", "", "1"}, "10"), ElementsAre("1", "4"));
  EXPECT_EQ(At(kBase + "10")["e"], "b3");
  Put(kBase + "10", {{"e", "b"}});
  EXPECT_EQ(believe(), "1");
  EXPECT_EQ(At(kBase + "10")["e"], "b2");
}

// One has come back where it was split meanwhile, or was made where others are not found any more:
// nobody can tell which of them is older, so nothing of either is believed.
TEST_F(HeadScriptsTest, ABucketAboveOthersIsEmptiedWhereItsHeadWouldVouchForIt) {
  const auto have_both = [&] {
    Have({}, kHeadOfTwo);
    Ask({"SET", kLongest, "3"});
    Put(kBase + "0", {{"e", "a"}, {"v", "1"}});
    Put(kBase + "1", {{"e", "b"}, {"x", "1"}});
    Put(kBase + "100", {{"e", "a"}, {"y", "1"}});
    Put(kBase + "11", {{"e", "a"}, {"z", "1"}});
  };
  const auto expect_emptied = [&](const std::string& epoch) {
    EXPECT_EQ(At(kBase + "1"), (Fields{{"e", epoch}}));
    EXPECT_EQ(At(kBase + "100"), Fields());
    EXPECT_EQ(At(kBase + "11"), Fields());
    EXPECT_EQ(At(kHead), (Fields{{"e", "lost"}, {"n", "2"}}));
    EXPECT_EQ(At(kBase + "0"), (Fields{{"e", "a"}, {"v", "1"}}));
  };
  have_both();
  EXPECT_EQ(Believe({"b", "h", "b2", "x"}, "1"), "0");
  expect_emptied("b2");
  have_both();
  EXPECT_THAT(Change({"b", "b2", "h", "h", "x", "1", ""}, "1"), ElementsAre("0", "0"));
  expect_emptied("b2");
  have_both();
  BeFull(true);
  EXPECT_EQ(Believe({"b", "h", "b2", "x"}, "1"), "0");
  BeFull(false);
  expect_emptied("b2");
  // What gets nothing from its head stays.
  have_both();
  EXPECT_THAT(Change({"b", "b", "h", "h", "x", "1", "2"}, "1"), ElementsAre("1", "2"));
  EXPECT_EQ(At(kBase + "100"), (Fields{{"e", "a"}, {"y", "1"}}));
  // Nor does it hand on what it has where it is split.
  const Words keys = {kBase + "1", kLongest, kBase + "10", kBase + "11"};
  const auto split = [&](const std::string& head) {
    return WordsOf(Run(redis_scripts::kSplit, keys, {"1", "1", "2", "2", head, "lost"}));
  };
  EXPECT_THAT(split("older"), ElementsAre("0"));
  EXPECT_EQ(At(kBase + "11"), (Fields{{"e", "a"}, {"z", "1"}}));
  EXPECT_THAT(split("h"), ElementsAre("0"));
  expect_emptied("b");
}

// From before it was known how long paths are; what is between a bucket and those that it is split
// into would be found in their place, as old as it is.
TEST_F(HeadScriptsTest, ASplitRemovesWhatIsHiddenUpToWhereItGoes) {
  Have({{"e", "b"}, {"x", "1"}, {"0", "2"}}, kHeadOfTwo);
  for (const std::string hidden : {"0", "01", "1"}) Put(kBase + hidden, {{"e", "a"}, {"y", "1"}});
  Put(kBase + "110", {{"e", "a"}});
  const Words keys = {kBase, kLongest, kBase + "00", kBase + "01", kBase + "10", kBase + "11"};
  // By the first two bits of a field: those of "x" are 01, of "0" 00.
  const RedisReply split = Run(redis_scripts::kSplit, keys, {"0", "2", "2", "2", "", ""});
  EXPECT_THAT(WordsOf(split), ElementsAre("1"));
  EXPECT_EQ(At(kBase), Fields());
  EXPECT_EQ(At(kBase + "0"), Fields());
  EXPECT_EQ(At(kBase + "1"), Fields());
  EXPECT_EQ(At(kBase + "00"), (Fields{{"e", "b"}, {"0", "2"}}));
  EXPECT_EQ(At(kBase + "01"), (Fields{{"e", "b"}, {"x", "1"}}));
  EXPECT_EQ(At(kBase + "11"), (Fields{{"e", "b"}}));
  // What is further down goes when one is split that is above it.
  EXPECT_EQ(At(kBase + "110"), (Fields{{"e", "a"}}));
}

TEST_F(HeadScriptsTest, AHeadIsRaisedAsItWasReadAndHasABucket) {
  const auto raise = [&](Words arguments) {
    arguments.emplace_back("lost");
    return OfBase(redis_scripts::kRaise, arguments);
  };
  Have({}, {});
  EXPECT_EQ(raise({"", "h", "b", "0"}), "1");
  EXPECT_EQ(At(kBase), (Fields{{"e", "b"}}));
  EXPECT_EQ(raise({"", "other", "b", "0"}), "0");
  EXPECT_EQ(raise({"h", "h2", "other", "0"}), "1");
  EXPECT_EQ(At(kBase), (Fields{{"e", "b"}}));
  // What has been removed goes on to count, or does not.
  Put(kHead, {{"n", "4"}, {"x", "3"}});
  EXPECT_EQ(raise({"h2", "h3", "b", "1"}), "1");
  EXPECT_EQ(At(kHead), (Fields{{"e", "h3"}, {"n", "4"}, {"x", "3"}}));
  EXPECT_EQ(raise({"h3", "h4", "b", "0"}), "1");
  EXPECT_EQ(At(kHead), (Fields{{"e", "h4"}, {"n", "4"}}));
  // No bucket is made over others; one that is lost is.
  HaveTwo({});
  EXPECT_EQ(raise({"", "h", "b", "0"}), "1");
  EXPECT_EQ(At(kBase), Fields());
  Have({}, {{"e", "h"}});
  EXPECT_EQ(raise({"h", "h2", "b", "0"}), "1");
  EXPECT_EQ(At(kBase), (Fields{{"e", "b"}}));
  EXPECT_EQ(At(kHead)["e"], "lost");
}

TEST_F(HeadScriptsTest, WhatLiesBelowAHeadIsCountedWhereAllOfItIsWhatWasRead) {
  const Words below = {"0", "a", "a2", "10", "b", "b2", "11", "", "c2"};
  const auto follow = [&](Words arguments) {
    arguments.insert(arguments.end(), below.begin(), below.end());
    return OfBase(redis_scripts::kFollow, arguments);
  };
  HaveTwo({});
  EXPECT_EQ(follow({"", "h", ""}), "1");
  EXPECT_EQ(At(kBase + "0")["e"], "a2");
  EXPECT_EQ(At(kBase + "10")["e"], "b2");
  EXPECT_EQ(At(kBase + "11"), (Fields{{"e", "c2"}}));
  EXPECT_EQ(At(kHead), (Fields{{"e", "h"}, {"n", "3"}}));
  EXPECT_EQ(follow({"", "h", ""}), "0");
  HaveTwo({{"e", "h"}, {"x", "5"}});
  EXPECT_EQ(follow({"", "h2", ""}), "0") << "another head";
  EXPECT_EQ(At(kBase + "0")["e"], "a");
  EXPECT_EQ(follow({"h", "h2", ""}), "1");
  EXPECT_EQ(At(kHead), (Fields{{"e", "h2"}, {"n", "3"}, {"x", "5"}}));
  HaveTwo({{"e", "h"}, {"x", "5"}});
  EXPECT_EQ(follow({"h", "h2", "7"}), "1");
  EXPECT_EQ(At(kHead)["x"], "7");
  // One that is to stay may be raised meanwhile, and not be split.
  const Words stays = {"h", "h2", "", "0", "a", "a", "10", "b", "b", "11", "", "c2"};
  HaveTwo(kHeadOfTwo);
  Put(kBase + "10", {{"e", "raised"}});
  EXPECT_EQ(OfBase(redis_scripts::kFollow, stays), "1");
  EXPECT_EQ(At(kBase + "10"), (Fields{{"e", "raised"}, {"y", "1"}, {"z", "2"}}));
  EXPECT_EQ(At(kBase + "11"), (Fields{{"e", "c2"}}));
  EXPECT_EQ(At(kHead), (Fields{{"e", "h2"}, {"n", "3"}}));
  HaveTwo(kHeadOfTwo);
  Ask({"DEL", kBase + "10"});
  EXPECT_EQ(OfBase(redis_scripts::kFollow, stays), "0");
  HaveTwo({});
  Put(kBase + "10", {{"e", "other"}});
  EXPECT_EQ(follow({"", "h", ""}), "0") << "another bucket";
  EXPECT_EQ(At(kBase + "0")["e"], "a");
  EXPECT_EQ(At(kHead), Fields());
  HaveTwo({});
  Put(kBase + "11", {{"e", "c"}});
  EXPECT_EQ(follow({"", "h", ""}), "0") << "one that was missing";
  HaveTwo({});
  Ask({"SET", kLongest, "3"});
  Put(kBase + "110", {{"e", "c"}});
  EXPECT_EQ(follow({"", "h", ""}), "0") << "one below what was missing";
  EXPECT_EQ(At(kBase + "11"), Fields());
}

TEST_F(HeadScriptsTest, ARedisThatIsFullTakesAllButEntries) {
  Have(kBucketOfTwo, kHeadOfTwo);
  BeFull(true);
  EXPECT_THAT(Change({"b", "b", "h", "h", "z", "", "5"}).front(), StartsWith("OOM"));
  EXPECT_THAT(Change({"b", "b", "h", "h", "y", "2", "1234567890"}).front(), StartsWith("OOM"));
  EXPECT_EQ(At(kHead), kHeadOfTwo);
  EXPECT_THAT(Change({"b", "b", "h", "h", "x", "1", ""}), ElementsAre("1", "2"));
  EXPECT_THAT(Change({"b", "b", "h", "h", "y", "2", "123456789"}), ElementsAre("1", "2"));
  EXPECT_EQ(At(kHead), (Fields{{"e", "h"}, {"n", "1"}, {"x", "1"}}));
  EXPECT_EQ(Believe({"b", "h", "b2", "y"}), "123456789");
  EXPECT_EQ(OfBase(redis_scripts::kRaise, {"h", "h2", "b", "1"}), "1");
  EXPECT_EQ(OfBase(redis_scripts::kRaise, {"h2", "h3", "b", "0"}), "1");
  EXPECT_EQ(OfBase(redis_scripts::kFollow, {"h3", "h4", "1", "", "b2", "b2"}), "1");
  BeFull(false);
}

TEST_F(HeadScriptsTest, WhoLooksAtBucketsSeesTheHeadAndOneIsMadeBelowNone) {
  Have({}, {{"e", "h"}, {"n", "9"}, {"x", "4"}});
  Put(kBase + "0", {{"e", "a"}, {"x", "1"}, {"y", "1"}});
  Ask({"SET", kLongest, "1"});
  const Words keys = {kBase, kLongest, kHead};
  const auto ask = [&](std::string_view script, const Words& arguments) {
    return WordsOf(Run(script, keys, arguments));
  };
  EXPECT_THAT(ask(redis_scripts::kWalk, {}),
              ElementsAre("0", "a", "2", "1", "", "0", "h", "9", "4"));
  EXPECT_THAT(ask(redis_scripts::kFind, {std::string(24, '0'), std::string(24, '1')}),
              ElementsAre("1", "-2", "h", "9", "4"));
  Ask({"DEL", kBase + "0"});
  EXPECT_THAT(ask(redis_scripts::kMake, {"e", "0"}), ElementsAre("0"));
  EXPECT_THAT(ask(redis_scripts::kWalk, {}), ElementsAre("h", "9", "4"));
  Ask({"DEL", kHead});
  EXPECT_THAT(ask(redis_scripts::kMake, {"e", "0"}), ElementsAre("1"));
  EXPECT_THAT(ask(redis_scripts::kFind, {std::string(24, '0')}), ElementsAre("0", "", "", ""));
  Put(kHead, {{"e", "h"}});
  EXPECT_THAT(ask(redis_scripts::kDrop, {}), ElementsAre("1", "0"));
  EXPECT_EQ(Ask({"DBSIZE"}).integer, 0);
  // Also what is hidden.
  HaveTwo(kHeadOfTwo);
  Put(kBase + "1", {{"e", "a"}});
  EXPECT_THAT(ask(redis_scripts::kDrop, {}), ElementsAre("3", "3"));
  EXPECT_EQ(Ask({"DBSIZE"}).integer, 0);
}

// The slot of a bucket moves that is hidden: the one that is found in its place may be at the other
// node by now. So as long as nobody can say that there is none, nobody raises it.
class MovingBucketTest : public testing::Test {
 protected:
  RedisReply Ask(RedisCommand command) {
    std::promise<absl::StatusOr<RedisReply>> answer;
    client_->Send(std::move(command),
                  [&](const absl::StatusOr<RedisReply>& reply) { answer.set_value(reply); });
    const absl::StatusOr<RedisReply> reply = answer.get_future().get();
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : RedisReply();
  }
  // Where the bucket is.
  RedisReply Run(std::string_view script, const Words& keys, const Words& arguments) {
    RedisCommand command{kBucket, std::nullopt, {"EVAL", std::string(script), Cat(keys.size())}};
    command.arguments.insert(command.arguments.end(), keys.begin(), keys.end());
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.waits_for_slot = false;
    return Ask(std::move(command));
  }
  RedisReply Believe() {
    return Run(redis_scripts::kBelieve, {kBucket, kLongest, kHead}, {"b", "h", "b2", "lost", "y"});
  }
  RedisReply Change() {
    return Run(redis_scripts::kChange, {kBucket, kLongest, kHead},
               {"b", "b2", "h", "h", "lost", "w", "", "1"});
  }
  void BeginMove() {
    owner_id_ = Ask({kBucket, std::nullopt, {"CLUSTER", "MYID"}}).text;
    std::promise<std::vector<RedisAddress>> masters;
    client_->ReadMasters([&](const auto& read) { masters.set_value(*read); });
    for (const RedisAddress& master : masters.get_future().get()) {
      const std::string id = Ask({"", master, {"CLUSTER", "MYID"}}).text;
      (id == owner_id_ ? owner_ : target_) = master;
      if (id != owner_id_) target_id_ = id;
    }
    Ask({"", target_, {"CLUSTER", "SETSLOT", kSlot, "IMPORTING", owner_id_}});
    Ask({"", owner_, {"CLUSTER", "SETSLOT", kSlot, "MIGRATING", target_id_}});
  }
  void Move(const std::string& key) {
    const RedisReply moved =
        Ask({"", owner_, {"MIGRATE", target_.host, Cat(target_.port), key, "0", "10000"}});
    EXPECT_EQ(moved.text, "OK");
  }
  void EndMove() {
    for (const RedisAddress& node : {target_, owner_}) {
      EXPECT_EQ(Ask({"", node, {"CLUSTER", "SETSLOT", kSlot, "NODE", target_id_}}).text, "OK");
    }
  }

  const std::string kBucket = kBase + "10";
  const std::string kAbove = kBase + "1";
  const std::string kSlot = Cat(RedisSlotOf(kBase));
  const TestRedis redis_{TestRedis::Kind::kCluster};
  const std::unique_ptr<RedisClient> client_ = *RedisClient::Create(redis_.options());
  std::string owner_id_;
  std::string target_id_;
  RedisAddress owner_;
  RedisAddress target_;
};

TEST_F(MovingBucketTest, ItGetsNothingFromItsHeadBeforeItsSlotHasMoved) {
  Ask({kBucket, std::nullopt, {"HSET", kBucket, "e", "b", "y", "1"}});
  Ask({kHead, std::nullopt, {"HSET", kHead, "e", "h"}});
  Ask({kLongest, std::nullopt, {"SET", kLongest, "2"}});
  Ask({kAbove, std::nullopt, {"HSET", kAbove, "e", "a"}});
  EXPECT_EQ(Believe().integer, 0);
  BeginMove();
  const auto expect_unsure = [&] {
    EXPECT_THAT(Believe().text, StartsWith("TRYAGAIN"));
    EXPECT_THAT(Change().text, StartsWith("TRYAGAIN"));
    EXPECT_EQ(Ask({kBucket, std::nullopt, {"HGET", kBucket, "e"}}).text, "b");
  };
  expect_unsure();
  Move(kAbove);
  expect_unsure();
  for (const std::string& key : {kBucket, kHead, kLongest}) Move(key);
  expect_unsure();
  EndMove();
  const RedisReply hidden = Believe();
  EXPECT_EQ(hidden.kind, RedisReply::Kind::kInteger) << hidden.text;
  EXPECT_EQ(hidden.integer, 0);
  Ask({kAbove, std::nullopt, {"DEL", kAbove}});
  EXPECT_EQ(Believe().kind, RedisReply::Kind::kArray);
  EXPECT_EQ(Ask({kBucket, std::nullopt, {"HGET", kBucket, "e"}}).text, "b2");
}

}  // namespace
}  // namespace kerf
