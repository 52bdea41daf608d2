// Redis' answers to commands of the index.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/strings.h"
#include "server/redis/reply.h"

namespace kerf {

// What an answer means that is none of those that kerf asked for.
inline absl::Status NotUnderstood(std::string_view what, const absl::StatusOr<RedisReply>& reply) {
  if (!reply.ok()) return reply.status();
  if (reply->kind == RedisReply::Kind::kError && reply->text.starts_with("OOM")) {
    return absl::ResourceExhaustedError(ToAbsl(
        Cat("Redis is full (maxmemory): ", what,
            ": give it more memory, or collect garbage (`kerf gc`), which it takes all the same")));
  }
  if (reply->kind == RedisReply::Kind::kError) {
    return absl::UnavailableError(ToAbsl(Cat("Redis: ", what, ": ", reply->text)));
  }
  return absl::DataLossError(ToAbsl(Cat("Redis: ", what, ": an answer that kerf cannot have got")));
}

inline bool IsArrayOf(const absl::StatusOr<RedisReply>& reply, std::size_t size) {
  return reply.ok() && reply->kind == RedisReply::Kind::kArray && reply->elements.size() == size;
}

}  // namespace kerf
