#include "server/open_index.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "server/index/kept_index.h"
#include "server/index/memory_index.h"
#include "server/logging/logging.h"
#include "server/redis_options.h"

namespace kerf {
namespace {

absl::StatusOr<OpenedIndex> OpenRedis(const CuttingSettings& settings,
                                      std::shared_ptr<const TlsSource> tls,
                                      std::function<bool()> is_cancelled,
                                      std::function<void(const absl::Status&)> on_trouble) {
  RedisIndexOptions options;
  KERF_ASSIGN_OR_RETURN(
      options.redis, RedisOptionsOf(settings.redis, settings.edge.index_timeout, std::move(tls)));
  options.replica_count = static_cast<int>(settings.redis.replica_count);
  options.expected_entry_count = settings.redis.expected_chunk_count;
  options.layout = static_cast<RedisLayout>(settings.redis.layout);
  options.is_cancelled = std::move(is_cancelled);
  options.on_trouble = [&settings, on_trouble = std::move(on_trouble)](const absl::Status& why) {
    Log(LogLevel::kWarning,
        Cat("waiting for Redis, ", settings.edge.index_timeout.count(),
            " ms at most (--index-timeout-ms); is --redis right? ", MessageOf(why)));
    on_trouble(why);
  };
  std::string names;
  for (const RedisAddress& seed : settings.redis.seeds) names += " " + FormatRedisAddress(seed);
  Log(LogLevel::kInfo, Cat("opening the index in Redis at", names));
  std::vector<std::string> warnings;
  OpenedIndex opened;
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<RedisIndex> redis,
                        RedisIndex::Open(std::move(options), &warnings));
  for (const std::string& warning : warnings) Log(LogLevel::kWarning, warning);
  opened.redis = redis.get();
  opened.index = std::move(redis);
  return opened;
}

}  // namespace

absl::StatusOr<OpenedIndex> OpenIndex(const CuttingSettings& settings,
                                      std::shared_ptr<const TlsSource> redis_tls,
                                      std::function<bool()> is_cancelled,
                                      std::function<void(const absl::Status&)> on_trouble) {
  if (!settings.redis.seeds.empty()) {
    return OpenRedis(settings, std::move(redis_tls), std::move(is_cancelled),
                     std::move(on_trouble));
  }
  OpenedIndex opened;
  if (settings.index.data_dir.empty()) {
    Log(LogLevel::kWarning,
        "NO --data-dir: the index is in memory and is lost when kerfd stops; agents will then "
        "upload everything again");
    opened.index = CreateMemoryIndex();
    return opened;
  }
  if (mkdir(settings.index.data_dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::FailedPreconditionError(ToAbsl(
        Cat("cannot create --data-dir ", settings.index.data_dir, ": ", std::strerror(errno))));
  }
  KeptIndexOptions options;
  options.rocksdb.sync_commits = settings.index.sync_commits;
  KERF_ASSIGN_OR_RETURN(opened.index, OpenKeptIndex(settings.index.data_dir, options));
  return opened;
}

void AddMetrics(const OpenedIndex& opened, metrics::Page& page) {
  if (opened.redis == nullptr) return;
  const RedisCounters counters = opened.redis->counters();
  page.Add(metrics::kRedisCommands, counters.commands);
  page.Add(metrics::kRedisRetries, counters.retries);
  page.Add(metrics::kRedisRedirects, counters.redirects);
  page.Add(metrics::kRedisConnects, counters.connects);
  if (const auto expires_at_s = opened.redis->certificate_expires_at_s()) {
    page.Add(metrics::kRedisCertificateExpires, static_cast<std::uint64_t>(*expires_at_s));
  }
  const RedisMemory memory = opened.redis->memory();
  page.Add(metrics::kRedisMemoryBytes, memory.used_bytes);
  page.Add(metrics::kRedisMaxMemoryBytes, memory.max_bytes);
  page.Add(metrics::kRedisFullMasters, memory.full.size());
}

}  // namespace kerf
