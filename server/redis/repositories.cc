#include "server/redis/repositories.h"

#include "absl/strings/numbers.h"
#include "base/strings.h"
#include "server/index/codec.h"
#include "server/redis/answers.h"
#include "server/redis/script.h"
#include "server/redis/scripts.h"

namespace kerf {
namespace {

// How often what others have changed meanwhile is read again.
constexpr int kMaxTurns = 100;

absl::Status ChangesTooFast() {
  return absl::UnavailableError("what Redis says of the repository changes faster than it is read");
}

}  // namespace

RedisRepositoryPtr RedisRepositories::Find(const std::string& tag) {
  const std::lock_guard lock(mutex_);
  const auto found = by_tag_.find(tag);
  if (found == by_tag_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found->second);
  return kept_.front();
}

RedisRepositoryPtr RedisRepositories::Keep(RedisRepositoryPtr repository) {
  const std::lock_guard lock(mutex_);
  const auto found = by_tag_.find(repository->tag);
  if (found != by_tag_.end()) return *found->second;
  // Nobody gets one from here without the lock: whoever has none of it gets none meanwhile.
  for (std::size_t looks = kept_.size(); looks > 0 && kept_.size() >= kMaxKept; --looks) {
    if (kept_.back().use_count() > 1) {
      kept_.splice(kept_.begin(), kept_, std::prev(kept_.end()));
      continue;
    }
    by_tag_.erase(kept_.back()->tag);
    kept_.pop_back();
  }
  kept_.push_front(std::move(repository));
  by_tag_.emplace(kept_.front()->tag, kept_.begin());
  return kept_.front();
}

Task<absl::StatusOr<RedisRepositoryPtr>> RedisRepositories::Load(const RepositoryId& id,
                                                                 bool create) {
  if (RedisRepositoryPtr known = Find(RedisTagOf(id)); known != nullptr) co_return known;
  auto made = std::make_shared<RedisRepository>(id, first_.base_bits);
  const auto state = co_await Read(*made, 0);
  if (!state.ok()) co_return state.status();
  if (state->layout == RedisLayout::kNone) {
    if (!create) co_return RedisRepositoryPtr();
    const absl::Status status = co_await Make(*made);
    if (!status.ok()) co_return status;
    co_return Keep(std::move(made));
  }
  if (state->name != id.name) {
    co_return absl::FailedPreconditionError(
        ToAbsl(Cat("the place of repository '", id.name, "' in Redis is taken by another one")));
  }
  int base_bits = 0;
  const bool is_number = absl::SimpleAtoi(state->base_bits, &base_bits);
  if (!is_number || base_bits < 1 || base_bits > kMaxBaseBits) {
    co_return absl::DataLossError(
        ToAbsl(Cat("Redis: repository '", id.name, "' has no number of base buckets")));
  }
  auto found = std::make_shared<RedisRepository>(id, base_bits);
  if (state->layout == RedisLayout::kLazy && first_.layout == RedisLayout::kWhole) {
    const absl::Status status = co_await TurnIntoWhole(*found);
    if (!status.ok()) co_return status;
  }
  if (replica_count_ > 0) ++found->writes_wanted;
  co_return Keep(std::move(found));
}

Task<absl::StatusOr<RepositoryState>> RedisRepositories::Read(const RedisRepository& repository,
                                                              int replica_count) {
  RedisCommand read;
  read.key = MetaKey(repository.tag);
  read.arguments = {"HMGET", read.key};
  const std::vector<std::string>& fields = RepositoryStateFields();
  read.arguments.insert(read.arguments.end(), fields.begin(), fields.end());
  read.replica_count = replica_count;
  std::vector<RedisCommand> commands;
  commands.push_back(std::move(read));
  SendAll send(*client_, std::move(commands));
  RedisReplies replies = co_await send;
  co_return ParseRepositoryState(replies[0]);
}

Task<absl::StatusOr<RepositoryState>> RedisRepositories::ReadOrWrite(
    const RedisRepository& repository) {
  auto state = co_await Read(repository, replica_count_);
  if (!state.ok() || state->layout != RedisLayout::kNone) co_return state;
  const absl::Status status = co_await Write(repository);
  if (!status.ok()) co_return status;
  state = co_await Read(repository, replica_count_);
  if (state.ok() && state->layout == RedisLayout::kNone) co_return ChangesTooFast();
  co_return state;
}

std::vector<std::string> RedisRepositories::FieldsOf(const RedisRepository& repository) const {
  return {"version",   Cat(static_cast<int>(first_.layout)),
          "name",      repository.id.name,
          "digest",    std::string(DigestAlgorithmName(repository.id.digest_algorithm)),
          "base_bits", Cat(repository.base_bits)};
}

// One that grows: a Redis that is full refuses it. Others may do the same meanwhile.
Task<absl::Status> RedisRepositories::Make(const RedisRepository& repository) {
  if (first_.layout == RedisLayout::kWhole) co_return co_await MakeWhole(repository, 0);
  std::vector<std::string> changes;
  const std::vector<std::string> fields = FieldsOf(repository);
  for (std::size_t at = 0; at < fields.size(); at += 2) {
    changes.insert(changes.end(), {fields[at], "", fields[at + 1]});
  }
  const auto made = co_await Change(repository, std::move(changes), /*taken_when_full=*/false);
  co_return made.status();
}

// The buckets first: whoever finds the repository finds them. Others may do the same meanwhile.
Task<absl::Status> RedisRepositories::MakeWhole(const RedisRepository& repository,
                                                std::uint64_t epoch) {
  std::vector<ScriptCall> calls;
  calls.reserve(repository.base_count());
  for (std::uint32_t base = 0; base < repository.base_count(); ++base) {
    calls.push_back({KeysOf(repository.tag, base, ""),
                     {index_codec::EncodeNumber(epoch), Cat(first_.path_bits)}});
  }
  RedisReplies replies =
      co_await RunScript(*client_, redis_scripts::kMake, std::move(calls), replica_count_);
  for (const auto& reply : replies) {
    if (!reply.ok() || reply->kind != RedisReply::Kind::kInteger) {
      co_return NotUnderstood("making a repository", reply);
    }
  }
  co_return co_await Write(repository);
}

// All are begun, so that whoever tells an epoch meanwhile tells it to all of them; those that are
// not there are made with the epoch that is told by then. One that was lost gets 0, as ever.
Task<absl::Status> RedisRepositories::TurnIntoWhole(const RedisRepository& repository) {
  std::vector<std::uint32_t> all(repository.base_count());
  for (std::uint32_t base = 0; base < repository.base_count(); ++base) all[base] = base;
  for (int turn = 0; turn < kMaxTurns; ++turn) {
    const auto state = co_await Read(repository, replica_count_);
    if (!state.ok()) co_return state.status();
    if (state->layout != RedisLayout::kLazy) co_return absl::OkStatus();
    const auto begun = co_await Begin(repository, *state, all);
    if (!begun.ok()) co_return begun.status();
    if (!*begun) continue;
    std::vector<ScriptCall> calls;
    calls.reserve(all.size());
    for (const std::uint32_t base : all) {
      calls.push_back({KeysOf(repository.tag, base, ""),
                       {index_codec::EncodeNumber(state->EpochToMake(base)), "0"}});
    }
    RedisReplies replies =
        co_await RunScript(*client_, redis_scripts::kMake, std::move(calls), replica_count_);
    for (const auto& reply : replies) {
      if (!reply.ok() || reply->kind != RedisReply::Kind::kInteger) {
        co_return NotUnderstood("making the buckets of a repository", reply);
      }
    }
    // Whatever epochs are told meanwhile: the buckets have them.
    const auto now = co_await Read(repository, replica_count_);
    if (!now.ok()) co_return now.status();
    const auto turned = co_await Change(repository, BecomeWhole(*now), /*taken_when_full=*/true);
    if (!turned.ok()) co_return turned.status();
    if (*turned) co_return absl::OkStatus();
  }
  co_return ChangesTooFast();
}

Task<absl::Status> RedisRepositories::Write(const RedisRepository& repository) {
  std::vector<ScriptCall> calls;
  calls.push_back({{MetaKey(repository.tag)}, FieldsOf(repository)});
  RedisReplies written =
      co_await RunScript(*client_, redis_scripts::kWrite, std::move(calls), replica_count_);
  if (!written[0].ok() || written[0]->kind != RedisReply::Kind::kInteger) {
    co_return NotUnderstood("making a repository", written[0]);
  }
  co_return absl::OkStatus();
}

Task<absl::Status> RedisRepositories::WriteIfNeeded(RedisRepository& repository) {
  const std::uint64_t wanted = repository.writes_wanted.load();
  if (repository.writes_done.load() == wanted) co_return absl::OkStatus();
  const absl::Status status = co_await Write(repository);
  if (status.ok()) repository.writes_done.store(wanted);
  co_return status;
}

Task<absl::StatusOr<bool>> RedisRepositories::Begin(const RedisRepository& repository,
                                                    const RepositoryState& state,
                                                    const std::vector<std::uint32_t>& bases) {
  co_return co_await RunOn(repository, redis_scripts::kBegin, BeginBases(state, bases));
}

Task<absl::StatusOr<bool>> RedisRepositories::Change(const RedisRepository& repository,
                                                     std::vector<std::string> changes,
                                                     bool taken_when_full) {
  changes.insert(changes.begin(), taken_when_full ? "1" : "0");
  co_return co_await RunOn(repository, redis_scripts::kAgree, std::move(changes));
}

Task<absl::StatusOr<bool>> RedisRepositories::RunOn(const RedisRepository& repository,
                                                    std::string_view script,
                                                    std::vector<std::string> arguments) {
  std::vector<ScriptCall> calls;
  calls.push_back({{MetaKey(repository.tag)}, std::move(arguments)});
  RedisReplies replies = co_await RunScript(*client_, script, std::move(calls), replica_count_);
  if (!replies[0].ok() || replies[0]->kind != RedisReply::Kind::kInteger) {
    co_return NotUnderstood("changing a repository", replies[0]);
  }
  co_return replies[0]->integer == 1;
}

}  // namespace kerf
