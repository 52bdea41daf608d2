#include "server/redis/bucket_reads.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/status.h"
#include "server/index/codec.h"
#include "server/redis/answers.h"
#include "server/redis/head_answers.h"
#include "server/redis/script.h"
#include "server/redis/scripts.h"

namespace kerf {
namespace {

// `unknown` gets those of whose base bucket nothing is known: there may be none.
std::vector<BucketGroup> GroupsOf(const RedisRepository& repository,
                                  std::span<const Digest> digests, std::vector<std::size_t> wanted,
                                  std::vector<std::size_t>& unknown) {
  // In the order of the digests those of one bucket stand together.
  std::sort(wanted.begin(), wanted.end(), [&](std::size_t left, std::size_t right) {
    return std::tie(digests[left], left) < std::tie(digests[right], right);
  });
  std::vector<BucketGroup> groups;
  for (const std::size_t index : wanted) {
    const std::uint32_t base = BaseOf(digests[index], repository.base_bits);
    std::optional<std::string> path = repository.paths.PathOf(digests[index]);
    if (!path.has_value()) {
      unknown.push_back(index);
      continue;
    }
    if (groups.empty() || groups.back().base != base || groups.back().path != *path) {
      groups.push_back({base, *std::move(path), {}, {}});
    }
    groups.back().at.push_back(index);
  }
  return groups;
}

RedisCommand ReadOf(const RedisRepository& repository, std::span<const Digest> digests,
                    const BucketGroup& group) {
  RedisCommand command;
  command.key = BucketKey(repository.tag, group.base, group.path);
  command.arguments = {"HMGET", command.key, std::string(kEpochField)};
  for (const std::size_t index : group.at) {
    command.arguments.emplace_back(index_codec::DigestKey(repository.id, digests[index]));
  }
  return command;
}

RedisCommand HeadReadOf(const RedisRepository& repository, std::uint32_t base) {
  RedisCommand command;
  command.key = HeadKey(repository.tag, base);
  command.arguments = {"HGET", command.key, std::string(kEpochField)};
  return command;
}

absl::StatusOr<BucketHead> HeadIn(absl::StatusOr<RedisReply>& reply) {
  if (!reply.ok() ||
      (reply->kind != RedisReply::Kind::kNil && reply->kind != RedisReply::Kind::kText)) {
    return NotUnderstood("reading a head", reply);
  }
  return ParseHead(std::move(reply->text));
}

// Whose heads are read with the groups, which are in the order of their base buckets.
std::vector<std::uint32_t> BasesOf(const RedisRepository& repository,
                                   std::span<const BucketGroup> groups, HeadReads heads) {
  std::vector<std::uint32_t> bases;
  if (heads != HeadReads::kAllAnyway && !repository.has_heads.load()) return bases;
  for (const BucketGroup& group : groups) {
    if (heads == HeadReads::kOne && !bases.empty()) break;
    if (bases.empty() || bases.back() != group.base) bases.push_back(group.base);
  }
  return bases;
}

absl::Status Fill(BucketGroup& group, absl::StatusOr<RedisReply>& reply) {
  if (!IsArrayOf(reply, group.at.size() + 1)) return NotUnderstood("reading entries", reply);
  if (reply->elements[0].kind == RedisReply::Kind::kNil) return absl::OkStatus();
  KERF_RETURN_IF_ERROR(SetEpoch(group.content, reply->elements[0].text));
  group.content.values.reserve(group.at.size());
  for (std::size_t index = 1; index < reply->elements.size(); ++index) {
    group.content.values.push_back(std::move(reply->elements[index].text));
  }
  return absl::OkStatus();
}

// Where the digests' buckets are now. One that is missing comes empty, with the shortest path
// under which it may be made.
Task<absl::StatusOr<std::vector<BucketGroup>>> Place(RedisClient& client,
                                                     RedisRepository& repository,
                                                     std::span<const Digest> digests,
                                                     const std::vector<std::size_t>& lost) {
  std::map<std::uint32_t, std::vector<std::size_t>> by_base;
  for (const std::size_t index : lost) {
    by_base[BaseOf(digests[index], repository.base_bits)].push_back(index);
  }
  std::vector<ScriptCall> calls;
  for (const auto& [base, at] : by_base) {
    ScriptCall& call = calls.emplace_back();
    call.keys = KeysOf(repository.tag, base, "");
    for (const std::size_t index : at) {
      call.arguments.push_back(PathOf(digests[index], repository.base_bits, kMaxPathBits));
    }
  }
  RedisReplies replies = co_await RunScript(client, redis_scripts::kFind, std::move(calls), 0);
  std::map<std::pair<std::uint32_t, std::string>, BucketGroup> placed;
  std::size_t number = 0;
  for (const auto& [base, at] : by_base) {
    const auto& reply = replies[number++];
    if (!IsArrayOf(reply, at.size() + kHeadElements)) {
      co_return NotUnderstood("finding buckets", reply);
    }
    const auto head = HeadSaid(*reply);
    if (!head.ok()) co_return head.status();
    for (std::size_t index = 0; index < at.size(); ++index) {
      const std::int64_t bits = reply->elements[index].integer;
      const bool is_there = bits >= 0;
      const std::int64_t path_bits = is_there ? bits : -1 - bits;
      if (reply->elements[index].kind != RedisReply::Kind::kInteger || path_bits > kMaxPathBits) {
        co_return NotUnderstood("finding buckets", reply);
      }
      std::string path =
          PathOf(digests[at[index]], repository.base_bits, static_cast<int>(path_bits));
      BucketGroup& group = placed[{base, path}];
      group.base = base;
      group.path = std::move(path);
      group.at.push_back(at[index]);
      if (is_there) continue;
      group.content.values.emplace_back();
      group.content.head = head->head;
    }
  }
  std::vector<BucketGroup> groups;
  groups.reserve(placed.size());
  for (auto& [bucket, group] : placed) groups.push_back(std::move(group));
  co_return groups;
}

}  // namespace

Task<absl::StatusOr<std::vector<BucketGroup>>> ReadBuckets(RedisClient& client,
                                                           RedisRepository& repository,
                                                           std::span<const Digest> digests,
                                                           std::vector<std::size_t> wanted,
                                                           HeadReads heads, PathReads paths) {
  std::vector<BucketGroup> found;
  std::vector<std::size_t> lost;
  std::vector<BucketGroup> groups;
  if (paths == PathReads::kFound) {
    lost = std::move(wanted);
  } else {
    groups = GroupsOf(repository, digests, std::move(wanted), lost);
  }
  for (int round = 0; !groups.empty() || !lost.empty(); ++round) {
    if (round == kMaxConflicts) {
      co_return absl::UnavailableError("the buckets in Redis split faster than they are found");
    }
    std::vector<RedisCommand> commands;
    commands.reserve(groups.size());
    for (const BucketGroup& group : groups) commands.push_back(ReadOf(repository, digests, group));
    const std::vector<std::uint32_t> bases = BasesOf(repository, groups, heads);
    for (const std::uint32_t base : bases) commands.push_back(HeadReadOf(repository, base));
    SendAll send(client, std::move(commands));
    RedisReplies replies = co_await send;
    std::map<std::uint32_t, BucketHead> heads_read;
    for (std::size_t number = 0; number < bases.size(); ++number) {
      auto head = HeadIn(replies[groups.size() + number]);
      if (!head.ok()) co_return head.status();
      heads_read[bases[number]] = *std::move(head);
    }
    for (std::size_t index = 0; index < groups.size(); ++index) {
      BucketGroup& group = groups[index];
      absl::Status status = Fill(group, replies[index]);
      if (!status.ok()) co_return status;
      if (group.content.follows) repository.has_heads.store(true);
      const auto head = heads_read.find(group.base);
      if (head != heads_read.end()) group.content.head = head->second;
      if (group.content.epoch_value.has_value()) {
        repository.paths.Learn(group.base, group.path);
        found.push_back(std::move(group));
      } else {
        lost.insert(lost.end(), group.at.begin(), group.at.end());
      }
    }
    auto placed = co_await Place(client, repository, digests, lost);
    if (!placed.ok()) co_return placed.status();
    groups.clear();
    lost.clear();
    for (BucketGroup& group : *placed) {
      // Not there at all: whoever writes makes it.
      (group.content.values.empty() ? groups : found).push_back(std::move(group));
    }
  }
  co_return found;
}

Task<absl::StatusOr<std::vector<BucketHead>>> ReadHeads(RedisClient& client,
                                                        const RedisRepository& repository,
                                                        std::vector<std::uint32_t> bases) {
  std::vector<RedisCommand> commands;
  commands.reserve(bases.size());
  for (const std::uint32_t base : bases) commands.push_back(HeadReadOf(repository, base));
  SendAll send(client, std::move(commands));
  RedisReplies replies = co_await send;
  std::vector<BucketHead> heads;
  heads.reserve(replies.size());
  for (auto& reply : replies) {
    auto head = HeadIn(reply);
    if (!head.ok()) co_return head.status();
    heads.push_back(*std::move(head));
  }
  co_return heads;
}

ScriptCall ChangeOf(const RedisRepository& repository, std::uint32_t base, std::string_view path,
                    const BucketContent& content, std::span<const FieldChange> changes) {
  ScriptCall call;
  // A head that was away may be back by now: then what was planned without it is refused.
  const bool may_have_head =
      !content.is_there() || content.follows || content.has_head() || repository.has_heads.load();
  call.keys = KeysToChange(repository.tag, base, path, may_have_head);
  const auto [epoch, wanted_epoch] = EpochChange(content, changes);
  const auto [head, wanted_head] = HeadChange(content);
  call.arguments = {epoch, wanted_epoch, head, wanted_head,
                    WithLoss(content.head.value_or(BucketHead()))};
  for (const FieldChange& change : changes) {
    call.arguments.insert(call.arguments.end(), {change.field, change.expected, change.wanted});
  }
  return call;
}

Task<RedisReplies> ReadWhole(RedisClient& client, const RedisRepository& repository,
                             std::span<const WalkedBucket> walked) {
  std::vector<RedisCommand> commands;
  for (const WalkedBucket& bucket : walked) {
    RedisCommand command;
    command.key = BucketKey(repository.tag, bucket.base, bucket.path);
    command.arguments = {"HGETALL", command.key};
    commands.push_back(std::move(command));
  }
  SendAll send(client, std::move(commands));
  co_return co_await send;
}

absl::StatusOr<WholeBucket> WholeOf(const RedisRepository& repository,
                                    const absl::StatusOr<RedisReply>& reply,
                                    const std::optional<Digest>& after) {
  WholeBucket whole;
  if (!reply.ok() || reply->kind != RedisReply::Kind::kArray) {
    return NotUnderstood("reading a bucket", reply);
  }
  const std::vector<RedisReply>& elements = reply->elements;
  for (std::size_t at = 0; at + 1 < elements.size(); at += 2) {
    if (elements[at].text == kEpochField) {
      KERF_RETURN_IF_ERROR(SetEpoch(whole.content, elements[at + 1].text));
      continue;
    }
    KERF_ASSIGN_OR_RETURN(const Digest digest,
                          index_codec::ParseDigestKey(repository.id, elements[at].text));
    if (after.has_value() && !(*after < digest)) continue;
    whole.fields.push_back(elements[at].text);
    whole.content.values.push_back(elements[at + 1].text);
  }
  return whole;
}

}  // namespace kerf
