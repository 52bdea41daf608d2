#include "server/redis/repositories.h"

#include "absl/strings/numbers.h"
#include "base/strings.h"
#include "server/index/codec.h"
#include "server/redis/answers.h"
#include "server/redis/script.h"
#include "server/redis/scripts.h"

namespace kerf {
namespace {

constexpr std::string_view kLayoutVersion = "1";

}  // namespace

Task<absl::StatusOr<RedisRepositoryPtr>> RedisRepositories::Load(const RepositoryId& id,
                                                                 bool create) {
  const std::string tag = RedisTagOf(id);
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_tag_.find(tag);
    if (found != by_tag_.end()) co_return found->second;
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
  int base_bits = first_.base_bits;
  if (fields[0].kind == RedisReply::Kind::kNil) {
    if (!create) co_return RedisRepositoryPtr();
    const absl::Status made = co_await Make(RedisRepository(id, base_bits));
    if (!made.ok()) co_return made;
  } else {
    if (fields[0].text != kLayoutVersion) {
      co_return absl::FailedPreconditionError(
          ToAbsl(Cat("the layout of repository '", id.name, "' in Redis is of version ",
                     fields[0].text, "; this kerfd knows version ", kLayoutVersion)));
    }
    if (fields[1].text != id.name) {
      co_return absl::FailedPreconditionError(
          ToAbsl(Cat("the place of repository '", id.name, "' in Redis is taken by another one")));
    }
    const bool is_number = absl::SimpleAtoi(fields[3].text, &base_bits);
    if (!is_number || base_bits < 1 || base_bits > kMaxBaseBits) {
      co_return NotUnderstood("reading a repository", replies[0]);
    }
  }
  auto repository = std::make_shared<RedisRepository>(id, base_bits);
  if (replica_count_ > 0 && fields[0].kind != RedisReply::Kind::kNil) ++repository->writes_wanted;
  const std::lock_guard lock(mutex_);
  co_return by_tag_.try_emplace(tag, std::move(repository)).first->second;
}

// The buckets first: whoever finds the repository finds them. Others may do the same meanwhile.
Task<absl::Status> RedisRepositories::Make(const RedisRepository& repository) {
  const std::string zero = index_codec::EncodeNumber(0);
  std::vector<ScriptCall> calls;
  calls.reserve(repository.base_count());
  for (std::uint32_t base = 0; base < repository.base_count(); ++base) {
    calls.push_back({KeysOf(repository.tag, base, ""), {zero, Cat(first_.path_bits)}});
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

Task<absl::Status> RedisRepositories::Write(const RedisRepository& repository) {
  std::vector<ScriptCall> calls;
  calls.push_back({{MetaKey(repository.tag)},
                   {"version", std::string(kLayoutVersion), "name", repository.id.name, "digest",
                    std::string(DigestAlgorithmName(repository.id.digest_algorithm)), "base_bits",
                    Cat(repository.base_bits)}});
  RedisReplies written =
      co_await RunScript(*client_, redis_scripts::kWrite, std::move(calls), replica_count_);
  if (!written[0].ok() || written[0]->kind != RedisReply::Kind::kInteger) {
    co_return NotUnderstood("making a repository", written[0]);
  }
  co_return absl::OkStatus();
}

}  // namespace kerf
