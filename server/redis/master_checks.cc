#include "server/redis/master_checks.h"

#include <algorithm>
#include <future>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "base/strings.h"
#include "server/redis/identity.h"
#include "server/redis/reply.h"
#include "server/redis/wait_for.h"

namespace kerf {
namespace {

// With fewer, the death of one leaves no majority of masters.
constexpr std::size_t kMinVotingMasters = 3;
// One that has not answered by then may be dead, and the cluster knows it by the time it is asked
// again.
constexpr std::chrono::milliseconds kPatience{2'000};
constexpr std::chrono::milliseconds kPause{100};
// Of the first attempt, so that a wrong address is told of soon; and how often one is told of.
constexpr std::chrono::milliseconds kFirstPatience{1'000};
constexpr std::chrono::milliseconds kTellInterval{10'000};
// Of a seed.
constexpr std::chrono::milliseconds kSeedPatience{1'000};

using Reply = absl::StatusOr<RedisReply>;

// The number or word behind "name:" at the begin of a line.
std::string FieldOf(const std::string& info, std::string_view name) {
  const std::string key = Cat(name, ":");
  std::size_t at = info.starts_with(key) ? 0 : info.find("\n" + key);
  if (at == std::string::npos) return "";
  if (at > 0) ++at;
  const std::size_t begin = at + key.size();
  return info.substr(begin, info.find_first_of("\r\n", begin) - begin);
}

// What a node says of its cluster; nothing against one Redis.
absl::Status QuorumSeenBy(const RedisAddress& node, const absl::StatusOr<RedisReply>& reply) {
  if (!reply.ok()) return reply.status();
  const std::string state = FieldOf(reply->text, "cluster_state");
  if (reply->kind != RedisReply::Kind::kText || state == "ok") return absl::OkStatus();
  const std::string name = FormatRedisAddress(node);
  return absl::UnavailableError(ToAbsl(
      Cat("the Redis Cluster has no quorum, or slots without a master (cluster_state:", state,
          " at ", name, "): see redis-cli --cluster check ", name)));
}

// The log is all that a master without replicas has when it is killed. Whether it is written in
// time may be something that kerfd has no right to ask.
void WarnOfLateSync(RedisClient& client, const RedisAddress& master,
                    std::vector<std::string>* warnings) {
  const auto reply = WaitFor<absl::StatusOr<RedisReply>>([&](auto done) {
    client.Send({"", master, {"CONFIG", "GET", "appendfsync"}, 0, kPatience}, std::move(done));
  });
  if (!reply.ok() || reply->kind != RedisReply::Kind::kArray || reply->elements.size() != 2) return;
  const std::string& value = reply->elements[1].text;
  if (value == "always") return;
  warnings->push_back(
      Cat("the Redis at ", FormatRedisAddress(master), " writes its log late (appendfsync ", value,
          ") and no write waits for a replica: if it is killed it forgets what it acknowledged "
          "last, also that chunks are gone; set appendfsync to always, or --redis-replicas to 1"));
}

// FailedPrecondition if what it says of itself says that it may evict entries.
absl::Status EvictionIn(const std::string& info, const std::string& name) {
  const std::string policy = FieldOf(info, "maxmemory_policy");
  if (policy == "noeviction" || policy.starts_with("volatile-")) return absl::OkStatus();
  return absl::FailedPreconditionError(
      ToAbsl(Cat("the Redis at ", name, " may throw entries of the index away (maxmemory-policy ",
                 policy, "): set maxmemory-policy to noeviction or to one of volatile-*")));
}

// False if it has no maxmemory. Redis counts it as it does itself when it refuses: without what
// replicas and the log have still to get, and after it has thrown away what it may.
bool AddMemory(const std::string& info, const RedisAddress& master, RedisMemory& memory) {
  const auto number = [&info](std::string_view name) {
    std::uint64_t value = 0;
    return absl::SimpleAtoi(FieldOf(info, name), &value) ? value : 0;
  };
  const std::uint64_t used_bytes = number("used_memory");
  const std::uint64_t max_bytes = number("maxmemory");
  memory.used_bytes += used_bytes;
  memory.max_bytes += max_bytes;
  const std::uint64_t free_of_charge = std::min(number("mem_not_counted_for_evict"), used_bytes);
  if (max_bytes > 0 && used_bytes - free_of_charge > max_bytes) memory.full.push_back(master);
  return max_bytes > 0;
}

// The answers of all `nodes`, which are asked at once.
std::vector<Reply> AskAll(RedisClient& client, const std::vector<RedisAddress>& nodes,
                          const std::vector<std::string>& arguments,
                          std::chrono::milliseconds patience) {
  std::vector<std::promise<Reply>> answers(nodes.size());
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    client.Send({"", nodes[index], arguments, 0, patience},
                [&answers, index](const Reply& reply) { answers[index].set_value(reply); });
  }
  std::vector<Reply> replies;
  replies.reserve(answers.size());
  for (auto& answer : answers) replies.push_back(answer.get_future().get());
  return replies;
}

// Not empty: why two that answered so to CLUSTER SLOTS are not one.
std::string DifferenceOf(const RedisReply& slots, const RedisReply& others) {
  if (IsOfSingle(slots) != IsOfSingle(others)) {
    return "one of them is a single Redis, the other one is in a cluster";
  }
  const std::vector<std::string> ids = NodeIdsOf(slots);
  const std::vector<std::string> other_ids = NodeIdsOf(others);
  const bool is_one =
      ids.empty() || other_ids.empty() ||
      std::find_first_of(ids.begin(), ids.end(), other_ids.begin(), other_ids.end()) != ids.end();
  return is_one ? "" : "they are in two clusters";
}

// The same of single ones, by how they name their indexes.
std::string DifferenceOfNames(const Reply& name, const Reply& other) {
  if (!name.ok() || !other.ok()) return "";
  const auto identity = redis::ParseIdentity(name->text);
  const auto other_identity = redis::ParseIdentity(other->text);
  const bool is_one =
      !identity.ok() || !other_identity.ok() || redis::IsSameLine(*identity, *other_identity);
  return is_one ? "" : "they have two indexes";
}

// FailedPrecondition for a master that may evict entries, or that never has so many replicas.
absl::Status CheckMaster(RedisClient& client, const RedisAddress& master, int replica_count,
                         std::vector<std::string>* warnings) {
  const auto reply = WaitFor<absl::StatusOr<RedisReply>>(
      [&](auto done) { client.Send({"", master, {"INFO"}, 0, kPatience}, std::move(done)); });
  if (!reply.ok() || reply->kind != RedisReply::Kind::kText) {
    return reply.ok()
               ? absl::UnavailableError(ToAbsl(Cat("the Redis at ", FormatRedisAddress(master),
                                                   " does not answer INFO: ", reply->text)))
               : reply.status();
  }
  const std::string& info = reply->text;
  const std::string name = FormatRedisAddress(master);
  KERF_RETURN_IF_ERROR(EvictionIn(info, name));
  const bool is_cluster = FieldOf(info, "redis_mode") == "cluster";
  int connected_count = 0;
  if (absl::SimpleAtoi(FieldOf(info, "connected_slaves"), &connected_count) &&
      connected_count < replica_count) {
    const std::string what = Cat("the Redis at ", name, " has ", connected_count,
                                 " replicas, and each write waits for ", replica_count);
    if (!is_cluster) {
      return absl::FailedPreconditionError(
          ToAbsl(Cat(what, ": give it replicas, or set --redis-replicas to 0")));
    }
    warnings->push_back(Cat(what, ": nothing can be written there until they are back"));
  }
  if (FieldOf(info, "aof_enabled") != "1") {
    warnings->push_back(Cat("the Redis at ", name,
                            " writes no append-only file: what it was told "
                            "last is lost when it stops"));
  } else if (replica_count == 0) {
    WarnOfLateSync(client, master, warnings);
  }
  return absl::OkStatus();
}

absl::Status CheckMasters(RedisClient& client, const std::vector<RedisAddress>& masters,
                          int replica_count, std::vector<std::string>* warnings) {
  KERF_RETURN_IF_ERROR(CheckQuorum(client, masters));
  if (masters.size() > 1 && masters.size() < kMinVotingMasters) {
    warnings->push_back(Cat("the Redis Cluster has ", masters.size(),
                            " masters: when one dies, no majority is left to replace it"));
  }
  for (const RedisAddress& master : masters) {
    KERF_RETURN_IF_ERROR(CheckMaster(client, master, replica_count, warnings));
  }
  return absl::OkStatus();
}

}  // namespace

// A cluster without a majority answers nothing, or elects nobody. The masters are asked all at
// once, for some may be gone; one that sees no quorum says more than those that do not answer.
absl::Status CheckQuorum(RedisClient& client, const std::vector<RedisAddress>& masters) {
  const std::vector<Reply> replies = AskAll(client, masters, {"CLUSTER", "INFO"}, kPatience);
  absl::Status worst;
  for (std::size_t index = 0; index < masters.size(); ++index) {
    const absl::Status seen = QuorumSeenBy(masters[index], replies[index]);
    if (!seen.ok() && (worst.ok() || replies[index].ok())) worst = seen;
  }
  return worst;
}

std::string DescribeFull(const RedisMemory& memory) {
  std::string names;
  for (const RedisAddress& master : memory.full) {
    names += Cat(names.empty() ? "" : ", ", FormatRedisAddress(master));
  }
  return Cat("the index takes no new entries: Redis has reached its maxmemory at ", names,
             "; give it more, or collect garbage (`kerf gc`), which it takes all the same");
}

absl::Status CheckEviction(RedisClient& client, const std::vector<RedisAddress>& masters,
                           RedisMemory& memory) {
  const std::vector<Reply> replies = AskAll(client, masters, {"INFO", "memory"}, kPatience);
  absl::Status worst;
  memory = {};
  bool is_limited = true;
  for (std::size_t index = 0; index < masters.size(); ++index) {
    const Reply& reply = replies[index];
    const bool is_info = reply.ok() && reply->kind == RedisReply::Kind::kText;
    if (is_info) is_limited &= AddMemory(reply->text, masters[index], memory);
    const absl::Status seen = is_info ? EvictionIn(reply->text, FormatRedisAddress(masters[index]))
                                      : absl::UnavailableError("a master does not answer INFO");
    if (!seen.ok() && !absl::IsFailedPrecondition(worst)) worst = seen;
  }
  if (!is_limited) memory.max_bytes = 0;
  return worst;
}

absl::Status CheckSeeds(RedisClient& client, const std::vector<RedisAddress>& seeds) {
  if (seeds.size() < 2) return absl::OkStatus();
  const std::vector<Reply> slots = AskAll(client, seeds, {"CLUSTER", "SLOTS"}, kSeedPatience);
  std::vector<std::size_t> known;
  for (std::size_t index = 0; index < seeds.size(); ++index) {
    const Reply& map = slots[index];
    if (map.ok() && (IsOfSingle(*map) || !NodeIdsOf(*map).empty())) known.push_back(index);
  }
  if (known.size() < 2) return absl::OkStatus();
  std::vector<Reply> names(seeds.size(), absl::UnknownError(""));
  if (IsOfSingle(*slots[known.front()])) {
    names = AskAll(client, seeds, {"GET", kIdentityKey}, kSeedPatience);
  }
  for (const std::size_t index : known) {
    std::string difference = DifferenceOf(*slots[known.front()], *slots[index]);
    if (difference.empty()) difference = DifferenceOfNames(names[known.front()], names[index]);
    if (difference.empty()) continue;
    return absl::FailedPreconditionError(
        ToAbsl(Cat("--redis ", FormatRedisAddress(seeds[known.front()]), " and ",
                   FormatRedisAddress(seeds[index]), " are not one index: ", difference)));
  }
  return absl::OkStatus();
}

absl::Status WaitForMasters(RedisClient& client, int replica_count,
                            std::chrono::milliseconds patience,
                            const std::function<bool()>& is_cancelled,
                            const std::function<void(const absl::Status&)>& on_trouble,
                            std::vector<std::string>* warnings) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::chrono::milliseconds attempt_patience = std::min(patience, kFirstPatience);
  auto tell_at = std::chrono::steady_clock::now();
  while (true) {
    using Masters = absl::StatusOr<std::vector<RedisAddress>>;
    const Masters masters =
        WaitFor<Masters>([&](auto done) { client.ReadMasters(std::move(done), attempt_patience); });
    attempt_patience = std::min(patience, kPatience);
    std::vector<std::string> found;
    const absl::Status status =
        masters.ok() ? CheckMasters(client, *masters, replica_count, &found) : masters.status();
    if (!absl::IsUnavailable(status)) {
      warnings->insert(warnings->end(), found.begin(), found.end());
      return status;
    }
    if (is_cancelled && is_cancelled()) {
      return absl::CancelledError(ToAbsl(Cat("told to stop; until then: ", MessageOf(status))));
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::UnavailableError(
          ToAbsl(Cat("waited ", patience.count(), " ms for Redis: ", MessageOf(status))));
    }
    if (on_trouble && std::chrono::steady_clock::now() >= tell_at) {
      on_trouble(status);
      tell_at = std::chrono::steady_clock::now() + kTellInterval;
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace kerf
