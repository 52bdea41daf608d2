// What an index in Redis says that a call has changed, as far as the specification lets anybody
// count on it (docs/spec/collection.md, COL-59 and COL-77): where a machine is busy, or a node was
// away, the client has asked again, and of the time before the second answer knows what the first
// attempt has made of it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/redis/redis_index.h"

namespace kerf {

inline bool MayHaveRepeated(const RedisIndex& index) { return index.counters().retries > 0; }

// Of a Forget of `count` entries that were there, in a repository that was told an epoch.
inline void ExpectForgotten(const RedisIndex& index, const absl::StatusOr<ForgetResult>& result,
                            std::uint64_t count) {
  ASSERT_TRUE(result.ok()) << result.status();
  if (MayHaveRepeated(index)) {
    EXPECT_LE(result->forgotten_count, count);
  } else {
    EXPECT_EQ(result->forgotten_count, count);
  }
  EXPECT_GE(result->removed_count, count);
}

// Of an AdvanceEpoch to `told`, which it reaches.
inline void ExpectEpochBefore(const RedisIndex& index, const absl::StatusOr<std::uint64_t>& result,
                              std::uint64_t before, std::uint64_t told) {
  ASSERT_TRUE(result.ok()) << result.status();
  if (MayHaveRepeated(index) && *result == told) return;
  EXPECT_EQ(*result, before);
}

}  // namespace kerf
