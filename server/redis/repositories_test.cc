// How many repositories a process remembers, and how it lists them, on a Redis that is made up.
#include "server/redis/repositories.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/wait_for.h"
#include "server/index/codec.h"
#include "server/redis/buckets.h"
#include "server/redis/listed_repositories.h"

namespace kerf {
namespace {

RedisReply Text(std::string text) {
  RedisReply reply;
  reply.kind = RedisReply::Kind::kText;
  reply.text = std::move(text);
  return reply;
}

// Has every repository that it is asked for: its name is the one that the test has said.
class MadeUpRedis final : public RedisClient {
 public:
  void Send(RedisCommand command, Done done) override {
    RedisReply reply;
    if (command.arguments[0] == "HEXISTS") {
      ++created_count;
      reply.kind = RedisReply::Kind::kInteger;
      return done(reply);
    }
    if (command.arguments[0] == "EVALSHA") {
      reply.kind = RedisReply::Kind::kInteger;
      return done(reply);
    }
    reply.kind = RedisReply::Kind::kArray;
    if (command.arguments[0] == "HGETALL") {
      ++list_count;
      for (const RepositoryId& id : listed) {
        reply.elements.push_back(
            Text(index_codec::RepositoryKey(index_codec::KeyKind::kCreated, id)));
        reply.elements.push_back(Text(""));
      }
      if (is_slow) return late.push_back([done, reply] { done(reply); });
      return done(reply);
    }
    ++read_count;
    reply.elements = {Text("2"), Text(name), Text("10"), {}, {}, {}, {}, {}, {}};
    done(reply);
  }
  void ReadMasters(MastersDone done, std::chrono::milliseconds) override {
    done(absl::UnavailableError(""));
  }
  void ReadSlots(SlotsDone done) override { done(absl::UnavailableError("")); }
  void Close() override {}
  void ExpectIdentity(std::vector<std::string>) override {}
  RedisCounters counters() const override { return {}; }
  std::optional<std::int64_t> certificate_expires_at_s() const override { return std::nullopt; }

  std::string name;
  int read_count = 0;
  // In the order in which Redis has them, which is none.
  std::vector<RepositoryId> listed;
  int list_count = 0;
  int created_count = 0;
  // What it says of the list comes when the test calls it.
  bool is_slow = false;
  std::vector<std::function<void()>> late;
};

class RepositoriesTest : public ::testing::Test {
 protected:
  RedisRepositoryPtr Load(std::uint64_t number) {
    redis_.name = Cat("photos-", number);
    auto repository =
        WaitFor(repositories_.Load({redis_.name, DigestAlgorithm::kBlake3}, /*create=*/false));
    EXPECT_TRUE(repository.ok()) << repository.status();
    return *repository;
  }
  bool IsKept(std::uint64_t number) {
    const int before = redis_.read_count;
    Load(number);
    return redis_.read_count == before;
  }

  // All, by pages, as a client asks for them; how many pages that took.
  std::vector<std::string> ListAll(std::size_t limit) {
    std::vector<std::string> names;
    std::optional<RepositoryId> after;
    while (true) {
      const auto page = WaitFor(repositories_.List(after, limit));
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok() || page->empty()) return names;
      for (const ListedRepository& listed : *page) names.push_back(listed.id.name);
      after = page->back().id;
    }
  }
  void FillList(int count) {
    // Each number once, and not in order.
    for (int number = 0; number < count; ++number) {
      const std::string digits = std::to_string(1'000'000 + (number * 7'919LL) % count);
      redis_.listed.push_back({Cat("r", digits), DigestAlgorithm::kBlake3});
    }
  }

  MadeUpRedis redis_;
  TimePoint now_{std::chrono::hours(1)};
  RedisRepositories repositories_{&redis_, 0, {kDefaultBaseBits, 0}, [this] { return now_; }};
};

TEST_F(RepositoriesTest, APageCostsWhatItShowsAndNotTheWholeList) {
  FillList(10'000);
  const std::vector<std::string> names = ListAll(100);
  EXPECT_EQ(names.size(), 10'000u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(redis_.list_count, 1);
  EXPECT_EQ(redis_.created_count, 10'000);
  // Whoever begins anew sees what is there by then.
  redis_.listed.push_back({"new", DigestAlgorithm::kBlake3});
  EXPECT_EQ(ListAll(1'000).size(), 10'001u);
  EXPECT_EQ(redis_.list_count, 2);
}

TEST_F(RepositoriesTest, AListOfLongAgoIsReadAnew) {
  FillList(1'000);
  const auto first = WaitFor(repositories_.List(std::nullopt, 10));
  ASSERT_EQ(first->size(), 10u);
  now_ += std::chrono::seconds(29);
  const auto second = WaitFor(repositories_.List(first->back().id, 10));
  EXPECT_EQ(redis_.list_count, 1);
  now_ += std::chrono::seconds(1);
  const auto third = WaitFor(repositories_.List(second->back().id, 10));
  EXPECT_EQ(third->front().id.name, "r1000020");
  EXPECT_EQ(redis_.list_count, 2);
  // Of pages before those that were read nothing is known.
  EXPECT_EQ(WaitFor(repositories_.List(first->back().id, 10))->front().id.name, "r1000010");
  EXPECT_EQ(redis_.list_count, 3);
}

TEST_F(RepositoriesTest, WhatIsMadeOrDroppedHereIsSeenOnTheNextPage) {
  FillList(10);
  const auto first = WaitFor(repositories_.List(std::nullopt, 5));
  redis_.listed.push_back({"r1000099", DigestAlgorithm::kBlake3});
  ASSERT_TRUE(WaitFor(repositories_.Create({"r1000099", DigestAlgorithm::kBlake3})).ok());
  EXPECT_EQ(WaitFor(repositories_.List(first->back().id, 100))->back().id.name, "r1000099");
  redis_.listed.pop_back();
  ASSERT_TRUE(WaitFor(repositories_.Delist({"r1000099", DigestAlgorithm::kBlake3})).ok());
  EXPECT_EQ(WaitFor(repositories_.List(first->back().id, 100))->back().id.name, "r1000009");
}

// Two lists are read at once, and something is made between them; or one is, while it is read.
TEST_F(RepositoriesTest, AnOlderReadingIsNotTakenForALaterOne) {
  using Pages = std::vector<absl::StatusOr<std::vector<ListedRepository>>>;
  FillList(10);
  for (const bool is_made_here : {true, false}) {
    const std::string name = is_made_here ? "r1000098" : "r1000099";
    redis_.is_slow = true;
    Pages pages;
    [](RedisRepositories& repositories, Pages& got) -> Detached {
      got.push_back(co_await repositories.List(std::nullopt, 5));
    }(repositories_, pages);
    ASSERT_EQ(redis_.late.size(), 1u);
    redis_.listed.push_back({name, DigestAlgorithm::kBlake3});
    redis_.is_slow = false;
    if (is_made_here) {
      ASSERT_TRUE(WaitFor(repositories_.Create({name, DigestAlgorithm::kBlake3})).ok());
    } else {
      now_ += std::chrono::milliseconds(1);
      ASSERT_TRUE(WaitFor(repositories_.List(std::nullopt, 5)).ok());
    }
    redis_.late[0]();
    redis_.late.clear();
    ASSERT_EQ(pages.size(), 1u);
    ASSERT_TRUE(pages[0].ok());
    EXPECT_EQ(WaitFor(repositories_.List(pages[0]->back().id, 100))->back().id.name, name);
  }
}

// Of more than it keeps what comes later is read when it is its turn.
TEST_F(RepositoriesTest, AsManyAreListedAsThereAreAndNotAllAreKept) {
  const int count = 3 * static_cast<int>(ListedRepositories::kMaxKept) / 2;
  FillList(count);
  EXPECT_EQ(ListAll(1'000).size(), static_cast<std::size_t>(count));
  EXPECT_EQ(redis_.list_count, 2);
}

TEST_F(RepositoriesTest, AHundredThousandNamesTakeNoMoreThanSome) {
  constexpr std::size_t kMaxBytes = RedisRepositories::kMaxKept * 1'024;
  for (std::uint64_t number = 0; number < 10; ++number) Load(number);
  const std::size_t before = mallinfo2().uordblks;
  for (std::uint64_t number = 0; number < 100'000; ++number) Load(number);
  EXPECT_EQ(repositories_.kept_count(), RedisRepositories::kMaxKept);
  const std::size_t bytes = mallinfo2().uordblks - before;
  std::printf("%zu bytes for each that is kept\n", bytes / RedisRepositories::kMaxKept);
  EXPECT_LE(bytes, kMaxBytes);
}

TEST_F(RepositoriesTest, TheOneThatIsUsedLeastGoes) {
  for (std::uint64_t number = 0; number < RedisRepositories::kMaxKept; ++number) Load(number);
  EXPECT_TRUE(IsKept(0));
  Load(RedisRepositories::kMaxKept);
  EXPECT_TRUE(IsKept(0));
  EXPECT_TRUE(IsKept(2));
  EXPECT_FALSE(IsKept(1));
}

TEST_F(RepositoriesTest, OneThatCallsAreUsingStays) {
  const RedisRepositoryPtr used = Load(0);
  std::vector<RedisRepositoryPtr> many;
  for (std::uint64_t number = 1; number < 2 * RedisRepositories::kMaxKept; ++number) {
    many.push_back(Load(number));
  }
  EXPECT_EQ(Load(0), used);
  // All are in use: there is room for one more all the same.
  EXPECT_EQ(repositories_.kept_count(), 2 * RedisRepositories::kMaxKept);
  many.clear();
  Load(1'000'000);
  EXPECT_EQ(repositories_.kept_count(), RedisRepositories::kMaxKept);
  EXPECT_EQ(Load(0), used);
}

}  // namespace
}  // namespace kerf
