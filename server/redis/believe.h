// What a lookup reads: buckets, and where they are behind the head that they follow, the head, too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/task.h"
#include "kernels/fingerprint/digest.h"
#include "server/redis/bucket_reads.h"
#include "server/redis/redis_client.h"
#include "server/redis/repositories.h"

namespace kerf {

// The buckets of all digests, each as one moment had it, with an epoch of its own that is as high
// as a session of `session_epoch` may believe: one that is behind its head is raised to that first,
// by a script that sees both and the entries (docs/adr/0022). Where its slot moves it stays behind.
// For the first of them, and for those that were behind, the head is known. All outlive it.
Task<absl::StatusOr<std::vector<BucketGroup>>> ReadToBelieve(RedisClient& client,
                                                             RedisRepository& repository,
                                                             std::span<const Digest> digests,
                                                             std::uint64_t session_epoch);

}  // namespace kerf
