// Where buckets are found, and where one may be made, when some are lost: the script against its
// rule, on a real Redis.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "server/redis/redis_client.h"
#include "server/redis/scripts.h"
#include "server/redis/testing/test_redis.h"

namespace kerf {
namespace {

constexpr char kBase[] = "k:{t:0}";
constexpr char kLongest[] = "p:{t:0}";
constexpr char kHead[] = "m:{t:0}";

class FindScriptTest : public testing::Test {
 protected:
  RedisReply Ask(std::vector<std::string> arguments) {
    std::promise<absl::StatusOr<RedisReply>> answer;
    client_->Send({kBase, std::nullopt, std::move(arguments)},
                  [&](const absl::StatusOr<RedisReply>& reply) { answer.set_value(reply); });
    const absl::StatusOr<RedisReply> reply = answer.get_future().get();
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : RedisReply();
  }
  // In place of what was there.
  void Fill(const std::set<std::string>& paths, std::size_t longest) {
    redis_.Flush();
    Ask({"SET", kLongest, Cat(longest)});
    for (const std::string& path : paths) Ask({"HSET", kBase + path, "e", "1"});
  }
  std::vector<std::int64_t> Find(const std::vector<std::string>& paths) {
    std::vector<std::string> command = {
        "EVAL", std::string(redis_scripts::kFind), "3", kBase, kLongest, kHead};
    command.insert(command.end(), paths.begin(), paths.end());
    const RedisReply reply = Ask(std::move(command));
    // Behind them what a head says.
    EXPECT_EQ(reply.elements.size(), paths.size() + 3) << reply.text;
    std::vector<std::int64_t> found;
    for (std::size_t at = 0; at < paths.size() && at < reply.elements.size(); ++at) {
      found.push_back(reply.elements[at].integer);
    }
    return found;
  }
  static std::string DrawPath(Random& random, std::size_t length) {
    std::string path(length, '0');
    for (char& letter : path) letter = random.OneIn(2) ? '1' : '0';
    return path;
  }

  TestRedis redis_{TestRedis::Kind::kSingle};
  const std::unique_ptr<RedisClient> client_ = *RedisClient::Create(redis_.options());
};

// As the script says it, looking at everything.
std::int64_t FoundIn(const std::set<std::string>& there, std::size_t longest,
                     const std::string& path) {
  for (std::size_t bits = 0; bits <= std::min(path.size(), longest); ++bits) {
    if (there.contains(path.substr(0, bits))) return static_cast<std::int64_t>(bits);
  }
  for (std::size_t bits = 0;; ++bits) {
    const std::string prefix = path.substr(0, bits);
    const auto behind = there.lower_bound(prefix);
    if (behind == there.end() || !behind->starts_with(prefix)) {
      return -1 - static_cast<std::int64_t>(bits);
    }
  }
}

TEST_F(FindScriptTest, TheShortestPathBehindWhichThereIsNoBucketMayBeMade) {
  Random random(TestSeed());
  for (int round = 0; round < 60; ++round) {
    // All that splits have made, ...
    std::set<std::string> paths = {""};
    for (std::uint64_t split = random.Below(12); split > 0; --split) {
      const std::string path =
          *std::next(paths.begin(), static_cast<std::ptrdiff_t>(random.Below(paths.size())));
      if (path.size() == 7) continue;
      paths.erase(path);
      paths.insert({path + "0", path + "1"});
    }
    std::size_t longest = 0;
    for (const std::string& path : paths) longest = std::max(longest, path.size());
    // ... less what is lost.
    std::erase_if(paths, [&](const std::string&) { return random.OneIn(3); });
    Fill(paths, longest);
    std::vector<std::string> asked;
    std::vector<std::int64_t> expected;
    for (int number = 0; number < 20; ++number) {
      asked.push_back(DrawPath(random, 8));
      expected.push_back(FoundIn(paths, longest, asked.back()));
    }
    EXPECT_EQ(Find(asked), expected);
  }
}

// Buckets are as deep as they may be beside one that is lost, as where somebody has made up
// digests: nobody is refused for it, nor held up, and no bucket is hidden.
TEST_F(FindScriptTest, BesideDeepBucketsALostOneIsMadeAllTheSame) {
  constexpr std::size_t kDeep = 24;
  Random random(TestSeed());
  std::set<std::string> there;
  std::string path = "1";
  for (; path.size() < kDeep; path += '1') there.insert(path + "0");
  there.insert(path);
  Fill(there, kDeep);
  constexpr int kAsked = 200;
  std::vector<std::string> asked;
  asked.reserve(kAsked);
  for (int number = 0; number < kAsked; ++number)
    asked.push_back("0" + DrawPath(random, kDeep - 1));
  const std::vector<std::int64_t> found = Find(asked);
  for (std::size_t number = 0; number < asked.size(); ++number) {
    EXPECT_LE(found[number], -2) << "there is a bucket behind the empty path";
    EXPECT_GE(found[number], -1 - static_cast<std::int64_t>(kDeep));
  }
  // One may be made there, by the script that makes it.
  const std::string made = asked[0].substr(0, static_cast<std::size_t>(-1 - found[0]));
  const RedisReply changed = Ask({"EVAL", std::string(redis_scripts::kChange), "3", kBase + made,
                                  kLongest, kHead, "", "epoch", "", "", "", "field", "", "value"});
  ASSERT_EQ(changed.elements.size(), 2u) << changed.text;
  EXPECT_EQ(changed.elements[0].integer, 1);
  EXPECT_EQ(Find({asked[0]})[0], static_cast<std::int64_t>(made.size()));
  EXPECT_EQ(Find({std::string(kDeep, '1')})[0], static_cast<std::int64_t>(kDeep));
}

}  // namespace
}  // namespace kerf
