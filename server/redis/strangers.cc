#include "server/redis/strangers.h"

#include <algorithm>

#include "base/strings.h"
#include "server/logging/logging.h"

namespace kerf::redis {

std::vector<std::string> Strangers::Question() const {
  if (topology_.is_cluster()) return {"CLUSTER", "SLOTS"};
  if (topology_.is_single()) return {"GET", kIdentityKey};
  return {};
}

std::string Strangers::Judge(const RedisAddress& address, const RedisReply& reply) {
  if (topology_.is_cluster()) return JudgeMap(address, reply);
  if (!topology_.is_single() || reply.kind != RedisReply::Kind::kText) return "";
  {
    const std::lock_guard lock(mutex_);
    const bool is_known =
        known_.empty() || std::any_of(known_.begin(), known_.end(), [&](const auto& identity) {
          return reply.text.find(identity) != std::string::npos;
        });
    if (is_known) return "";
  }
  return Warn(address, "a Redis with another index");
}

std::string Strangers::JudgeMap(const RedisAddress& address, const RedisReply& reply) {
  const std::string stranger = topology_.StrangerIn(reply);
  return stranger.empty() ? "" : Warn(address, stranger);
}

std::string Strangers::Warn(const RedisAddress& address, const std::string& stranger) {
  const std::string warning =
      Cat("at ", FormatRedisAddress(address), " there is now ", stranger, ": it is not used");
  if (std::exchange(last_warning_, warning) != warning) Log(LogLevel::kError, warning);
  return Cat("there is now ", stranger);
}

}  // namespace kerf::redis
