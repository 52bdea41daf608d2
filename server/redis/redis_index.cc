#include "server/redis/redis_index.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/task.h"
#include "server/index/arguments.h"
#include "server/index/codec.h"
#include "server/index/rules.h"
#include "server/logging/logging.h"
#include "server/redis/answers.h"
#include "server/redis/believe.h"
#include "server/redis/bucket_reads.h"
#include "server/redis/buckets.h"
#include "server/redis/forget_older.h"
#include "server/redis/heads.h"
#include "server/redis/master_checks.h"
#include "server/redis/raise.h"
#include "server/redis/repositories.h"
#include "server/redis/repository_steps.h"
#include "server/redis/script.h"
#include "server/redis/scripts.h"
#include "server/redis/send_all.h"
#include "server/redis/walk.h"

namespace kerf {
namespace {

// 0 to `count` - 1.
std::vector<std::size_t> AllOf(std::size_t count) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

class Leaf final : public RedisIndex {
 public:
  Leaf(RedisIndexOptions options, std::unique_ptr<RedisClient> client)
      : options_(std::move(options)),
        first_path_bits_(FirstPathBits(options_.expected_entry_count, options_.base_bits)),
        repositories_(client.get(), options_.replica_count,
                      {options_.base_bits, first_path_bits_, options_.layout}),
        client_(std::move(client)),
        watch_(client_.get(), WatchOptions()) {}

  void Begin() { watch_.Begin(); }
  void Close() override {
    watch_.Stop();
    client_->Close();
  }
  ~Leaf() override { Leaf::Close(); }
  RedisCounters counters() const override { return client_->counters(); }
  std::optional<std::int64_t> certificate_expires_at_s() const override {
    return client_->certificate_expires_at_s();
  }

  std::string_view backend_name() const override { return "redis"; }
  bool is_remote() const override { return true; }
  IndexHealth health() const override {
    IndexHealth health{watch_.health(), watch_.identity()};
    const RedisMemory memory = watch_.memory();
    health.is_full = !memory.full.empty();
    if (health.is_full) health.findings.push_back(DescribeFull(memory));
    return health;
  }
  RedisMemory memory() const override { return watch_.memory(); }

  Task<absl::Status> Lookup(const RepositoryId& id, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    absl::Status status = Admit(ValidateLookup(id, digests, results.size()));
    if (!status.ok()) co_return status;
    std::fill(results.begin(), results.end(), LookupResult());
    auto repository = co_await repositories_.Load(id, /*create=*/false);
    if (!repository.ok()) co_return repository.status();
    if (*repository == nullptr) co_return index_rules::CheckNotAhead(session_epoch, 0);
    const bool knew_heads = (*repository)->has_heads.load();
    auto groups = co_await ReadToBelieve(*client_, **repository, digests, session_epoch);
    // It has met one, whatever the version says: none was read that tells the epoch.
    if (groups.ok() && !knew_heads && (*repository)->has_heads.load()) {
      groups = co_await ReadToBelieve(*client_, **repository, digests, session_epoch);
    }
    if (!groups.ok()) co_return groups.status();
    // What is missing holds nothing; a session that is far ahead is compared with what it would
    // get.
    if (session_epoch > index_rules::kMaxEpochStep && AreAnyWithoutEpoch(*groups)) {
      auto state = co_await repositories_.Read(**repository, 0);
      if (!state.ok()) co_return state.status();
      for (BucketGroup& group : *groups) {
        group.content.epoch_without = state->EpochToMake(group.base);
      }
    }
    std::uint64_t highest_epoch = 0;
    for (const BucketGroup& group : *groups) {
      for (std::size_t index = 0; index < group.at.size(); ++index) {
        absl::StatusOr<LookupResult> result = LookupIn(group.content, index, session_epoch);
        if (!result.ok()) co_return result.status();
        highest_epoch = std::max(highest_epoch, result->repository_epoch);
        results[group.at[index]] = *std::move(result);
      }
    }
    // Buckets that nobody has touched since know an earlier one.
    if ((*repository)->has_heads.load()) {
      for (LookupResult& result : results) result.repository_epoch = highest_epoch;
    }
    co_return absl::OkStatus();
  }

  Task<absl::Status> Commit(const RepositoryId& id, std::uint64_t session_epoch,
                            std::span<const IndexEntry> entries, bool replace) override {
    absl::Status status = Admit(ValidateCommit(id, entries));
    if (!status.ok() || entries.empty()) co_return status;
    auto repository = co_await repositories_.Load(id, /*create=*/true);
    if (!repository.ok()) co_return repository.status();
    const RedisRepository& known = **repository;
    const Plan plan = [&](const BucketGroup& group) {
      return PlanBucketCommit(known.id, group.content, session_epoch, EntriesOf(group, entries),
                              replace);
    };
    co_return co_await Change(*repository, entries, plan, nullptr);
  }

  Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& id,
                                            std::span<const IndexEntry> entries) override {
    ForgetResult result;
    absl::Status status = Admit(ValidateForget(id, entries));
    if (!status.ok()) co_return status;
    auto repository = co_await repositories_.Load(id, /*create=*/false);
    if (!repository.ok()) co_return repository.status();
    if (*repository == nullptr) co_return result;
    RedisRepository& known = **repository;
    result.epoch = kNoEpoch;
    const Plan plan = [&](const BucketGroup& group) {
      return PlanBucketForget(known.id, group.content, EntriesOf(group, entries));
    };
    status = co_await Change(*repository, entries, plan, &result);
    if (!status.ok()) co_return status;
    if (entries.empty()) {
      auto state = co_await repositories_.Read(known, 0);
      if (!state.ok()) co_return state.status();
      auto totals = co_await TotalsNow(*client_, known, *state, 0);
      if (!totals.ok()) co_return totals.status();
      result.epoch = totals->lowest_epoch;
      result.removed_count += totals->removed_count;
    }
    co_return result;
  }

  Task<absl::StatusOr<ForgetOlderResult>> ForgetOlder(const RepositoryId& id, std::uint64_t epoch,
                                                      const std::optional<Digest>& after,
                                                      std::size_t limit) override {
    ForgetOlderResult result;
    absl::Status status = Admit(ValidateStep(id, after, limit));
    if (!status.ok()) co_return status;
    auto repository = co_await repositories_.Load(id, /*create=*/false);
    if (!repository.ok()) co_return repository.status();
    if (*repository == nullptr) {
      status = index_rules::CheckNotAhead(epoch, 0);
      if (!status.ok()) co_return status;
      co_return result;
    }
    RedisRepository& known = **repository;
    result.forgotten.epoch = kNoEpoch;
    auto state = co_await repositories_.Read(known, 0);
    if (!state.ok()) co_return state.status();
    WalkSteps steps(after.has_value() ? BaseOf(*after, known.base_bits) : 0, known.base_count());
    std::size_t seen_count = 0;
    while (seen_count < limit && steps.Next()) {
      auto seen = co_await ForgetOlderIn(*client_, known, *state, steps, after, epoch,
                                         options_.replica_count, result.forgotten);
      if (!seen.ok()) co_return seen.status();
      seen_count += *seen;
    }
    // What spoke for buckets that are not there is with the replicas, too, or another epoch is.
    if (options_.replica_count > 0 && state->makes_when_needed()) {
      const auto now = co_await repositories_.Read(known, options_.replica_count);
      if (!now.ok()) co_return now.status();
      result.forgotten.epoch = std::min(result.forgotten.epoch, now->epoch);
    }
    if (steps.end() < known.base_count()) {
      result.last = LastOf(id, steps.end() - 1, known.base_bits);
    }
    co_return result;
  }

  Task<absl::StatusOr<std::uint64_t>> AdvanceEpoch(const RepositoryId& id, std::uint64_t epoch,
                                                   std::uint64_t min_before) override {
    absl::Status status = Admit(ValidateRepository(id));
    if (!status.ok()) co_return status;
    auto repository = co_await repositories_.Load(id, /*create=*/true);
    if (!repository.ok()) co_return repository.status();
    co_return co_await RaiseEpoch(*client_, repositories_, **repository, epoch, min_before,
                                  options_.replica_count);
  }

  Task<absl::StatusOr<std::vector<IndexEntry>>> Scan(const RepositoryId& id,
                                                     const std::optional<Digest>& after,
                                                     std::size_t limit) override {
    absl::Status status = Admit(ValidateScan(id, after));
    if (!status.ok()) co_return status;
    std::vector<IndexEntry> page;
    auto repository = co_await repositories_.Load(id, /*create=*/false);
    if (!repository.ok()) co_return repository.status();
    if (*repository == nullptr || limit == 0) co_return page;
    RedisRepository& known = **repository;
    auto state = co_await repositories_.Read(known, 0);
    if (!state.ok()) co_return state.status();
    WalkSteps steps(after.has_value() ? BaseOf(*after, known.base_bits) : 0, known.base_count());
    while (page.size() < limit && steps.Next()) {
      auto entries = co_await ScanIn(known, *state, steps, after, limit - page.size());
      if (!entries.ok()) co_return entries.status();
      std::move(entries->begin(), entries->end(), std::back_inserter(page));
    }
    co_return page;
  }

  Task<absl::StatusOr<IndexStats>> Stats(const RepositoryId& id) override {
    IndexStats stats;
    absl::Status status = Admit(ValidateRepository(id));
    if (!status.ok()) co_return status;
    auto repository = co_await repositories_.Load(id, /*create=*/false);
    if (!repository.ok()) co_return repository.status();
    if (*repository == nullptr) co_return stats;
    auto state = co_await repositories_.Read(**repository, 0);
    if (!state.ok()) co_return state.status();
    auto totals = co_await TotalsNow(*client_, **repository, *state, 0);
    if (!totals.ok()) co_return totals.status();
    stats.entry_count = totals->entry_count;
    stats.epoch = totals->lowest_epoch;
    co_return stats;
  }

  Task<absl::StatusOr<bool>> Create(const RepositoryId& id) override {
    const absl::Status status = Admit(ValidateRepository(id));
    if (!status.ok()) co_return status;
    co_return co_await repositories_.Create(id);
  }

  Task<absl::StatusOr<bool>> IsCreated(const RepositoryId& id) override {
    const absl::Status status = Admit(ValidateRepository(id));
    if (!status.ok()) co_return status;
    co_return co_await repositories_.IsCreated(id);
  }

  Task<absl::StatusOr<bool>> IsThere(const RepositoryId& id) override {
    const absl::Status status = Admit(ValidateRepository(id));
    if (!status.ok()) co_return status;
    co_return co_await repositories_.IsThere(id);
  }

  Task<absl::StatusOr<std::vector<ListedRepository>>> List(const std::optional<RepositoryId>& after,
                                                           std::size_t limit) override {
    const absl::Status status = Admit(ValidateList(after));
    if (!status.ok()) co_return status;
    co_return co_await repositories_.List(after, limit);
  }

  Task<absl::StatusOr<StepResult>> Drop(const RepositoryId& id, const std::optional<Digest>& after,
                                        std::size_t limit) override {
    const absl::Status status = Admit(ValidateStep(id, after, limit));
    if (!status.ok()) co_return status;
    co_return co_await DropRepository(*client_, repositories_, id, after, limit,
                                      options_.replica_count);
  }

  Task<absl::StatusOr<StepResult>> ResetEpoch(const RepositoryId& id, std::uint64_t epoch,
                                              const std::optional<Digest>& after,
                                              std::size_t limit) override {
    absl::Status status = Admit(ValidateStep(id, after, limit));
    status.Update(index_rules::CheckReset(epoch));
    if (!status.ok()) co_return status;
    auto repository = co_await repositories_.Load(id, /*create=*/true);
    if (!repository.ok()) co_return repository.status();
    co_return co_await ResetRepository(*client_, repositories_, **repository, epoch, after, limit,
                                       options_.replica_count);
  }

 private:
  using Plan = std::function<absl::StatusOr<std::vector<FieldChange>>(const BucketGroup& group)>;

  RedisWatchOptions WatchOptions() {
    RedisWatchOptions options = options_.watch;
    options.replica_count = options_.replica_count;
    options.on_replaced = [this] { repositories_.ForgetAll(); };
    return options;
  }

  // Not OK for arguments that are not, and while Redis has another index, or may throw it away.
  absl::Status Admit(absl::Status arguments) const {
    if (!arguments.ok()) return arguments;
    const absl::Status fitness = watch_.fitness();
    return fitness.ok() ? fitness : absl::UnavailableError(fitness.message());
  }

  static std::vector<IndexEntry> EntriesOf(const BucketGroup& group,
                                           std::span<const IndexEntry> entries) {
    std::vector<IndexEntry> own;
    own.reserve(group.at.size());
    for (const std::size_t index : group.at) own.push_back(entries[index]);
    return own;
  }

  // Where nothing is to be changed, the replicas may still lack what was read: another call has
  // written it, or an earlier attempt of this one, whose WAIT failed. The script looks once more
  // and the WAIT behind it covers that. Where a bucket follows a head nobody else has seen both at
  // one moment. What speaks for a bucket that is not there was read with the replicas
  // (RepositoryState).
  bool IsToBeWritten(const BucketContent& content, std::span<const FieldChange> changes) const {
    return AreAnyChanges(changes) ||
           (content.is_there() && (options_.replica_count > 0 || content.follows));
  }

  static bool IsMissing(const BucketGroup& group) { return !group.content.is_there(); }
  // Neither it nor a head says an epoch, or the head that it should follow is missing: `m:{R}`
  // does. One of which no head was read, though it should follow one, is to be read again.
  static bool IsWithoutEpoch(const BucketGroup& group) {
    return !group.content.has_head() && (IsMissing(group) || group.content.follows);
  }
  static bool AreAnyWithoutEpoch(std::span<const BucketGroup> groups) {
    return std::any_of(groups.begin(), groups.end(), IsWithoutEpoch);
  }

  // What one round of Change is about to write: a call of the script for each bucket.
  struct Writes {
    std::vector<ScriptCall> calls;
    std::vector<const BucketGroup*> groups;
    std::vector<std::uint64_t> removed;
    // Those that are not there, and that nobody has begun to make.
    std::vector<std::uint32_t> bases_to_begin;

    // The entries that would be written.
    std::vector<std::size_t> AllAt() const {
      std::vector<std::size_t> all;
      for (const BucketGroup* group : groups)
        all.insert(all.end(), group->at.begin(), group->at.end());
      return all;
    }
  };

  // Reads, plans all before anything is written, writes, and does again what others were faster at.
  Task<absl::Status> Change(const RedisRepositoryPtr& pointer, std::span<const IndexEntry> entries,
                            const Plan& plan, ForgetResult* forgotten) {
    RedisRepository& repository = *pointer;
    std::vector<Digest> digests;
    digests.reserve(entries.size());
    for (const IndexEntry& entry : entries) digests.push_back(entry.digest);
    std::vector<std::size_t> left = AllOf(entries.size());
    // As it was before the buckets were read: what is missing then counts as this says.
    std::optional<RepositoryState> state;
    for (int round = 0; !left.empty(); ++round) {
      if (round == kMaxConflicts) {
        co_return absl::UnavailableError("too many write to the same entries in Redis at once");
      }
      // A script that was refused may have found a head that nobody expects.
      auto groups = co_await ReadBuckets(*client_, repository, digests, left,
                                         round == 0 ? HeadReads::kAll : HeadReads::kAllAnyway,
                                         PathsOfRound(repository, round));
      if (!groups.ok()) co_return groups.status();
      if (!state.has_value() && AreAnyWithoutEpoch(*groups)) {
        auto read = co_await StateFor(repository, /*writes=*/forgotten == nullptr);
        if (!read.ok()) co_return read.status();
        state = *std::move(read);
        continue;
      }
      auto writes = PlanWrites(repository, *groups, state, plan, forgotten);
      if (!writes.ok()) co_return writes.status();
      if (!writes->bases_to_begin.empty()) {
        const auto begun = co_await repositories_.Begin(repository, *state, writes->bases_to_begin);
        if (!begun.ok()) co_return begun.status();
        if (!*begun) {
          state.reset();
          left = writes->AllAt();
          continue;
        }
      }
      left.clear();
      RedisReplies replies = co_await RunScript(*client_, redis_scripts::kChange,
                                                std::move(writes->calls), options_.replica_count);
      for (std::size_t index = 0; index < replies.size(); ++index) {
        const BucketGroup& group = *writes->groups[index];
        if (!IsArrayOf(replies[index], 2)) {
          co_return NotUnderstood("writing entries", replies[index]);
        }
        if (replies[index]->elements[0].integer == 0) {
          left.insert(left.end(), group.at.begin(), group.at.end());
          continue;
        }
        Count(group.content, writes->removed[index], forgotten);
        if (replies[index]->elements[1].integer > static_cast<std::int64_t>(kMaxBucketEntries)) {
          Split(pointer, group.base, group.path, HeadChange(group.content).second);
        }
      }
      absl::Status written = co_await repositories_.WriteIfNeeded(repository);
      if (!written.ok()) co_return written;
    }
    co_return absl::OkStatus();
  }

  // What says that the repository is there is only written again by those who write.
  Task<absl::StatusOr<RepositoryState>> StateFor(const RedisRepository& repository, bool writes) {
    if (writes) co_return co_await repositories_.ReadOrWrite(repository);
    co_return co_await repositories_.Read(repository, options_.replica_count);
  }

  // Plans for all buckets; those of which nothing is to be written count as looked at. `state` is
  // there if any of them is without an epoch.
  absl::StatusOr<Writes> PlanWrites(RedisRepository& repository, std::vector<BucketGroup>& groups,
                                    const std::optional<RepositoryState>& state, const Plan& plan,
                                    ForgetResult* forgotten) const {
    Writes writes;
    for (BucketGroup& group : groups) {
      BucketContent& content = group.content;
      const bool is_base = IsMissing(group) && !content.has_head() && group.path.empty();
      // One that is missing below others is lost: nobody knows what it knew.
      if (IsWithoutEpoch(group) && (is_base || content.is_there())) {
        content.epoch_without =
            forgotten == nullptr ? state->EpochToMake(group.base) : state->EpochWithout(group.base);
      }
      content.makes_head = is_base && state->layout == RedisLayout::kHeads;
      KERF_ASSIGN_OR_RETURN(const std::vector<FieldChange> changes, plan(group));
      if (!IsToBeWritten(content, changes)) {
        Count(content, 0, forgotten);
        continue;
      }
      if (is_base && !state->MayBeMade(group.base)) writes.bases_to_begin.push_back(group.base);
      if (IsMissing(group) && state.has_value() && state->layout == RedisLayout::kWhole) {
        ++repository.writes_wanted;
      }
      writes.calls.push_back(ChangeOf(repository, group.base, group.path, content, changes));
      writes.groups.push_back(&group);
      writes.removed.push_back(RemovedBy(changes));
    }
    return writes;
  }

  // `content` was looked at, and `count` entries of it have been removed.
  static void Count(const BucketContent& content, std::uint64_t count, ForgetResult* forgotten) {
    if (forgotten == nullptr) return;
    forgotten->forgotten_count += count;
    forgotten->removed_count += RemovedSince(content) + count;
    forgotten->epoch = std::min(forgotten->epoch, EpochToAnswer(content));
  }

  // Nobody waits for it; if it fails, the next commit tries again. A bucket of the shortest path is
  // split as far as what is expected of the repository needs. `head` is as its head was left.
  Detached Split(RedisRepositoryPtr repository, std::uint32_t base, std::string path,
                 std::string head) {
    if (path.size() >= static_cast<std::size_t>(kMaxPathBits)) co_return;
    const std::vector<std::string> children =
        PathsBelow(path, path.empty() ? std::max(1, first_path_bits_) : 1);
    // The children too: while the slot moves, Redis then refuses the script, not its second half.
    std::vector<std::string> keys = {BucketKey(repository->tag, base, path),
                                     LongestPathKey(repository->tag, base)};
    for (const std::string& child : children) {
      keys.push_back(BucketKey(repository->tag, base, child));
    }
    const std::size_t child_bits = children.front().size();
    std::vector<ScriptCall> calls;
    calls.push_back({std::move(keys),
                     {Cat(repository->base_bits + static_cast<int>(path.size())),
                      Cat(child_bits - path.size()), Cat(kMaxBucketEntries), Cat(child_bits), head,
                      WithLoss(ParseHead(head).value_or(BucketHead()))}});
    RedisReplies replies = co_await RunScript(*client_, redis_scripts::kSplit, std::move(calls),
                                              options_.replica_count);
    if (!replies[0].ok() || replies[0]->kind != RedisReply::Kind::kInteger) {
      // That a node is gone is told by the calls that somebody waits for.
      const LogLevel level = replies[0].ok() ? LogLevel::kWarning : LogLevel::kDebug;
      const absl::Status status = NotUnderstood("splitting a bucket", replies[0]);
      Log(level, Cat(MessageOf(status), "; it grows until a later commit splits it"));
      co_return;
    }
    // Somebody else was faster.
    if (replies[0]->integer != 1) co_return;
    for (const std::string& child : children) repository->paths.Learn(base, child);
  }

  // The first `limit` entries of the step's base buckets, in digest order.
  Task<absl::StatusOr<std::vector<IndexEntry>>> ScanIn(RedisRepository& repository,
                                                       const RepositoryState& state,
                                                       WalkSteps& steps,
                                                       const std::optional<Digest>& after,
                                                       std::size_t limit) {
    for (int round = 0; round < kMaxConflicts; ++round) {
      auto walked =
          co_await WalkBuckets(*client_, repository, state, steps.begin(), steps.end(), 0);
      if (!walked.ok()) co_return walked.status();
      if (round == 0) steps.Saw(walked->size());
      const auto is_before = [&](const WalkedBucket& bucket) {
        return after.has_value() && bucket.base == BaseOf(*after, repository.base_bits) &&
               bucket.path <
                   PathOf(*after, repository.base_bits, static_cast<int>(bucket.path.size()));
      };
      std::erase_if(*walked, is_before);
      // What has come since then may be left out.
      std::erase_if(*walked, [](const WalkedBucket& bucket) { return bucket.entry_count == 0; });
      std::vector<IndexEntry> entries;
      bool is_done = true;
      for (std::size_t at = 0; is_done && at < walked->size() && entries.size() < limit;) {
        // No more buckets than seem to be needed: one may be large.
        std::size_t to = at;
        for (std::uint64_t count = entries.size(); to < walked->size() && count < limit; ++to) {
          count += (*walked)[to].entry_count;
        }
        const std::span<const WalkedBucket> some = std::span(*walked).subspan(at, to - at);
        RedisReplies replies = co_await ReadWhole(*client_, repository, some);
        for (std::size_t index = 0; index < some.size(); ++index) {
          auto whole = WholeOf(repository, replies[index], after);
          if (!whole.ok()) co_return whole.status();
          // It has been split meanwhile.
          if (!whole->content.epoch_value.has_value()) is_done = false;
          if (absl::Status added = AddEntries(repository, *whole, entries); !added.ok()) {
            co_return added;
          }
        }
        at = to;
      }
      if (!is_done) continue;
      if (entries.size() > limit) entries.resize(limit);
      co_return entries;
    }
    co_return absl::UnavailableError("the buckets in Redis are split faster than they can be read");
  }

  // In digest order, behind what is there already.
  static absl::Status AddEntries(const RedisRepository& repository, const WholeBucket& whole,
                                 std::vector<IndexEntry>& entries) {
    const std::size_t begin = entries.size();
    for (std::size_t at = 0; at < whole.fields.size(); ++at) {
      KERF_ASSIGN_OR_RETURN(const Digest digest,
                            index_codec::ParseDigestKey(repository.id, whole.fields[at]));
      KERF_ASSIGN_OR_RETURN(const auto value, index_codec::ParseEntry(whole.content.values[at]));
      entries.push_back({digest, value.length_bytes, std::string(value.locator)});
    }
    std::sort(entries.begin() + static_cast<std::ptrdiff_t>(begin), entries.end(),
              [](const IndexEntry& a, const IndexEntry& b) { return a.digest < b.digest; });
    return absl::OkStatus();
  }

  const RedisIndexOptions options_;
  const int first_path_bits_;
  RedisRepositories repositories_;
  // Closed first: its thread runs the calls, and the watch waits for it.
  std::unique_ptr<RedisClient> client_;
  RedisWatch watch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RedisIndex>> RedisIndex::Open(RedisIndexOptions options,
                                                             std::vector<std::string>* warnings) {
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<RedisClient> client, RedisClient::Create(options.redis));
  const absl::Status status =
      WaitForMasters(*client, options.replica_count, options.redis.command_timeout,
                     options.is_cancelled, options.on_trouble, warnings);
  // What is wrong may be the stranger's, who was asked first.
  if (status.ok() || absl::IsFailedPrecondition(status)) {
    KERF_RETURN_IF_ERROR(CheckSeeds(*client, options.redis.seeds));
  }
  KERF_RETURN_IF_ERROR(status);
  if (options.wrap_client) client = options.wrap_client(std::move(client));
  auto leaf = std::make_unique<Leaf>(std::move(options), std::move(client));
  leaf->Begin();
  return std::unique_ptr<RedisIndex>(std::move(leaf));
}

}  // namespace kerf
