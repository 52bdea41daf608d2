// When the certificates end that nodes of Redis have shown.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "server/redis/address.h"

namespace kerf::redis {

// Thread-safe.
class CertificateEnds {
 public:
  // As `node` has shown it just now, in seconds since 1970. Nothing: it speaks in the clear.
  void Note(const RedisAddress& node, std::optional<std::int64_t> at_s) {
    const std::lock_guard lock(mutex_);
    if (at_s.has_value()) ends_[node] = *at_s;
  }
  // It is no node any more.
  void Forget(const RedisAddress& node) {
    const std::lock_guard lock(mutex_);
    ends_.erase(node);
  }

  // The first of them; nothing: none has shown one.
  std::optional<std::int64_t> first_s() const {
    const std::lock_guard lock(mutex_);
    std::optional<std::int64_t> first;
    for (const auto& [node, at_s] : ends_) first = std::min(first.value_or(at_s), at_s);
    return first;
  }

 private:
  mutable std::mutex mutex_;
  std::map<RedisAddress, std::int64_t> ends_;
};

}  // namespace kerf::redis
