// Commits into buckets that are not there beside AdvanceEpoch, one command at a time, in every
// order, and what they have sent once more behind that: whatever the order, what an earlier session
// has written was there before AdvanceEpoch returned (docs/adr/0008).
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/task.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "server/index/codec.h"
#include "server/redis/buckets.h"
#include "server/redis/redis_index.h"
#include "server/redis/testing/gated_client.h"
#include "server/redis/testing/open_redis.h"
#include "server/redis/testing/test_redis.h"
#include "server/redis/wait_for.h"

namespace kerf {
namespace {

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

// Two base buckets: one that is there from the start, and one that is not.
constexpr int kBaseBits = 1;
constexpr std::uint32_t kMissingBase = 0;

// KERF_FENCE_ORDERS says how many orders each test plays; "all": where these can be counted, every
// one of them (17,000 and more).
bool PlaysAll() {
  const char* text = std::getenv("KERF_FENCE_ORDERS");
  return text != nullptr && std::string_view(text) == "all";
}
std::uint64_t OrderCount() {
  const char* text = std::getenv("KERF_FENCE_ORDERS");
  if (text == nullptr) return 300;
  return PlaysAll() ? 10'000 : std::strtoull(text, nullptr, 10);
}

// In base bucket `base`.
IndexEntry EntryIn(std::uint32_t base, std::uint64_t number) {
  IndexEntry entry{{}, 7, Cat("at ", number)};
  Random(number).Fill(entry.digest.bytes);
  entry.digest.bytes[0] = static_cast<std::uint8_t>((entry.digest.bytes[0] & 0x7F) | base << 7);
  return entry;
}

// What is there from the start.
const IndexEntry kThere = EntryIn(1 - kMissingBase, 1);

// An index whose commands wait for the test.
struct GatedIndex {
  explicit GatedIndex(const TestRedis& redis, RedisLayout layout = LayoutOfTest()) {
    RedisIndexOptions options{redis.options_of_kerfd()};
    options.base_bits = kBaseBits;
    options.layout = layout;
    // Waits as long as the test takes.
    options.redis.command_timeout = std::chrono::minutes(5);
    options.wrap_client = [this](std::unique_ptr<RedisClient> client) {
      auto gated = std::make_unique<GatedClient>(std::move(client));
      gate = gated.get();
      return gated;
    };
    std::vector<std::string> warnings;
    index = *RedisIndex::Open(std::move(options), &warnings);
  }

  GatedClient* gate = nullptr;
  std::unique_ptr<RedisIndex> index;
};

// Chooses one of several each time; Next goes on to the next one of all rows of choices.
class Choices {
 public:
  std::size_t Choose(std::size_t count) {
    if (at_ == made_.size()) made_.push_back({0, count});
    KERF_CHECK(made_[at_].second == count);
    return made_[at_++].first;
  }
  bool Next() {
    at_ = 0;
    while (!made_.empty()) {
      if (++made_.back().first < made_.back().second) return true;
      made_.pop_back();
    }
    return false;
  }

 private:
  // What was chosen, of how many.
  std::vector<std::pair<std::size_t, std::size_t>> made_;
  std::size_t at_ = 0;
};

// By digest as stored, the epoch of each entry.
using Entries = std::map<std::string, std::uint64_t>;

// One call, or several one behind the other. What `call` has captured lasts as long as the actor.
struct Actor {
  std::string name;
  GatedIndex* on = nullptr;
  std::function<Task<absl::Status>(Index& index, const RepositoryId& repository)> call;
  // The epoch that it has told all once it is OK.
  std::uint64_t tells = 0;
  // Whether it may be refused as too late.
  bool may_be_refused = false;
  // Whether it has met the repository before.
  bool knows_repository = true;

  bool is_done = false;
  absl::Status status;
  // All that was there when it was OK.
  Entries then;
};

Detached RunCall(Actor& actor, const RepositoryId& repository) {
  actor.status = co_await actor.call(*actor.on->index, repository);
  actor.is_done = true;
}

Actor Commit(GatedIndex* on, std::uint64_t epoch, const std::vector<IndexEntry>& entries) {
  Actor actor;
  actor.name = Cat("commit of epoch ", epoch);
  actor.on = on;
  actor.may_be_refused = true;
  actor.call = [epoch, entries](Index& index,
                                const RepositoryId& repository) -> Task<absl::Status> {
    co_return co_await index.Commit(repository, epoch, entries, false);
  };
  return actor;
}

// Nobody has lost anything: so it finds no epoch before `expected`.
Actor Advance(GatedIndex* on, std::uint64_t epoch, std::uint64_t expected) {
  Actor actor;
  actor.name = Cat("telling of epoch ", epoch);
  actor.on = on;
  actor.tells = epoch;
  actor.call = [epoch, expected](Index& index,
                                 const RepositoryId& repository) -> Task<absl::Status> {
    const auto before = co_await index.AdvanceEpoch(repository, epoch, expected);
    if (!before.ok()) co_return before.status();
    if (*before < expected) {
      co_return absl::InternalError(ToAbsl(Cat("it went back to ", *before)));
    }
    co_return absl::OkStatus();
  };
  return actor;
}

// As a collection does: what is condemned is forgotten behind the fence, and believed to be gone.
Actor AdvanceThenForget(GatedIndex* on, std::uint64_t epoch, std::uint64_t expected,
                        const std::vector<IndexEntry>& entries) {
  Actor actor;
  actor.name = Cat("collection of epoch ", epoch);
  actor.on = on;
  actor.tells = epoch;
  actor.call = [epoch, expected, entries](Index& index,
                                          const RepositoryId& repository) -> Task<absl::Status> {
    const auto before = co_await index.AdvanceEpoch(repository, epoch, expected);
    if (!before.ok()) co_return before.status();
    if (*before < expected) co_return absl::InternalError("it went back");
    const auto forgotten = co_await index.Forget(repository, entries);
    if (!forgotten.ok()) co_return forgotten.status();
    if (forgotten->epoch != epoch) {
      co_return absl::InternalError(ToAbsl(Cat("it forgot at epoch ", forgotten->epoch)));
    }
    co_return absl::OkStatus();
  };
  return actor;
}

// Forgets before it tells the epoch: what comes behind that was never there in it.
Actor ForgetThenAdvance(GatedIndex* on, std::uint64_t epoch, std::uint64_t expected,
                        const std::vector<IndexEntry>& entries) {
  Actor actor;
  actor.name = Cat("forgetting before epoch ", epoch);
  actor.on = on;
  actor.tells = epoch;
  actor.call = [epoch, expected, entries](Index& index,
                                          const RepositoryId& repository) -> Task<absl::Status> {
    const auto forgotten = co_await index.Forget(repository, entries);
    if (!forgotten.ok()) co_return forgotten.status();
    const auto before = co_await index.AdvanceEpoch(repository, epoch, expected);
    if (!before.ok()) co_return before.status();
    if (*before < expected) co_return absl::InternalError("it went back");
    co_return absl::OkStatus();
  };
  return actor;
}

// A session that is told DUPLICATE of none of them; what is not there may be asked for as well.
Actor LookupOfGone(GatedIndex* on, std::uint64_t epoch, const std::vector<IndexEntry>& entries) {
  Actor actor;
  actor.name = Cat("lookup of epoch ", epoch);
  actor.on = on;
  actor.call = [epoch, entries](Index& index,
                                const RepositoryId& repository) -> Task<absl::Status> {
    std::vector<Digest> digests;
    digests.reserve(entries.size());
    for (const IndexEntry& entry : entries) digests.push_back(entry.digest);
    std::vector<LookupResult> results(digests.size());
    absl::Status status = co_await index.Lookup(repository, epoch, digests, results);
    for (const LookupResult& result : results) {
      if (status.ok() && result.verdict == Verdict::kDuplicate) {
        status = absl::InternalError("it believes what was gone before its epoch");
      }
    }
    co_return status;
  };
  return actor;
}

// Sets the epoch of all to `epoch`, which is one of before.
Actor Reset(GatedIndex* on, std::uint64_t epoch) {
  Actor actor;
  actor.name = Cat("resetting to epoch ", epoch);
  actor.on = on;
  actor.call = [epoch](Index& index, const RepositoryId& repository) -> Task<absl::Status> {
    const auto step = co_await index.ResetEpoch(repository, epoch, std::nullopt, 1'000);
    co_return step.status();
  };
  return actor;
}

// Meets the repository: one that makes those of the first layout turns it into such.
Actor Meet(GatedIndex* on) {
  Actor actor;
  actor.name = "meeting";
  actor.on = on;
  actor.knows_repository = false;
  actor.call = [](Index& index, const RepositoryId& repository) -> Task<absl::Status> {
    const auto stats = co_await index.Stats(repository);
    co_return stats.status();
  };
  return actor;
}

class RedisFenceTest : public ::testing::Test {
 protected:
  using Choose = std::function<std::size_t(std::size_t count)>;

  // All entries, and `lowest_epoch` of the heads, or buckets, that are there.
  Entries ReadAll(const RepositoryId& repository, std::uint64_t& lowest_epoch) {
    Entries entries;
    lowest_epoch = ~std::uint64_t{0};
    for (std::uint32_t base = 0; base < 1u << kBaseBits; ++base) {
      const std::string key = BucketKey(RedisTagOf(repository), base, "");
      const auto reply = WaitFor<absl::StatusOr<RedisReply>>([&](auto done) {
        client_->Send({key, std::nullopt, {"HGETALL", key}}, std::move(done));
      });
      KERF_CHECK(reply.ok());
      const std::string head = HeadKey(RedisTagOf(repository), base);
      const auto fence = WaitFor<absl::StatusOr<RedisReply>>([&](auto done) {
        client_->Send({head, std::nullopt, {"HGET", head, "e"}}, std::move(done));
      });
      if (!fence->text.empty()) {
        lowest_epoch = std::min(lowest_epoch, ParseHead(fence->text)->epoch);
      }
      for (std::size_t at = 0; at + 1 < reply->elements.size(); at += 2) {
        const std::string& value = reply->elements[at + 1].text;
        if (reply->elements[at].text == kEpochField) {
          EXPECT_EQ(index_codec::IsFollowing(value), !fence->text.empty())
              << "a head is made alone";
          if (!fence->text.empty()) continue;
          lowest_epoch = std::min(lowest_epoch, index_codec::ParseEpoch(value)->epoch);
        } else {
          entries[reply->elements[at].text] = index_codec::ParseEntry(value)->epoch;
        }
      }
    }
    return entries;
  }

  // What an earlier session has written was there when an epoch had been told.
  void ExpectFenced(const RepositoryId& repository, const std::vector<Actor>& actors) {
    std::uint64_t lowest_epoch = 0;
    const Entries now = ReadAll(repository, lowest_epoch);
    for (const Actor& actor : actors) {
      if (actor.tells == 0 || !actor.status.ok()) continue;
      EXPECT_GE(lowest_epoch, actor.tells);
      for (const auto& [digest, epoch] : now) {
        EXPECT_TRUE(epoch >= actor.tells || actor.then.contains(digest))
            << "an entry of epoch " << epoch << " came behind the " << actor.name;
      }
    }
  }

  // Plays the actors, in an order that `choose` gives, on a repository of epoch 1 that has one
  // bucket; then sends again what the first one has sent.
  void Play(std::vector<Actor>& actors, std::size_t commands_at_once, const Choose& choose,
            std::optional<std::uint64_t> epoch_behind = std::nullopt) {
    const RepositoryId repository{Cat("photos-", ++repository_count_), DigestAlgorithm::kBlake3};
    last_tag_ = RedisTagOf(repository);
    const std::vector<IndexEntry> there = {kThere};
    KERF_CHECK(WaitFor(quiet_.index->Commit(repository, 0, there, false)).ok());
    KERF_CHECK(WaitFor(quiet_.index->AdvanceEpoch(repository, 1, 0)).ok());
    std::string order;
    for (Actor& actor : actors) {
      actor.is_done = false;
      actor.then.clear();
      std::vector<LookupResult> results(1);
      const std::vector<Digest> digests = {there[0].digest};
      KERF_CHECK(!actor.knows_repository ||
                 WaitFor(actor.on->index->Lookup(repository, 1, digests, results)).ok());
      actor.on->gate->Shut(true);
      RunCall(actor, repository);
    }
    while (true) {
      std::vector<Actor*> going;
      for (Actor& actor : actors) {
        if (!actor.is_done) going.push_back(&actor);
      }
      if (going.empty()) break;
      Actor& actor = *going[choose(going.size())];
      order += Cat(" ", &actor - actors.data());
      KERF_CHECK(actor.on->gate->held_count() > 0);
      actor.on->gate->LetThrough(commands_at_once);
      if (!actor.is_done || !actor.status.ok() || actor.tells == 0) continue;
      std::uint64_t lowest_epoch = 0;
      actor.then = ReadAll(repository, lowest_epoch);
    }
    SCOPED_TRACE(Cat("in the order", order));
    for (Actor& actor : actors) {
      actor.on->gate->Shut(false);
      EXPECT_TRUE(actor.status.ok() ||
                  (actor.may_be_refused && absl::IsFailedPrecondition(actor.status)))
          << actor.name << ": " << actor.status;
    }
    ExpectFenced(repository, actors);
    for (const RedisCommand& command : actors[0].on->gate->TakePassed()) {
      const auto again = WaitFor<absl::StatusOr<RedisReply>>(
          [&](auto done) { client_->Send(command, std::move(done)); });
      EXPECT_TRUE(again.ok()) << again.status();
    }
    for (Actor& actor : actors) actor.on->gate->TakePassed();
    SCOPED_TRACE("behind commands that came twice");
    ExpectFenced(repository, actors);
    std::uint64_t highest_told = 0;
    for (const Actor& actor : actors) {
      if (actor.status.ok()) highest_told = std::max(highest_told, actor.tells);
    }
    EXPECT_EQ(WaitFor(quiet_.index->Stats(repository))->epoch, epoch_behind.value_or(highest_told));
    last_repository_ = repository;
  }

  // All commands that a call has sent at once go on together.
  void PlayEveryOrder(std::vector<Actor> actors) {
    if (!PlaysAll()) {
      PlaySomeOrders(std::move(actors));
      return;
    }
    Choices choices;
    std::size_t count = 0;
    do {
      Play(actors, ~std::size_t{0}, [&](std::size_t of) { return choices.Choose(of); });
      ++count;
    } while (!HasFailure() && choices.Next());
    std::printf("%zu orders\n", count);
  }

  // One command at a time, in seeded orders.
  void PlaySomeOrders(std::vector<Actor> actors, const std::function<void()>& check = nullptr) {
    Random random(TestSeed());
    for (std::uint64_t order = 0; order < OrderCount() && !HasFailure(); ++order) {
      // One that is chosen seldom is far behind.
      const std::uint64_t favourite = random.Below(actors.size() + 1);
      Play(actors, 1, [&](std::size_t of) {
        if (favourite < of && !random.OneIn(4)) return static_cast<std::size_t>(favourite);
        return static_cast<std::size_t>(random.Below(of));
      });
      if (check) check();
    }
  }

  // Redis is told each script in full the first time.
  void SetUp() override {
    std::vector<Actor> actors = {Commit(&one_, 2, {EntryIn(kMissingBase, 2)}),
                                 AdvanceThenForget(&two_, 2, 1, {EntryIn(kMissingBase, 2)})};
    Play(actors, ~std::size_t{0}, [](std::size_t) { return std::size_t{0}; });
  }

  const TestRedis redis_{TestRedis::Kind::kSingle};
  const std::unique_ptr<RedisClient> client_ = *RedisClient::Create(redis_.options());
  GatedIndex quiet_{redis_};
  GatedIndex one_{redis_};
  GatedIndex two_{redis_};
  GatedIndex three_{redis_};
  std::uint64_t repository_count_ = 0;
  // The one that was played on last.
  std::string last_tag_;
  RepositoryId last_repository_;
};

const IndexEntry kFirst = EntryIn(kMissingBase, 2);
const IndexEntry kSecond = EntryIn(kMissingBase, 3);

TEST_F(RedisFenceTest, ACommitThatMakesABucketIsCompleteOrRefused) {
  PlayEveryOrder({Commit(&one_, 1, {kFirst}), Advance(&two_, 2, 1)});
}

TEST_F(RedisFenceTest, ALaterSessionIsNeverRefused) {
  std::vector<Actor> actors = {Commit(&one_, 2, {kFirst}), Advance(&two_, 2, 1)};
  actors[0].may_be_refused = false;
  PlayEveryOrder(actors);
}

TEST_F(RedisFenceTest, WhatACollectionHasForgottenStaysAway) {
  PlaySomeOrders({Commit(&one_, 1, {kFirst}), AdvanceThenForget(&two_, 2, 1, {kFirst})});
}

TEST_F(RedisFenceTest, TwoEpochsAreToldAtOnce) {
  std::vector<Actor> actors = {Commit(&one_, 1, {kFirst}), Advance(&two_, 2, 1),
                               Advance(&three_, 3, 1)};
  // The other one may be past it.
  actors[1].may_be_refused = true;
  PlaySomeOrders(actors);
}

TEST_F(RedisFenceTest, TheSameEpochIsToldTwice) {
  PlaySomeOrders({Commit(&one_, 1, {kFirst}), Advance(&two_, 2, 1), Advance(&three_, 2, 1)});
}

TEST_F(RedisFenceTest, TwoCommitsMakeOneBucket) {
  PlaySomeOrders({Commit(&one_, 1, {kFirst}), Commit(&two_, 1, {kSecond}), Advance(&three_, 2, 1)});
}

const IndexEntry kBesideIt = EntryIn(1 - kMissingBase, 4);

TEST_F(RedisFenceTest, ACommitIntoABucketThatIsThereIsCompleteOrRefused) {
  PlayEveryOrder({Commit(&one_, 1, {kBesideIt}), Advance(&two_, 2, 1)});
}

TEST_F(RedisFenceTest, ACommitMeetsTwoEpochs) {
  std::vector<Actor> actors = {Commit(&one_, 1, {kBesideIt, kFirst}), Advance(&two_, 2, 1),
                               Advance(&three_, 3, 1)};
  actors[1].may_be_refused = true;
  PlaySomeOrders(actors);
}

// A session of the epoch that is told reads the bucket before, between and behind both, and asks
// its head.
TEST_F(RedisFenceTest, WhatIsGoneBeforeAnEpochIsNotBelievedInIt) {
  PlaySomeOrders({LookupOfGone(&one_, 2, {kThere}), ForgetThenAdvance(&two_, 2, 1, {kThere})});
}

// The same beside one that commits to the bucket, which makes it follow its head.
TEST_F(RedisFenceTest, WhatIsGoneBeforeAnEpochIsNotBelievedBesideACommit) {
  std::vector<Actor> actors = {LookupOfGone(&one_, 2, {kThere}),
                               ForgetThenAdvance(&two_, 2, 1, {kThere}),
                               Commit(&three_, 2, {kBesideIt})};
  actors[2].may_be_refused = false;
  PlaySomeOrders(actors);
}

// Two tell the same epoch at once, and what is forgotten behind the first one is believed gone.
TEST_F(RedisFenceTest, WhatIsForgottenBehindAnEpochIsGoneForItsSessions) {
  PlaySomeOrders({LookupOfGone(&one_, 3, {kThere}), AdvanceThenForget(&two_, 2, 1, {kThere})});
}

// Who is told that an epoch of before is the repository's again: nothing that was there is believed
// beyond it, whoever asks meanwhile.
TEST_F(RedisFenceTest, ALookupBesideAResetRaisesNothingBeyondIt) {
  if (!HasHeads()) GTEST_SKIP() << "only heads raise what is looked up";
  std::vector<Actor> actors = {Meet(&one_), Reset(&two_, 0)};
  // Behind its head at first: a lookup of Play would raise it.
  for (Actor& actor : actors) actor.knows_repository = false;
  actors[0].call = [](Index& index, const RepositoryId& repository) -> Task<absl::Status> {
    const std::vector<Digest> digests = {kThere.digest};
    std::vector<LookupResult> results(1);
    co_return co_await index.Lookup(repository, 1, digests, results);
  };
  Random random(TestSeed());
  for (std::uint64_t order = 0; order < OrderCount() && !HasFailure(); ++order) {
    Play(actors, 1, [&](std::size_t of) { return static_cast<std::size_t>(random.Below(of)); }, 0);
    const std::vector<Digest> digests = {kThere.digest};
    std::vector<LookupResult> results(1);
    ASSERT_TRUE(WaitFor(quiet_.index->Lookup(last_repository_, 1, digests, results)).ok());
    EXPECT_EQ(results[0].verdict, Verdict::kUnverified);
  }
}

// Somebody turns the repository into one of the first layout meanwhile: the way back to 0.1.0.
TEST_F(RedisFenceTest, ARepositoryIsTurnedBackMeanwhile) {
  if (LayoutOfTest() != RedisLayout::kLazy) GTEST_SKIP() << "of the second layout alone";
  GatedIndex back(redis_, RedisLayout::kWhole);
  const auto ask = [&](const std::string& key, std::vector<std::string> command) {
    return *WaitFor<absl::StatusOr<RedisReply>>([&](auto done) {
      client_->Send({key, std::nullopt, std::move(command)}, std::move(done));
    });
  };
  PlaySomeOrders({Commit(&one_, 1, {kFirst}), Advance(&two_, 2, 1), Meet(&back)}, [&] {
    const std::string meta = MetaKey(last_tag_);
    EXPECT_EQ(ask(meta, {"HGET", meta, "version"}).text, "1");
    for (std::uint32_t base = 0; base < 1u << kBaseBits; ++base) {
      const std::string key = BucketKey(last_tag_, base, "");
      EXPECT_EQ(ask(key, {"EXISTS", key}).integer, 1);
    }
  });
}

}  // namespace
}  // namespace kerf
