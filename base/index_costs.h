// What an entry of a server's index costs, and where an index of one shape ends, for who reckons
// with it on either side of the wire (`kerf plan`, `kerf analyze`). Each figure is held by a test
// that measures the index itself, or compares with what it is made of: RocksDbIndexCostTest.
// AnEntryCostsWhatIsSaid, RedisCostTest.AnEntryCostsWhatIsSaid.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace kerf::index_costs {

// Of a digest of 32 bytes and a locator of 20, as an agent's.

// Embedded (--data-dir): in table files, keys, filters and their own indexes included, once they
// are compacted. While RocksDB writes files anew, and of what was removed since, a tenth more.
inline constexpr double kEmbeddedDiskBytes = 75;
// What of it should be in the cache: filters and the indexes of files.
inline constexpr double kEmbeddedCacheBytes = 1.5;
// In memory (neither --data-dir nor --redis).
inline constexpr double kMemoryIndexBytes = 200;
// In each copy of a Redis, buckets and keys included (docs/adr/0008-redis-layout.md).
inline constexpr double kRedisBytes = 70;

// The embedded index of a kerfd (server/index/rocksdb_index.h).
inline constexpr std::uint64_t kEmbeddedBlockCacheBytes = 64 * kMiB;
inline constexpr std::uint64_t kEmbeddedMemtableBytes = 32 * kMiB;
inline constexpr std::uint64_t kEmbeddedOpenFiles = 512;
inline constexpr std::uint64_t kEmbeddedFileBytes = 64 * kMiB;

// A repository in Redis (server/redis/buckets.h): base buckets, each with all that is below it in
// one slot, and so on one master; the longest path below one; entries of one bucket.
inline constexpr int kRedisBaseBits = 10;
inline constexpr int kRedisMaxPathBits = 24;
inline constexpr std::uint64_t kRedisMaxBucketEntries = 64;

}  // namespace kerf::index_costs
