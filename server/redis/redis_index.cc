#include "server/redis/redis_index.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "base/strings.h"
#include "server/index/arguments.h"
#include "server/index/codec.h"
#include "server/index/rules.h"
#include "server/redis/buckets.h"
#include "server/redis/master_checks.h"
#include "server/redis/script.h"
#include "server/redis/scripts.h"
#include "server/redis/task.h"
#include "server/redis/wait_for.h"

namespace kerf {
namespace {

// How often a call reads again because others write to the same bucket.
constexpr int kMaxConflicts = 100;
// Base buckets that a call which looks at all of them asks for at a time.
constexpr std::size_t kWalkWidth = 256;
constexpr std::string_view kLayoutVersion = "1";
constexpr std::uint64_t kNoEpoch = std::numeric_limits<std::uint64_t>::max();

absl::Status NotUnderstood(std::string_view what, const absl::StatusOr<RedisReply>& reply) {
  if (!reply.ok()) return reply.status();
  if (reply->kind == RedisReply::Kind::kError) {
    return absl::UnavailableError(ToAbsl(Cat("Redis: ", what, ": ", reply->text)));
  }
  return absl::DataLossError(ToAbsl(Cat("Redis: ", what, ": an answer that kerf cannot have got")));
}

bool IsArrayOf(const absl::StatusOr<RedisReply>& reply, std::size_t size) {
  return reply.ok() && reply->kind == RedisReply::Kind::kArray && reply->elements.size() == size;
}

// A repository as this process knows it.
struct Repository {
  Repository(RepositoryId repository, int bits)
      : id(std::move(repository)),
        tag(RedisTagOf(id)),
        base_bits(bits),
        path_bits(std::size_t{1} << bits) {}

  std::uint32_t base_count() const { return std::uint32_t{1} << base_bits; }

  const RepositoryId id;
  const std::string tag;
  const int base_bits;
  // By base bucket: how long the path of the bucket was that was found there last.
  std::vector<std::atomic<std::uint8_t>> path_bits;
};
using RepositoryPtr = std::shared_ptr<Repository>;

// Of a bucket, as the scripts want them.
std::vector<std::string> KeysOf(std::string_view tag, std::uint32_t base, std::string_view path) {
  return {BucketKey(tag, base, path), LongestPathKey(tag, base)};
}

// What a call wants of one bucket.
struct Group {
  std::uint32_t base = 0;
  std::string path;
  // Into the call's digests.
  std::vector<std::size_t> at;
  BucketContent content;
};

// A bucket as a walk sees it.
struct WalkedBucket {
  std::uint32_t base = 0;
  std::string path;
  std::string epoch_value;
  std::uint64_t epoch = 0;
  std::uint64_t entry_count = 0;
};

class Leaf final : public RedisIndex {
 public:
  Leaf(RedisIndexOptions options, std::unique_ptr<RedisClient> client)
      : options_(std::move(options)), client_(std::move(client)) {}

  void Close() override { client_->Close(); }

  void Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
              std::span<const Digest> digests, std::span<LookupResult> results,
              Done done) override {
    RunLookup(repository, session_epoch, digests, results, std::move(done));
  }
  void Commit(const RepositoryId& repository, std::uint64_t session_epoch,
              std::span<const IndexEntry> entries, bool replace, Done done) override {
    RunCommit(repository, session_epoch, entries, replace, std::move(done));
  }
  void Forget(const RepositoryId& repository, std::span<const IndexEntry> entries,
              Done done) override {
    RunForget(repository, entries,
              [done = std::move(done)](const absl::StatusOr<ForgetResult>& result) {
                done(result.status());
              });
  }
  void ForgetAndCount(const RepositoryId& repository, std::span<const IndexEntry> entries,
                      ForgetDone done) override {
    RunForget(repository, entries, std::move(done));
  }
  void AdvanceEpoch(const RepositoryId& repository, std::uint64_t epoch, std::uint64_t min_before,
                    EpochDone done) override {
    RunAdvance(repository, epoch, min_before, std::move(done));
  }
  void Scan(const RepositoryId& repository, const std::optional<Digest>& after, std::size_t limit,
            ScanDone done) override {
    RunScan(repository, after, limit, std::move(done));
  }
  void Stats(const RepositoryId& repository, StatsDone done) override {
    RunStats(repository, std::move(done));
  }

 private:
  Detached RunLookup(RepositoryId id, std::uint64_t session_epoch, std::span<const Digest> digests,
                     std::span<LookupResult> results, Done done) {
    absl::Status status = ValidateLookup(id, digests, results.size());
    if (!status.ok()) co_return done(status);
    std::fill(results.begin(), results.end(), LookupResult());
    auto repository = co_await Load(id, /*create=*/false);
    if (!repository.ok() || *repository == nullptr) co_return done(repository.status());
    auto groups = co_await Read(**repository, digests);
    if (!groups.ok()) co_return done(groups.status());
    for (const Group& group : *groups) {
      for (std::size_t index = 0; index < group.at.size(); ++index) {
        absl::StatusOr<LookupResult> result = LookupIn(group.content, index, session_epoch);
        if (!result.ok()) co_return done(result.status());
        results[group.at[index]] = *std::move(result);
      }
    }
    done(absl::OkStatus());
  }

  Detached RunCommit(RepositoryId id, std::uint64_t session_epoch,
                     std::span<const IndexEntry> entries, bool replace, Done done) {
    absl::Status status = ValidateCommit(id, entries);
    if (!status.ok() || entries.empty()) co_return done(status);
    auto repository = co_await Load(id, /*create=*/true);
    if (!repository.ok()) co_return done(repository.status());
    const Repository& known = **repository;
    const Plan plan = [&](const Group& group) {
      return PlanBucketCommit(known.id, group.content, session_epoch, EntriesOf(group, entries),
                              replace);
    };
    done(co_await Change(**repository, entries, plan, nullptr));
  }

  Detached RunForget(RepositoryId id, std::span<const IndexEntry> entries, ForgetDone done) {
    ForgetResult result;
    absl::Status status = ValidateForget(id, entries);
    if (!status.ok()) co_return done(status);
    auto repository = co_await Load(id, /*create=*/false);
    if (!repository.ok()) co_return done(repository.status());
    if (*repository == nullptr) co_return done(result);
    Repository& known = **repository;
    result.epoch = kNoEpoch;
    const Plan plan = [&](const Group& group) {
      result.epoch = std::min(result.epoch, group.content.epoch);
      return PlanBucketForget(known.id, group.content, EntriesOf(group, entries));
    };
    status = co_await Change(known, entries, plan, &result.forgotten_count);
    if (!status.ok()) co_return done(status);
    if (entries.empty()) {
      auto walked = co_await Walk(known, 0, known.base_count());
      if (!walked.ok()) co_return done(walked.status());
      result.epoch = LowestEpoch(*walked, known);
    }
    done(result);
  }

  Detached RunAdvance(RepositoryId id, std::uint64_t epoch, std::uint64_t min_before,
                      EpochDone done) {
    absl::Status status = ValidateRepository(id);
    if (!status.ok()) co_return done(status);
    auto repository = co_await Load(id, /*create=*/true);
    if (!repository.ok()) co_return done(repository.status());
    Repository& known = **repository;
    std::uint64_t before = kNoEpoch;
    for (int round = 0; round < kMaxConflicts; ++round) {
      auto walked = co_await Walk(known, 0, known.base_count());
      if (!walked.ok()) co_return done(walked.status());
      const std::uint64_t lowest = LowestEpoch(*walked, known);
      // Those that an earlier round has raised say nothing about what was.
      before = round == 0 ? lowest : before;
      if (lowest < min_before) co_return done(lowest);
      if (round == 0) status = index_rules::CheckAdvance(before, epoch);
      if (!status.ok()) co_return done(status);
      std::vector<ScriptCall> calls;
      const std::string wanted = index_codec::EncodeNumber(epoch);
      for (const WalkedBucket& bucket : *walked) {
        if (bucket.epoch > epoch) {
          co_return done(index_rules::CheckAdvance(bucket.epoch, epoch));
        }
        if (bucket.epoch == epoch) continue;
        calls.push_back(
            {KeysOf(known.tag, bucket.base, bucket.path), {bucket.epoch_value, wanted}});
      }
      if (calls.empty()) co_return done(before);
      RedisReplies replies = co_await RunScript(*client_, redis_scripts::kChange, std::move(calls),
                                                options_.replica_count);
      for (const auto& reply : replies) {
        if (!IsArrayOf(reply, 2)) co_return done(NotUnderstood("raising an epoch", reply));
      }
    }
    done(absl::UnavailableError("the epochs in Redis change faster than they can be raised"));
  }

  Detached RunScan(RepositoryId id, std::optional<Digest> after, std::size_t limit, ScanDone done) {
    absl::Status status = ValidateScan(id, after);
    if (!status.ok()) co_return done(status);
    std::vector<IndexEntry> page;
    auto repository = co_await Load(id, /*create=*/false);
    if (!repository.ok()) co_return done(repository.status());
    if (*repository == nullptr || limit == 0) co_return done(page);
    Repository& known = **repository;
    std::uint32_t base = after.has_value() ? BaseOf(*after, known.base_bits) : 0;
    for (; base < known.base_count() && page.size() < limit; ++base) {
      auto entries = co_await ScanBase(known, base, after);
      if (!entries.ok()) co_return done(entries.status());
      const std::size_t count = std::min(limit - page.size(), entries->size());
      std::move(entries->begin(), entries->begin() + static_cast<std::ptrdiff_t>(count),
                std::back_inserter(page));
    }
    done(page);
  }

  Detached RunStats(RepositoryId id, StatsDone done) {
    IndexStats stats;
    absl::Status status = ValidateRepository(id);
    if (!status.ok()) co_return done(status);
    auto repository = co_await Load(id, /*create=*/false);
    if (!repository.ok()) co_return done(repository.status());
    if (*repository == nullptr) co_return done(stats);
    auto walked = co_await Walk(**repository, 0, (*repository)->base_count());
    if (!walked.ok()) co_return done(walked.status());
    for (const WalkedBucket& bucket : *walked) stats.entry_count += bucket.entry_count;
    stats.epoch = LowestEpoch(*walked, **repository);
    done(stats);
  }

  using Plan = std::function<absl::StatusOr<std::vector<FieldChange>>(const Group& group)>;

  static std::vector<IndexEntry> EntriesOf(const Group& group,
                                           std::span<const IndexEntry> entries) {
    std::vector<IndexEntry> own;
    own.reserve(group.at.size());
    for (const std::size_t index : group.at) own.push_back(entries[index]);
    return own;
  }

  // Reads, plans all before anything is written, writes, and does again what others were faster at.
  Task<absl::Status> Change(Repository& repository, std::span<const IndexEntry> entries,
                            const Plan& plan, std::uint64_t* removed_count) {
    std::vector<Digest> digests;
    digests.reserve(entries.size());
    for (const IndexEntry& entry : entries) digests.push_back(entry.digest);
    std::vector<std::size_t> left(entries.size());
    for (std::size_t index = 0; index < left.size(); ++index) left[index] = index;
    for (int round = 0; !left.empty(); ++round) {
      if (round == kMaxConflicts) {
        co_return absl::UnavailableError("too many write to the same entries in Redis at once");
      }
      auto groups = co_await ReadSome(repository, digests, std::move(left));
      left.clear();
      if (!groups.ok()) co_return groups.status();
      std::vector<ScriptCall> calls;
      std::vector<const Group*> changed;
      std::vector<std::uint64_t> removed;
      for (const Group& group : *groups) {
        auto changes = plan(group);
        if (!changes.ok()) co_return changes.status();
        if (changes->empty()) continue;
        calls.push_back(CallOf(repository, group, *changes));
        changed.push_back(&group);
        removed.push_back(static_cast<std::uint64_t>(
            std::count_if(changes->begin(), changes->end(),
                          [](const FieldChange& change) { return change.wanted.empty(); })));
      }
      RedisReplies replies = co_await RunScript(*client_, redis_scripts::kChange, std::move(calls),
                                                options_.replica_count);
      for (std::size_t index = 0; index < replies.size(); ++index) {
        const Group& group = *changed[index];
        if (!IsArrayOf(replies[index], 2)) {
          co_return NotUnderstood("writing entries", replies[index]);
        }
        if (replies[index]->elements[0].integer == 0) {
          left.insert(left.end(), group.at.begin(), group.at.end());
          continue;
        }
        if (removed_count != nullptr) *removed_count += removed[index];
        if (replies[index]->elements[1].integer > static_cast<std::int64_t>(kMaxBucketEntries)) {
          Split(repository, group);
        }
      }
      std::sort(left.begin(), left.end());
    }
    co_return absl::OkStatus();
  }

  static ScriptCall CallOf(const Repository& repository, const Group& group,
                           const std::vector<FieldChange>& changes) {
    ScriptCall call;
    call.keys = KeysOf(repository.tag, group.base, group.path);
    const std::string epoch = group.content.epoch_value.value_or("");
    call.arguments = {epoch, epoch.empty() ? index_codec::EncodeNumber(0) : epoch};
    for (const FieldChange& change : changes) {
      call.arguments.insert(call.arguments.end(), {change.field, change.expected, change.wanted});
    }
    return call;
  }

  // Nobody waits for it; if it fails, the next commit tries again.
  void Split(const Repository& repository, const Group& group) {
    if (group.path.size() >= static_cast<std::size_t>(kMaxPathBits)) return;
    RunSplit({KeysOf(repository.tag, group.base, group.path),
              {Cat(repository.base_bits + static_cast<int>(group.path.size())),
               Cat(kMaxBucketEntries), Cat(group.path.size() + 1)}});
  }
  Detached RunSplit(ScriptCall call) {
    std::vector<ScriptCall> calls;
    calls.push_back(std::move(call));
    co_await RunScript(*client_, redis_scripts::kSplit, std::move(calls), options_.replica_count);
  }

  Task<absl::StatusOr<std::vector<Group>>> Read(Repository& repository,
                                                std::span<const Digest> digests) {
    std::vector<std::size_t> all(digests.size());
    for (std::size_t index = 0; index < all.size(); ++index) all[index] = index;
    co_return co_await ReadSome(repository, digests, std::move(all));
  }

  // The buckets of digests[wanted[i]]. A base bucket that is missing altogether is given as an
  // empty one.
  Task<absl::StatusOr<std::vector<Group>>> ReadSome(Repository& repository,
                                                    std::span<const Digest> digests,
                                                    std::vector<std::size_t> wanted) {
    std::vector<Group> found;
    std::vector<Group> groups = GroupsOf(repository, digests, wanted);
    for (int round = 0; !groups.empty(); ++round) {
      if (round == kMaxConflicts) {
        co_return absl::UnavailableError("the buckets in Redis split faster than they are found");
      }
      std::vector<RedisCommand> commands;
      commands.reserve(groups.size());
      for (const Group& group : groups) commands.push_back(ReadOf(repository, digests, group));
      SendAll send(*client_, std::move(commands));
      RedisReplies replies = co_await send;
      std::vector<std::size_t> lost;
      for (std::size_t index = 0; index < groups.size(); ++index) {
        Group& group = groups[index];
        absl::Status status = Fill(group, replies[index]);
        if (!status.ok()) co_return status;
        if (group.content.epoch_value.has_value()) {
          repository.path_bits[group.base].store(static_cast<std::uint8_t>(group.path.size()));
          found.push_back(std::move(group));
        } else {
          lost.insert(lost.end(), group.at.begin(), group.at.end());
        }
      }
      auto placed = co_await Place(repository, digests, lost);
      if (!placed.ok()) co_return placed.status();
      groups.clear();
      for (Group& group : *placed) {
        // Not there at all: whoever writes makes it.
        (group.content.values.empty() ? groups : found).push_back(std::move(group));
      }
    }
    co_return found;
  }

  static std::vector<Group> GroupsOf(const Repository& repository, std::span<const Digest> digests,
                                     const std::vector<std::size_t>& wanted) {
    std::map<std::pair<std::uint32_t, std::string>, Group> by_bucket;
    for (const std::size_t index : wanted) {
      const std::uint32_t base = BaseOf(digests[index], repository.base_bits);
      std::string path =
          PathOf(digests[index], repository.base_bits, repository.path_bits[base].load());
      Group& group = by_bucket[{base, path}];
      group.base = base;
      group.path = std::move(path);
      group.at.push_back(index);
    }
    std::vector<Group> groups;
    groups.reserve(by_bucket.size());
    for (auto& [bucket, group] : by_bucket) groups.push_back(std::move(group));
    return groups;
  }

  static RedisCommand ReadOf(const Repository& repository, std::span<const Digest> digests,
                             const Group& group) {
    RedisCommand command;
    command.key = BucketKey(repository.tag, group.base, group.path);
    command.arguments = {"HMGET", command.key, std::string(kEpochField)};
    for (const std::size_t index : group.at) {
      command.arguments.emplace_back(index_codec::DigestKey(repository.id, digests[index]));
    }
    return command;
  }

  static absl::Status Fill(Group& group, const absl::StatusOr<RedisReply>& reply) {
    if (!IsArrayOf(reply, group.at.size() + 1)) return NotUnderstood("reading entries", reply);
    if (reply->elements[0].kind == RedisReply::Kind::kNil) return absl::OkStatus();
    group.content.epoch_value = reply->elements[0].text;
    KERF_ASSIGN_OR_RETURN(group.content.epoch, index_codec::ParseNumber(reply->elements[0].text));
    for (std::size_t index = 1; index < reply->elements.size(); ++index) {
      group.content.values.push_back(reply->elements[index].text);
    }
    return absl::OkStatus();
  }

  // Where the digests' buckets are now. Those of a base bucket that is missing come as its base
  // bucket, empty.
  Task<absl::StatusOr<std::vector<Group>>> Place(Repository& repository,
                                                 std::span<const Digest> digests,
                                                 const std::vector<std::size_t>& lost) {
    std::map<std::uint32_t, std::vector<std::size_t>> by_base;
    for (const std::size_t index : lost) {
      by_base[BaseOf(digests[index], repository.base_bits)].push_back(index);
    }
    std::vector<ScriptCall> calls;
    for (const auto& [base, at] : by_base) {
      ScriptCall& call = calls.emplace_back();
      call.keys = {BucketKey(repository.tag, base, "")};
      for (const std::size_t index : at) {
        call.arguments.push_back(PathOf(digests[index], repository.base_bits, kMaxPathBits));
      }
    }
    RedisReplies replies = co_await RunScript(*client_, redis_scripts::kFind, std::move(calls), 0);
    std::map<std::pair<std::uint32_t, std::string>, Group> placed;
    std::size_t number = 0;
    for (const auto& [base, at] : by_base) {
      const auto& reply = replies[number++];
      if (!IsArrayOf(reply, at.size())) co_return NotUnderstood("finding buckets", reply);
      for (std::size_t index = 0; index < at.size(); ++index) {
        const std::int64_t bits = reply->elements[index].integer;
        const bool is_there = bits >= 0 && bits <= kMaxPathBits;
        std::string path =
            PathOf(digests[at[index]], repository.base_bits, is_there ? static_cast<int>(bits) : 0);
        Group& group = placed[{base, path}];
        group.base = base;
        group.path = std::move(path);
        group.at.push_back(at[index]);
        if (!is_there) group.content.values.emplace_back();
      }
    }
    std::vector<Group> groups;
    groups.reserve(placed.size());
    for (auto& [bucket, group] : placed) groups.push_back(std::move(group));
    co_return groups;
  }

  Task<absl::StatusOr<std::vector<WalkedBucket>>> Walk(Repository& repository, std::uint32_t first,
                                                       std::uint32_t last) {
    std::vector<WalkedBucket> buckets;
    for (std::uint32_t begin = first; begin < last; begin += kWalkWidth) {
      const std::uint32_t end = std::min<std::uint32_t>(last, begin + kWalkWidth);
      std::vector<ScriptCall> calls;
      for (std::uint32_t base = begin; base < end; ++base) {
        calls.push_back({KeysOf(repository.tag, base, ""), {}});
      }
      RedisReplies replies =
          co_await RunScript(*client_, redis_scripts::kWalk, std::move(calls), 0);
      for (std::uint32_t base = begin; base < end; ++base) {
        const auto& reply = replies[base - begin];
        if (!reply.ok() || reply->kind != RedisReply::Kind::kArray ||
            reply->elements.size() % 3 != 0) {
          co_return NotUnderstood("walking the buckets", reply);
        }
        // Missing: nothing says what it knew.
        if (reply->elements.empty()) buckets.push_back({base, "", "", 0, 0});
        for (std::size_t at = 0; at < reply->elements.size(); at += 3) {
          WalkedBucket bucket{base, reply->elements[at].text, reply->elements[at + 1].text, 0,
                              static_cast<std::uint64_t>(reply->elements[at + 2].integer)};
          auto epoch = index_codec::ParseNumber(bucket.epoch_value);
          if (!epoch.ok()) co_return epoch.status();
          bucket.epoch = *epoch;
          buckets.push_back(std::move(bucket));
        }
      }
    }
    co_return buckets;
  }

  static std::uint64_t LowestEpoch(const std::vector<WalkedBucket>& buckets, const Repository&) {
    std::uint64_t lowest = kNoEpoch;
    for (const WalkedBucket& bucket : buckets) lowest = std::min(lowest, bucket.epoch);
    return lowest;
  }

  Task<absl::StatusOr<std::vector<IndexEntry>>> ScanBase(Repository& repository, std::uint32_t base,
                                                         const std::optional<Digest>& after) {
    auto walked = co_await Walk(repository, base, base + 1);
    if (!walked.ok()) co_return walked.status();
    std::vector<RedisCommand> commands;
    for (const WalkedBucket& bucket : *walked) {
      RedisCommand command;
      command.key = BucketKey(repository.tag, base, bucket.path);
      command.arguments = {"HGETALL", command.key};
      commands.push_back(std::move(command));
    }
    SendAll send(*client_, std::move(commands));
    RedisReplies replies = co_await send;
    std::vector<IndexEntry> entries;
    for (const auto& reply : replies) {
      if (!reply.ok() || reply->kind != RedisReply::Kind::kArray) {
        co_return NotUnderstood("scanning a bucket", reply);
      }
      for (std::size_t at = 0; at + 1 < reply->elements.size(); at += 2) {
        if (reply->elements[at].text == kEpochField) continue;
        auto digest = index_codec::ParseDigestKey(repository.id, reply->elements[at].text);
        if (!digest.ok()) co_return digest.status();
        if (after.has_value() && !(*after < *digest)) continue;
        auto value = index_codec::ParseEntry(reply->elements[at + 1].text);
        if (!value.ok()) co_return value.status();
        entries.push_back({*digest, value->length_bytes, std::string(value->locator)});
      }
    }
    std::sort(entries.begin(), entries.end(),
              [](const IndexEntry& a, const IndexEntry& b) { return a.digest < b.digest; });
    co_return entries;
  }

  // Null if there is none and it is not to be made.
  Task<absl::StatusOr<RepositoryPtr>> Load(const RepositoryId& id, bool create) {
    const std::string tag = RedisTagOf(id);
    {
      const std::lock_guard lock(mutex_);
      const auto found = repositories_.find(tag);
      if (found != repositories_.end()) co_return found->second;
    }
    RedisCommand read;
    read.key = MetaKey(tag);
    read.arguments = {"HMGET", read.key, "version", "name", "digest", "base_bits"};
    std::vector<RedisCommand> commands;
    commands.push_back(std::move(read));
    SendAll send(*client_, std::move(commands));
    RedisReplies replies = co_await send;
    if (!IsArrayOf(replies[0], 4)) co_return NotUnderstood("reading a repository", replies[0]);
    const std::vector<RedisReply>& fields = replies[0]->elements;
    int base_bits = kDefaultBaseBits;
    if (fields[0].kind == RedisReply::Kind::kNil) {
      if (!create) co_return RepositoryPtr();
      const absl::Status made = co_await Make(id, tag, base_bits);
      if (!made.ok()) co_return made;
    } else {
      if (fields[0].text != kLayoutVersion) {
        co_return absl::FailedPreconditionError(
            ToAbsl(Cat("the layout of repository '", id.name, "' in Redis is of version ",
                       fields[0].text, "; this kerfd knows version ", kLayoutVersion)));
      }
      if (fields[1].text != id.name) {
        co_return absl::FailedPreconditionError(ToAbsl(
            Cat("the place of repository '", id.name, "' in Redis is taken by another one")));
      }
      const bool is_number = absl::SimpleAtoi(fields[3].text, &base_bits);
      if (!is_number || base_bits < 1 || base_bits > kMaxBaseBits) {
        co_return NotUnderstood("reading a repository", replies[0]);
      }
    }
    auto repository = std::make_shared<Repository>(id, base_bits);
    const std::lock_guard lock(mutex_);
    co_return repositories_.try_emplace(tag, std::move(repository)).first->second;
  }

  // The buckets first: whoever finds the repository finds them. Others may do the same meanwhile.
  Task<absl::Status> Make(const RepositoryId& id, const std::string& tag, int base_bits) {
    const std::string zero = index_codec::EncodeNumber(0);
    std::vector<ScriptCall> calls;
    calls.reserve(std::size_t{1} << base_bits);
    for (std::uint32_t base = 0; base < std::uint32_t{1} << base_bits; ++base) {
      calls.push_back({KeysOf(tag, base, ""), {"", zero}});
    }
    RedisReplies replies = co_await RunScript(*client_, redis_scripts::kChange, std::move(calls),
                                              options_.replica_count);
    for (const auto& reply : replies) {
      if (!IsArrayOf(reply, 2)) co_return NotUnderstood("making a repository", reply);
    }
    RedisCommand write;
    write.key = MetaKey(tag);
    write.arguments = {"HSET",      write.key,
                       "version",   std::string(kLayoutVersion),
                       "name",      id.name,
                       "digest",    std::string(DigestAlgorithmName(id.digest_algorithm)),
                       "base_bits", Cat(base_bits)};
    write.replica_count = options_.replica_count;
    std::vector<RedisCommand> commands;
    commands.push_back(std::move(write));
    SendAll send(*client_, std::move(commands));
    RedisReplies written = co_await send;
    if (!written[0].ok() || written[0]->kind != RedisReply::Kind::kInteger) {
      co_return NotUnderstood("making a repository", written[0]);
    }
    co_return absl::OkStatus();
  }

  const RedisIndexOptions options_;
  std::mutex mutex_;
  std::map<std::string, RepositoryPtr> repositories_;
  // Goes first: its thread runs the calls.
  std::unique_ptr<RedisClient> client_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RedisIndex>> RedisIndex::Open(RedisIndexOptions options,
                                                             std::vector<std::string>* warnings) {
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<RedisClient> client, RedisClient::Create(options.redis));
  KERF_RETURN_IF_ERROR(
      WaitForMasters(*client, options.replica_count, options.redis.command_timeout, warnings));
  return std::unique_ptr<RedisIndex>(std::make_unique<Leaf>(std::move(options), std::move(client)));
}

}  // namespace kerf
