#include "server/redis/master_checks.h"

#include <algorithm>
#include <future>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "base/strings.h"
#include "server/redis/wait_for.h"

namespace kerf {
namespace {

// With fewer, the death of one leaves no majority of masters.
constexpr std::size_t kMinVotingMasters = 3;
// One that has not answered by then may be dead, and the cluster knows it by the time it is asked
// again.
constexpr std::chrono::milliseconds kPatience{2'000};
constexpr std::chrono::milliseconds kPause{100};

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

// A cluster without a majority answers nothing, or elects nobody. The masters are asked all at
// once, for some may be gone; one that sees no quorum says more than those that do not answer.
absl::Status CheckQuorum(RedisClient& client, const std::vector<RedisAddress>& masters) {
  std::vector<std::promise<absl::StatusOr<RedisReply>>> answers(masters.size());
  for (std::size_t index = 0; index < masters.size(); ++index) {
    client.Send({"", masters[index], {"CLUSTER", "INFO"}, 0, kPatience},
                [&answers, index](const auto& reply) { answers[index].set_value(reply); });
  }
  absl::Status worst;
  for (std::size_t index = 0; index < masters.size(); ++index) {
    const auto reply = answers[index].get_future().get();
    const absl::Status seen = QuorumSeenBy(masters[index], reply);
    if (!seen.ok() && (worst.ok() || reply.ok())) worst = seen;
  }
  return worst;
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
  const std::string policy = FieldOf(info, "maxmemory_policy");
  if (policy != "noeviction" && !policy.starts_with("volatile-")) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat("the Redis at ", name, " may throw entries of the index away (maxmemory-policy ",
                   policy, "): set maxmemory-policy to noeviction or to one of volatile-*")));
  }
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

absl::Status WaitForMasters(RedisClient& client, int replica_count,
                            std::chrono::milliseconds patience,
                            const std::function<bool()>& is_cancelled,
                            std::vector<std::string>* warnings) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    using Masters = absl::StatusOr<std::vector<RedisAddress>>;
    const Masters masters = WaitFor<Masters>(
        [&](auto done) { client.ReadMasters(std::move(done), std::min(patience, kPatience)); });
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
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace kerf
