// A single Redis with a repository of the third layout (docs/adr/0022), and what its heads and
// buckets say there. Included by the test that is made of it alone.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "server/redis/buckets.h"
#include "server/redis/redis_client.h"
#include "server/redis/redis_index.h"
#include "server/redis/testing/expect_counts.h"
#include "server/redis/testing/test_redis.h"
#include "server/redis/wait_for.h"

namespace kerf {

inline const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};
inline constexpr int kBaseBits = 2;

inline IndexEntry Entry(std::uint8_t first, std::uint8_t rest, const std::string& locator) {
  IndexEntry entry{{}, 7, locator};
  entry.digest.bytes.fill(rest);
  entry.digest.bytes[0] = first;
  return entry;
}
// In base buckets 3 and 1.
inline const IndexEntry kOne = Entry(0xC0, 0xEE, "pack-a");
inline const IndexEntry kBesideIt = Entry(0xC1, 0xDD, "pack-b");
inline const IndexEntry kElsewhere = Entry(0x40, 0xCC, "pack-c");
inline constexpr std::uint32_t kBase = 3;

// Somebody else does something between two commands of an index: before the first one of which
// `is_it` says so, which is asked of each.
class OvertakenClient final : public RedisClient {
 public:
  using IsIt = std::function<bool(const RedisCommand& command)>;

  OvertakenClient(std::unique_ptr<RedisClient> client, IsIt is_it, std::function<void()> act)
      : client_(std::move(client)), is_it_(std::move(is_it)), act_(std::move(act)) {}

  void Send(RedisCommand command, Done done) override {
    if (IsTheFirst(command)) act_();
    client_->Send(std::move(command), std::move(done));
  }
  void ReadMasters(MastersDone done, std::chrono::milliseconds timeout) override {
    client_->ReadMasters(std::move(done), timeout);
  }
  void ReadSlots(SlotsDone done) override { client_->ReadSlots(std::move(done)); }
  void Close() override { client_->Close(); }
  void ExpectIdentity(std::vector<std::string> known) override {
    client_->ExpectIdentity(std::move(known));
  }
  RedisCounters counters() const override { return client_->counters(); }
  std::optional<std::int64_t> certificate_expires_at_s() const override {
    return client_->certificate_expires_at_s();
  }

 private:
  bool IsTheFirst(const RedisCommand& command) {
    const std::lock_guard lock(mutex_);
    return is_it_(command) && !std::exchange(is_done_, true);
  }

  const std::unique_ptr<RedisClient> client_;
  std::mutex mutex_;
  const IsIt is_it_;
  bool is_done_ = false;
  const std::function<void()> act_;
};

class HeadsFixture : public ::testing::Test {
 protected:
  RedisReply Ask(std::vector<std::string> arguments) {
    auto reply = WaitFor<absl::StatusOr<RedisReply>>([&](auto done) {
      client_->Send({"", std::nullopt, std::move(arguments)}, std::move(done));
    });
    KERF_CHECK(reply.ok());
    EXPECT_NE(reply->kind, RedisReply::Kind::kError) << reply->text;
    return *std::move(reply);
  }
  std::string Meta() const { return MetaKey(tag_); }
  std::string Head(std::uint32_t base = kBase) const { return HeadKey(tag_, base); }
  std::string Bucket(std::uint32_t base = kBase, const std::string& path = "") const {
    return BucketKey(tag_, base, path);
  }
  std::string Field(const std::string& key, const std::string& field) {
    return Ask({"HGET", key, field}).text;
  }
  std::string EpochAt(const std::string& key) { return Field(key, "e"); }
  // Of all keys that begin so.
  std::size_t CountOf(const std::string& prefix) {
    return Ask({"KEYS", prefix + "*"}).elements.size();
  }

  std::unique_ptr<RedisIndex> Open(RedisLayout layout = RedisLayout::kHeads) {
    return OpenWith(layout, nullptr);
  }
  // One that is overtaken.
  std::unique_ptr<RedisIndex> OpenOvertaken(RedisLayout layout, OvertakenClient::IsIt is_it,
                                            std::function<void()> act) {
    return OpenWith(layout, [is_it = std::move(is_it),
                             act = std::move(act)](std::unique_ptr<RedisClient> client) {
      return std::make_unique<OvertakenClient>(std::move(client), is_it, act);
    });
  }

  static absl::Status Commit(Index& index, std::uint64_t epoch,
                             const std::vector<IndexEntry>& entries, bool replace = false) {
    return WaitFor(index.Commit(kRepository, epoch, entries, replace));
  }
  static ForgetResult Forget(Index& index, const std::vector<IndexEntry>& entries) {
    const auto forgotten = WaitFor(index.Forget(kRepository, entries));
    EXPECT_TRUE(forgotten.ok()) << forgotten.status();
    return forgotten.ok() ? *forgotten : ForgetResult();
  }
  static ForgetResult ForgetOlder(Index& index, std::uint64_t epoch) {
    const auto forgotten = WaitFor(index.ForgetOlder(kRepository, epoch, std::nullopt, 1'000'000));
    EXPECT_TRUE(forgotten.ok()) << forgotten.status();
    EXPECT_FALSE(forgotten->last.has_value());
    return forgotten.ok() ? forgotten->forgotten : ForgetResult();
  }
  static LookupResult Lookup(Index& index, std::uint64_t epoch, const IndexEntry& entry) {
    const std::vector<Digest> digests = {entry.digest};
    std::vector<LookupResult> results(1);
    const absl::Status status = WaitFor(index.Lookup(kRepository, epoch, digests, results));
    EXPECT_TRUE(status.ok()) << status;
    return results[0];
  }
  static Verdict VerdictOf(Index& index, std::uint64_t epoch, const IndexEntry& entry) {
    return Lookup(index, epoch, entry).verdict;
  }
  static IndexStats Stats(Index& index) { return *WaitFor(index.Stats(kRepository)); }
  static void ExpectAdvance(RedisIndex& index, std::uint64_t epoch, std::uint64_t min_before,
                            std::uint64_t before) {
    ExpectEpochBefore(index, WaitFor(index.AdvanceEpoch(kRepository, epoch, min_before)), before,
                      epoch);
  }
  static std::vector<IndexEntry> SomeEntries(std::size_t count) {
    Random random(TestSeed());
    std::vector<IndexEntry> entries(count);
    for (IndexEntry& entry : entries) {
      entry = {{}, 7, "at"};
      random.Fill(entry.digest.bytes);
    }
    return entries;
  }
  // So many of them in one base bucket, which is split.
  std::vector<IndexEntry> FillBase(Index& index, std::uint64_t epoch, std::size_t count) {
    std::vector<IndexEntry> entries = SomeEntries(count);
    for (IndexEntry& entry : entries) entry.digest.bytes[0] |= 0xC0;
    // Nobody waits for a split; only what is another one is written, and may lead to the next.
    for (int round = 0; round < 1'000 && CountOf(Bucket()) < 4; ++round) {
      for (IndexEntry& entry : entries) entry.locator = Cat("at ", round);
      EXPECT_TRUE(Commit(index, epoch, entries, true).ok());
    }
    EXPECT_GE(CountOf(Bucket()), 4u);
    return entries;
  }

  std::unique_ptr<RedisIndex> OpenWith(
      RedisLayout layout,
      std::function<std::unique_ptr<RedisClient>(std::unique_ptr<RedisClient>)> wrap_client) {
    RedisIndexOptions options{redis_.options_of_kerfd()};
    options.base_bits = kBaseBits;
    options.layout = layout;
    options.wrap_client = std::move(wrap_client);
    std::vector<std::string> warnings;
    return *RedisIndex::Open(std::move(options), &warnings);
  }

  const TestRedis redis_{TestRedis::Kind::kSingle};
  const std::unique_ptr<RedisClient> client_ = *RedisClient::Create(redis_.options());
  const std::string tag_ = RedisTagOf(kRepository);
};

}  // namespace kerf
