// The index in Redis while masters are killed, paused and failed over and slots are moved: a seeded
// model for each client thread. And what an old copy of a node is worth.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "nlohmann/json.hpp"
#include "server/redis/buckets.h"
#include "server/redis/testing/expect_counts.h"
#include "server/redis/testing/open_redis.h"
#include "server/redis/testing/test_redis.h"
#include "server/redis/testing/trouble.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};
constexpr std::size_t kClientCount = 3;
constexpr std::uint64_t kDigestsPerClient = 400;
constexpr int kNodeTimeoutMs = 700;
constexpr std::chrono::seconds kWholeTimeout{60};
// Few, so that buckets are split in the middle of trouble.
constexpr int kBaseBits = 2;

// KERF_CHAOS_SECONDS says how long each test makes trouble.
std::chrono::seconds TroubleTime() {
  const char* text = std::getenv("KERF_CHAOS_SECONDS");
  return std::chrono::seconds(text == nullptr ? 5 : std::strtol(text, nullptr, 10));
}

Digest DigestOf(std::uint64_t number) {
  Digest digest;
  Random random(number);
  random.Fill(digest.bytes);
  return digest;
}

// What all clients of a run share.
struct Run {
  // Told, and acknowledged.
  std::atomic<std::uint64_t> epoch{1};
  std::atomic<bool> is_over{false};
  std::atomic<std::uint64_t> call_count{0};
  std::atomic<std::uint64_t> error_count{0};
  std::atomic<std::uint64_t> refused_count{0};
  std::atomic<std::uint64_t> lost_insert_count{0};
  std::atomic<std::uint64_t> unverified_count{0};
};

// One thread with digests of its own, so that it knows what every answer must be.
class Client {
 public:
  // `may_doubt`: where buckets follow heads the index need not say for sure what it has: no lookup
  // waits for a slot that moves, and what was written while its head was away is believed by itself
  // alone. What it says must be right all the same.
  Client(std::unique_ptr<Index> index, std::uint64_t number, std::uint64_t seed, bool may_doubt,
         Run* run)
      : index_(std::move(index)),
        first_(number * kDigestsPerClient),
        name_(Cat("client ", number)),
        random_(seed),
        may_doubt_(may_doubt),
        run_(*run) {}

  void Live() {
    while (!run_.is_over.load() && !testing::Test::HasFatalFailure()) Step();
  }

  // When all is quiet.
  void CheckAll() {
    std::vector<std::uint64_t> all(kDigestsPerClient);
    for (std::uint64_t at = 0; at < all.size(); ++at) all[at] = first_ + at;
    Lookup(all);
    if (!may_doubt_) return;
    // What is committed again is believed, whatever has happened to its bucket.
    Advance();
    Commit(all);
    may_doubt_ = false;
    Lookup(all);
  }

 private:
  using Held = std::optional<std::string>;
  struct Known {
    // What the index may hold: the locator, or nothing.
    std::set<Held> may_be = {std::nullopt};
    // A commit that nobody knows the fate of may still arrive.
    bool is_open = false;
  };

  std::vector<std::uint64_t> SomeNumbers() {
    std::set<std::uint64_t> numbers;
    for (std::uint64_t count = random_.Between(1, 40); count > 0; --count) {
      numbers.insert(first_ + random_.Below(kDigestsPerClient));
    }
    return {numbers.begin(), numbers.end()};
  }

  void Step() {
    ++run_.call_count;
    const std::uint64_t choice = random_.Below(13);
    if (choice < 5) {
      Commit(SomeNumbers());
    } else if (choice < 7) {
      Forget(SomeNumbers());
    } else if (choice < 12) {
      Lookup(SomeNumbers());
    } else if (first_ == 0 && random_.OneIn(6)) {
      Advance();
    }
  }

  void Commit(const std::vector<std::uint64_t>& numbers) {
    const std::uint64_t epoch = run_.epoch.load();
    const bool replace = random_.OneIn(4);
    const std::string locator = Cat(name_, " commit ", ++commit_count_);
    std::vector<IndexEntry> entries;
    entries.reserve(numbers.size());
    for (const std::uint64_t number : numbers) entries.push_back({DigestOf(number), 7, locator});
    const absl::Status status = WaitFor(index_->Commit(kRepository, epoch, entries, replace));
    for (const std::uint64_t number : numbers) {
      Known& known = known_[number];
      std::set<Held> after;
      for (const Held& held : known.may_be) {
        after.insert(held.has_value() && !replace ? held : Held(locator));
        // What it cannot say for sure gets the place of who can.
        if (may_doubt_) after.insert(Held(locator));
      }
      if (!status.ok()) {
        after.insert(known.may_be.begin(), known.may_be.end());
        known.is_open = true;
      }
      known.may_be = std::move(after);
    }
    if (absl::IsFailedPrecondition(status)) {
      ++run_.refused_count;
    } else {
      Note(status);
    }
  }

  void Forget(const std::vector<std::uint64_t>& numbers) {
    std::vector<IndexEntry> entries;
    entries.reserve(numbers.size());
    for (const std::uint64_t number : numbers) entries.push_back({DigestOf(number), 0, ""});
    const auto forgotten = WaitFor(index_->Forget(kRepository, entries));
    for (const std::uint64_t number : numbers) {
      Known& known = known_[number];
      if (forgotten.ok()) known.may_be.clear();
      known.may_be.insert(std::nullopt);
    }
    Note(forgotten.status());
    if (forgotten.ok() && forgotten->forgotten_count > 0) {
      EXPECT_GT(forgotten->removed_count, 0u);
    }
  }

  void Lookup(const std::vector<std::uint64_t>& numbers) {
    const std::uint64_t epoch = run_.epoch.load();
    std::vector<Digest> digests;
    digests.reserve(numbers.size());
    for (const std::uint64_t number : numbers) digests.push_back(DigestOf(number));
    std::vector<LookupResult> results(digests.size());
    const absl::Status status = WaitFor(index_->Lookup(kRepository, epoch, digests, results));
    Note(status);
    if (!status.ok()) return;
    for (std::size_t at = 0; at < numbers.size(); ++at) {
      Known& known = known_[numbers[at]];
      const LookupResult& result = results[at];
      if (known.is_open) continue;
      const Held held = result.verdict == Verdict::kNew ? Held() : Held(result.locator);
      if (result.verdict == Verdict::kUnverified) {
        ++run_.unverified_count;
        EXPECT_TRUE(may_doubt_) << name_ << " " << numbers[at] << " is unverified";
      }
      if (known.may_be.contains(held)) {
        known.may_be = {held};
        continue;
      }
      if (!held.has_value()) {
        ++run_.lost_insert_count;
        known.may_be = {held};
        std::printf("%s: %llu is lost\n", name_.c_str(),
                    static_cast<unsigned long long>(numbers[at]));
        continue;
      }
      ADD_FAILURE() << name_ << ": " << numbers[at] << " is at '" << *held
                    << "', which was forgotten or replaced";
    }
  }

  void Advance() {
    const std::uint64_t epoch = run_.epoch.load();
    const auto before =
        WaitFor(index_->AdvanceEpoch(kRepository, epoch + 1, epoch == 1 ? 0 : epoch));
    Note(before.status());
    if (!before.ok()) return;
    if (epoch > 1) {
      EXPECT_GE(*before, epoch) << "an epoch that was acknowledged is lost";
    }
    run_.epoch.store(epoch + 1);
  }

  void Note(const absl::Status& status) {
    if (status.ok()) return;
    ++run_.error_count;
    std::printf("%s: %s\n", name_.c_str(), status.ToString().c_str());
  }

  const std::unique_ptr<Index> index_;
  const std::uint64_t first_;
  const std::string name_;
  Random random_;
  bool may_doubt_;
  Run& run_;
  std::uint64_t commit_count_ = 0;
  std::map<std::uint64_t, Known> known_;
};

// Of some bucket of the repository.
std::string AnyBucketKey(Random& random) {
  const auto base = static_cast<std::uint32_t>(random.Below(1u << kBaseBits));
  return BucketKey(RedisTagOf(kRepository), base, "");
}

void RunThroughTrouble(TestRedis::Kind kind, int replica_count) {
  Random seeds(TestSeed());
  TestRedis redis(kind, "", kNodeTimeoutMs, TestRedis::Log::kAlways);
  Run run;
  std::vector<std::unique_ptr<Client>> clients;
  clients.reserve(kClientCount);
  for (std::size_t number = 0; number < kClientCount; ++number) {
    clients.push_back(std::make_unique<Client>(
        OpenRedisOn(redis, replica_count, kBaseBits), number, seeds.Next(),
        /*may_doubt=*/HasHeads() && kind == TestRedis::Kind::kCluster, &run));
  }
  std::vector<std::thread> threads;
  threads.reserve(kClientCount);
  for (const auto& client : clients) threads.emplace_back([&client] { client->Live(); });
  Trouble trouble(&redis, kind, milliseconds(kNodeTimeoutMs), AnyBucketKey, seeds.Next());
  trouble.MakeFor(TroubleTime());
  run.is_over.store(true);
  for (std::thread& thread : threads) thread.join();
  for (const auto& client : clients) client->CheckAll();
  std::printf(
      "%llu calls, %llu errors, %llu refused, %llu lost inserts, %llu unverified, "
      "epoch %llu, %d troubles\n",
      static_cast<unsigned long long>(run.call_count),
      static_cast<unsigned long long>(run.error_count),
      static_cast<unsigned long long>(run.refused_count),
      static_cast<unsigned long long>(run.lost_insert_count),
      static_cast<unsigned long long>(run.unverified_count),
      static_cast<unsigned long long>(run.epoch), trouble.count());
  EXPECT_EQ(run.lost_insert_count, 0u);
  EXPECT_GT(run.call_count, 0u);
  EXPECT_GT(trouble.count(), 0);
}

TEST(RedisChaosTest, OneRedisKeepsWhatItAcknowledged) {
  RunThroughTrouble(TestRedis::Kind::kSingle, 0);
}

TEST(RedisChaosTest, AClusterWithReplicasKeepsWhatItAcknowledged) {
  RunThroughTrouble(TestRedis::Kind::kCluster, 1);
}

// Repositories that are made in the middle of trouble, each of them told an epoch while commits of
// the one before make its buckets.
class NewNames {
 public:
  // Of each: who commits, and who tells.
  NewNames(const TestRedis& redis, int replica_count) {
    for (std::size_t number = 0; number < kCommitters + 1; ++number) {
      indexes_.push_back(OpenRedisOn(redis, replica_count, kManyBaseBits));
    }
  }

  void LiveUntil(steady_clock::time_point end) {
    while (steady_clock::now() < end && !testing::Test::HasFailure()) LiveOnce();
  }

  std::atomic<std::uint64_t> count{0};
  std::uint64_t late_count = 0;

 private:
  static constexpr std::size_t kCommitters = 2;
  static constexpr std::uint64_t kEntriesOfEach = 60;
  // Most entries are the first in their base bucket.
  static constexpr int kManyBaseBits = 6;

  Index& teller() { return *indexes_.back(); }

  // As often as it takes.
  template <typename Call>
  static auto Insist(Call call) {
    const auto end = steady_clock::now() + kWholeTimeout;
    auto answer = call();
    while (!answer.ok() && !absl::IsFailedPrecondition(StatusOf(answer)) &&
           steady_clock::now() < end) {
      answer = call();
    }
    return answer;
  }
  static absl::Status StatusOf(const absl::Status& status) { return status; }
  template <typename Value>
  static absl::Status StatusOf(const absl::StatusOr<Value>& answer) {
    return answer.status();
  }

  std::vector<bool> Known(const RepositoryId& repository, const std::vector<Digest>& digests) {
    std::vector<LookupResult> results(digests.size());
    const absl::Status status =
        Insist([&] { return WaitFor(teller().Lookup(repository, 2, digests, results)); });
    EXPECT_TRUE(status.ok()) << status;
    std::vector<bool> known;
    known.reserve(results.size());
    for (const LookupResult& result : results) known.push_back(result.verdict != Verdict::kNew);
    return known;
  }

  void LiveOnce() {
    const RepositoryId repository{Cat("name-", ++count), DigestAlgorithm::kBlake3};
    const std::uint64_t first = count.load() * 1'000;
    std::vector<Digest> digests;
    digests.reserve(kCommitters * kEntriesOfEach);
    for (std::uint64_t number = 0; number < kCommitters * kEntriesOfEach; ++number) {
      digests.push_back(DigestOf(first + number));
    }
    // By entry: whether its commit was acknowledged.
    std::vector<char> acknowledged(digests.size());
    std::vector<std::thread> committers;
    committers.reserve(kCommitters);
    for (std::size_t number = 0; number < kCommitters; ++number) {
      committers.emplace_back([&, number] {
        for (std::uint64_t at = 0; at < kEntriesOfEach; at += 4) {
          std::vector<IndexEntry> entries;
          for (std::uint64_t part = at; part < at + 4; ++part) {
            entries.push_back({digests[number * kEntriesOfEach + part], 7, "somewhere"});
          }
          const absl::Status status =
              WaitFor(indexes_[number]->Commit(repository, 1, entries, false));
          for (std::uint64_t part = at; part < at + 4; ++part) {
            acknowledged[number * kEntriesOfEach + part] = status.ok() ? 1 : 0;
          }
          if (absl::IsFailedPrecondition(status)) return;
        }
      });
    }
    std::this_thread::sleep_for(milliseconds(random_.Below(20)));
    const auto told = Insist([&] { return WaitFor(teller().AdvanceEpoch(repository, 2, 0)); });
    const std::vector<bool> then = Known(repository, digests);
    for (std::thread& committer : committers) committer.join();
    // Those that were given up may still be on their way.
    std::this_thread::sleep_for(milliseconds(kNodeTimeoutMs / 7));
    const std::vector<bool> now = Known(repository, digests);
    ASSERT_TRUE(told.ok()) << told.status();
    for (std::size_t at = 0; at < digests.size(); ++at) {
      EXPECT_TRUE(then[at] || !now[at]) << at << " of " << repository.name << " came late";
      EXPECT_TRUE(acknowledged[at] == 0 || now[at])
          << at << " of " << repository.name << " is lost";
      if (!now[at]) ++late_count;
    }
    const auto stats = Insist([&] { return WaitFor(teller().Stats(repository)); });
    EXPECT_EQ(stats->epoch, 2u);
  }

  std::vector<std::unique_ptr<Index>> indexes_;
  Random random_{TestSeed()};
};

void MakeNamesInTrouble(TestRedis::Kind kind, int replica_count) {
  TestRedis redis(kind, "", kNodeTimeoutMs, TestRedis::Log::kAlways);
  NewNames names(redis, replica_count);
  // Of a repository that is made soon.
  const auto any_key = [&names](Random& random) {
    const RepositoryId repository{Cat("name-", names.count.load() + random.Below(3)),
                                  DigestAlgorithm::kBlake3};
    const auto base = static_cast<std::uint32_t>(random.Below(1u << 6));
    return random.OneIn(2) ? MetaKey(RedisTagOf(repository))
                           : BucketKey(RedisTagOf(repository), base, "");
  };
  Trouble trouble(&redis, kind, milliseconds(kNodeTimeoutMs), any_key, TestSeed());
  trouble.Begin();
  names.LiveUntil(steady_clock::now() + TroubleTime());
  trouble.End();
  std::printf("%llu names, %llu entries kept out, %d troubles\n",
              static_cast<unsigned long long>(names.count.load()),
              static_cast<unsigned long long>(names.late_count), trouble.count());
  EXPECT_GT(names.count.load(), 0u);
}

TEST(RedisChaosTest, LateCommitsToNewNamesStayOutOfOneRedis) {
  MakeNamesInTrouble(TestRedis::Kind::kSingle, 0);
}

TEST(RedisChaosTest, LateCommitsToNewNamesStayOutOfACluster) {
  MakeNamesInTrouble(TestRedis::Kind::kCluster, 1);
}

std::vector<IndexEntry> SomeEntries(std::uint64_t count) {
  std::vector<IndexEntry> entries;
  entries.reserve(count);
  for (std::uint64_t number = 0; number < count; ++number) {
    entries.push_back({DigestOf(number), 7, Cat("at ", number)});
  }
  return entries;
}

// How many entries a session of that epoch is told with each verdict.
std::map<Verdict, int> VerdictsOf(Index& index, std::uint64_t epoch,
                                  std::span<const IndexEntry> entries) {
  std::vector<Digest> digests;
  digests.reserve(entries.size());
  for (const IndexEntry& entry : entries) digests.push_back(entry.digest);
  std::vector<LookupResult> results(entries.size());
  const absl::Status status = WaitFor(index.Lookup(kRepository, epoch, digests, results));
  EXPECT_TRUE(status.ok()) << status;
  std::map<Verdict, int> counts;
  for (const LookupResult& result : results) ++counts[result.verdict];
  return counts;
}

void CopyFolder(const std::string& from, const std::string& to) {
  std::filesystem::remove_all(to);
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
}

// What it has answered lies in its files when it is killed. With a sync a second it may not: a disk
// that is busy with the last one holds the next write up.
TestRedis SingleThatKeepsWhatItSays() {
  return TestRedis(TestRedis::Kind::kSingle, "", kNodeTimeoutMs, TestRedis::Log::kAlways);
}

TEST(RedisChaosTest, AnOldCopyOfANodesFilesIsUnverified) {
  TestRedis redis = SingleThatKeepsWhatItSays();
  const auto index = OpenRedisOn(redis, 0);
  const std::vector<IndexEntry> entries = SomeEntries(300);
  const auto gone = std::span(entries).first(100);
  const auto kept = std::span(entries).subspan(100);
  ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, entries, false)).ok());
  ExpectEpochBefore(*index, WaitFor(index->AdvanceEpoch(kRepository, 2, 0)), 0, 2);
  const std::string folder = redis.NodeFolder(1) + "/appendonlydir";
  redis.Do({"kill", "1"});
  CopyFolder(folder, folder + ".old");
  redis.Do({"start", "1"});
  ExpectForgotten(*index, WaitFor(index->Forget(kRepository, gone)), gone.size());
  ExpectEpochBefore(*index, WaitFor(index->AdvanceEpoch(kRepository, 3, 2)), 2, 3);
  EXPECT_EQ(VerdictsOf(*index, 3, gone)[Verdict::kNew], 100);
  EXPECT_EQ(VerdictsOf(*index, 3, kept)[Verdict::kDuplicate], 200);
  redis.Do({"kill", "1"});
  CopyFolder(folder + ".old", folder);
  redis.Do({"start", "1"});
  EXPECT_EQ(VerdictsOf(*index, 3, gone)[Verdict::kUnverified], 100);
  EXPECT_EQ(VerdictsOf(*index, 3, kept)[Verdict::kUnverified], 200);
  EXPECT_EQ(WaitFor(index->Forget(kRepository, gone.first(1)))->epoch, 2u);
  EXPECT_EQ(WaitFor(index->AdvanceEpoch(kRepository, 4, 3)).value(), 2u);
  EXPECT_EQ(WaitFor(index->Stats(kRepository))->epoch, 2u);
}

// Within one epoch nothing but the count says that an entry which is back had been removed.
TEST(RedisChaosTest, WhatAnotherRemovedIsCountedUntilItIsSetBack) {
  TestRedis redis = SingleThatKeepsWhatItSays();
  const auto index = OpenRedisOn(redis, 0);
  const std::vector<IndexEntry> entries = SomeEntries(50);
  ASSERT_TRUE(WaitFor(index->Commit(kRepository, 1, entries, false)).ok());
  ASSERT_TRUE(WaitFor(index->AdvanceEpoch(kRepository, 2, 0)).ok());
  const std::string folder = redis.NodeFolder(1) + "/appendonlydir";
  redis.Do({"kill", "1"});
  CopyFolder(folder, folder + ".old");
  redis.Do({"start", "1"});
  const auto another = OpenRedisOn(redis, 0);
  ExpectForgotten(*another, WaitFor(another->Forget(kRepository, entries)), entries.size());
  auto seen = WaitFor(index->Forget(kRepository, entries));
  EXPECT_EQ(seen->forgotten_count, 0u);
  EXPECT_EQ(seen->epoch, 2u);
  EXPECT_GE(seen->removed_count, 50u);
  redis.Do({"kill", "1"});
  CopyFolder(folder + ".old", folder);
  redis.Do({"start", "1"});
  EXPECT_EQ(VerdictsOf(*index, 2, entries)[Verdict::kDuplicate], 50);
  EXPECT_EQ(
      WaitFor(index->ForgetOlder(kRepository, 1, std::nullopt, 1000))->forgotten.removed_count, 0u);
}

// The replica was down while its master was told to forget, and takes over from it.
TEST(RedisChaosTest, AReplicaThatLagsIsUnverifiedOnceItIsMaster) {
  TestRedis redis(TestRedis::Kind::kCluster, "", kNodeTimeoutMs);
  const auto careful = OpenRedisOn(redis, 1);
  const std::vector<IndexEntry> entries = SomeEntries(300);
  ASSERT_TRUE(WaitFor(careful->Commit(kRepository, 1, entries, false)).ok());
  ASSERT_TRUE(WaitFor(careful->AdvanceEpoch(kRepository, 2, 0)).ok());
  const auto status_of = [&](int node) {
    return nlohmann::json::parse(redis.Do({"status", "--json"}))["nodes"][node - 1];
  };
  int replica = 1;
  while (status_of(replica)["role"] != "replica") ++replica;
  const int master = status_of(replica)["master"].get<int>();
  redis.Do({"kill", std::to_string(replica)});
  const auto careless = OpenRedisOn(redis, 0);
  ExpectForgotten(*careless, WaitFor(careless->Forget(kRepository, entries)), entries.size());
  ExpectEpochBefore(*careless, WaitFor(careless->AdvanceEpoch(kRepository, 3, 2)), 2, 3);
  EXPECT_EQ(VerdictsOf(*careless, 3, entries)[Verdict::kNew], 300);
  redis.Do({"kill", std::to_string(master)});
  redis.Do({"start", std::to_string(replica)});
  const auto end = steady_clock::now() + kWholeTimeout;
  std::string output;
  while (status_of(replica)["role"] != "master" && steady_clock::now() < end) {
    redis.Try({"failover", std::to_string(replica), "--force"}, output);
  }
  ASSERT_EQ(status_of(replica)["role"], "master") << output;
  std::map<Verdict, int> verdicts = VerdictsOf(*careless, 3, entries);
  EXPECT_EQ(verdicts[Verdict::kDuplicate], 0);
  EXPECT_GT(verdicts[Verdict::kUnverified], 0);
  EXPECT_EQ(WaitFor(careless->AdvanceEpoch(kRepository, 4, 3)).value(), 2u);
}

}  // namespace
}  // namespace kerf
