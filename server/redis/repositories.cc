#include "server/redis/repositories.h"

#include "absl/strings/numbers.h"
#include "base/strings.h"
#include "server/index/codec.h"
#include "server/logging/logging.h"
#include "server/redis/answers.h"
#include "server/redis/script.h"
#include "server/redis/scripts.h"

namespace kerf {
namespace {

// How often what others have changed meanwhile is read again.
constexpr int kMaxTurns = 100;
// A hash of all repositories, each a field. All of it is made of keys and commands that the rights
// of kerfd in Redis have had since before there was such a list (deploy/components/redis/users).
constexpr std::string_view kListKey = "m:{kerf.repositories}";

std::string ListedAs(const RepositoryId& id) {
  return index_codec::RepositoryKey(index_codec::KeyKind::kCreated, id);
}

// Of one that is there.
absl::StatusOr<int> BaseBitsOf(const RepositoryId& id, const RepositoryState& state) {
  if (state.name != id.name) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat("the place of repository '", id.name, "' in Redis is taken by another one")));
  }
  int base_bits = 0;
  const bool is_number = absl::SimpleAtoi(state.base_bits, &base_bits);
  if (is_number && base_bits >= 1 && base_bits <= kMaxBaseBits) return base_bits;
  return absl::DataLossError(
      ToAbsl(Cat("Redis: repository '", id.name, "' has no number of base buckets")));
}

absl::Status ChangesTooFast() {
  return absl::UnavailableError("what Redis says of the repository changes faster than it is read");
}

}  // namespace

Task<absl::StatusOr<RedisRepositoryPtr>> RedisRepositories::Peek(const RepositoryId& id) {
  auto unmade = std::make_shared<RedisRepository>(id, first_.base_bits);
  const auto state = co_await Read(*unmade, 0);
  if (!state.ok()) co_return state.status();
  if (state->layout == RedisLayout::kNone) co_return unmade;
  const auto base_bits = BaseBitsOf(id, *state);
  if (!base_bits.ok()) co_return base_bits.status();
  co_return std::make_shared<RedisRepository>(id, *base_bits);
}

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
  auto state = co_await Read(*made, 0);
  if (!state.ok()) co_return state.status();
  if (state->layout == RedisLayout::kNone) {
    if (!create) co_return RedisRepositoryPtr();
    made->layout = first_.layout;
    made->has_heads.store(made->layout == RedisLayout::kHeads);
    const auto is_made = co_await Make(*made);
    if (!is_made.ok()) co_return is_made.status();
    if (*is_made) co_return Keep(std::move(made));
    state = co_await Read(*made, 0);
    if (!state.ok()) co_return state.status();
    if (state->layout == RedisLayout::kNone) co_return ChangesTooFast();
  }
  const auto base_bits = BaseBitsOf(id, *state);
  if (!base_bits.ok()) co_return base_bits.status();
  auto found = std::make_shared<RedisRepository>(id, *base_bits);
  if (state->layout == RedisLayout::kLazy && first_.layout == RedisLayout::kWhole) {
    const absl::Status status = co_await TurnIntoWhole(*found);
    if (!status.ok()) co_return status;
    found->layout = RedisLayout::kWhole;
  } else {
    found->layout = state->layout;
  }
  found->has_heads.store(found->layout == RedisLayout::kHeads);
  if (replica_count_ > 0) ++found->writes_wanted;
  // What an older kerfd has made stands in no list yet.
  EnlistLater(id);
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

// One that was there before stays what it was.
std::vector<std::string> RedisRepositories::FieldsOf(const RedisRepository& repository) const {
  const RedisLayout layout =
      repository.layout == RedisLayout::kNone ? first_.layout : repository.layout;
  return {"version",   Cat(static_cast<int>(layout)),
          "name",      repository.id.name,
          "digest",    std::string(DigestAlgorithmName(repository.id.digest_algorithm)),
          "base_bits", Cat(repository.base_bits)};
}

// One that grows: a Redis that is full refuses it.
Task<absl::StatusOr<bool>> RedisRepositories::Make(const RedisRepository& repository) {
  if (first_.layout == RedisLayout::kWhole) {
    const absl::Status status = co_await MakeWhole(repository, 0);
    if (!status.ok()) co_return status;
    co_return true;
  }
  std::vector<std::string> changes;
  const std::vector<std::string> fields = FieldsOf(repository);
  for (std::size_t at = 0; at < fields.size(); at += 2) {
    changes.insert(changes.end(), {fields[at], "", fields[at + 1]});
  }
  const auto made = co_await Change(repository, std::move(changes), /*taken_when_full=*/false);
  if (!made.ok()) co_return made.status();
  const absl::Status status = co_await Enlist(repository.id);
  if (!status.ok()) co_return status;
  co_return *made;
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
  EnlistLater(repository.id);
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

Task<absl::Status> RedisRepositories::Run(std::string_view script, std::string key,
                                          std::string argument, std::string_view doing) {
  std::vector<ScriptCall> calls;
  ScriptCall& call = calls.emplace_back();
  call.keys.push_back(std::move(key));
  call.arguments.push_back(std::move(argument));
  RedisReplies replies = co_await RunScript(*client_, script, std::move(calls), replica_count_);
  if (!replies[0].ok() || replies[0]->kind != RedisReply::Kind::kInteger) {
    co_return NotUnderstood(doing, replies[0]);
  }
  co_return absl::OkStatus();
}

Task<absl::Status> RedisRepositories::Enlist(const RepositoryId& id) {
  const absl::Status status = co_await Run(redis_scripts::kEnlist, std::string(kListKey),
                                           ListedAs(id), "listing a repository");
  listed_.Forget();
  co_return status;
}

// It may stand there already: nobody forgets a list for it.
Detached RedisRepositories::EnlistLater(RepositoryId id) {
  const absl::Status status = co_await Run(redis_scripts::kEnlist, std::string(kListKey),
                                           ListedAs(id), "listing a repository");
  if (status.ok()) co_return;
  Log(LogLevel::kDebug, Cat(MessageOf(status), "; it is listed once a kerfd finds it again"));
}

Task<absl::StatusOr<bool>> RedisRepositories::Create(const RepositoryId& id) {
  const RedisRepository repository(id, first_.base_bits);
  std::vector<std::string> changes(3);
  changes[0] = "created";
  changes[2] = id.name;
  // One that is created already is left as it is, and the replicas are waited for.
  const auto is_new = co_await Change(repository, std::move(changes), /*taken_when_full=*/false);
  if (!is_new.ok()) co_return is_new.status();
  const absl::Status status = co_await Enlist(id);
  if (!status.ok()) co_return status;
  co_return *is_new;
}

Task<absl::StatusOr<bool>> RedisRepositories::IsCreated(const RepositoryId& id) {
  const RedisRepository repository(id, first_.base_bits);
  const auto state = co_await Read(repository, 0);
  if (!state.ok()) co_return state.status();
  co_return state->created == id.name;
}

// Not by the list of all, in which what kerfd 0.1.0 has made may stand only later.
Task<absl::StatusOr<bool>> RedisRepositories::IsThere(const RepositoryId& id) {
  const RedisRepository repository(id, first_.base_bits);
  const auto state = co_await Read(repository, 0);
  if (!state.ok()) co_return state.status();
  co_return state->created == id.name ||
      (state->layout != RedisLayout::kNone && state->name == id.name);
}

Task<absl::Status> RedisRepositories::Unmake(const RepositoryId& id) {
  const std::string tag = RedisTagOf(id);
  const absl::Status status =
      co_await Run(redis_scripts::kUnmake, MetaKey(tag), "", "dropping a repository");
  if (!status.ok()) co_return status;
  const std::lock_guard lock(mutex_);
  const auto found = by_tag_.find(tag);
  if (found == by_tag_.end()) co_return absl::OkStatus();
  kept_.erase(found->second);
  by_tag_.erase(found);
  co_return absl::OkStatus();
}

Task<absl::Status> RedisRepositories::Delist(const RepositoryId& id) {
  const absl::Status status = co_await Run(redis_scripts::kDelist, std::string(kListKey),
                                           ListedAs(id), "dropping a repository");
  listed_.Forget();
  if (!status.ok()) co_return status;
  const RedisRepository repository(id, first_.base_bits);
  const auto state = co_await Read(repository, 0);
  if (!state.ok()) co_return state.status();
  if (state->layout == RedisLayout::kNone && state->created.empty()) co_return absl::OkStatus();
  co_return co_await Enlist(id);
}

Task<absl::StatusOr<std::vector<RepositoryId>>> RedisRepositories::ReadList(
    const std::optional<RepositoryId>& after) {
  RedisCommand command;
  command.key = std::string(kListKey);
  command.arguments = {"HGETALL", command.key};
  std::vector<RedisCommand> commands;
  commands.push_back(std::move(command));
  SendAll send(*client_, std::move(commands));
  RedisReplies replies = co_await send;
  if (!replies[0].ok() || replies[0]->kind != RedisReply::Kind::kArray) {
    co_return NotUnderstood("listing the repositories", replies[0]);
  }
  std::vector<RepositoryId> behind;
  for (std::size_t at = 0; at + 1 < replies[0]->elements.size(); at += 2) {
    auto id = index_codec::ParseRepositoryKey(index_codec::KeyKind::kCreated,
                                              replies[0]->elements[at].text);
    if (!id.ok()) co_return id.status();
    if (!after.has_value() || RepositoryOrder()(*after, *id)) behind.push_back(*std::move(id));
  }
  co_return behind;
}

Task<absl::StatusOr<std::vector<ListedRepository>>> RedisRepositories::List(
    const std::optional<RepositoryId>& after, std::size_t limit) {
  std::optional<std::vector<RepositoryId>> ids = listed_.Find(after, limit, clock_());
  if (!ids.has_value()) {
    const ListedRepositories::Reading reading = listed_.Begin(clock_());
    auto behind = co_await ReadList(after);
    if (!behind.ok()) co_return behind.status();
    ids = listed_.Keep(after, *std::move(behind), limit, reading);
  }
  std::vector<ListedRepository> page;
  std::vector<RedisCommand> commands;
  for (const RepositoryId& id : *ids) {
    RedisCommand& read = commands.emplace_back();
    read.key = MetaKey(RedisTagOf(id));
    read.arguments = {"HEXISTS", read.key, "created"};
    page.push_back({id, false});
  }
  SendAll ask(*client_, std::move(commands));
  RedisReplies created = co_await ask;
  for (std::size_t at = 0; at < page.size(); ++at) {
    if (!created[at].ok() || created[at]->kind != RedisReply::Kind::kInteger) {
      co_return NotUnderstood("listing the repositories", created[at]);
    }
    page[at].is_created = created[at]->integer == 1;
  }
  co_return page;
}

}  // namespace kerf
