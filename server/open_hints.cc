#include "server/open_hints.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "server/hints/redis_segment_store.h"
#include "server/hints/rocksdb_segment_store.h"
#include "server/hints/run_key.h"
#include "server/logging/logging.h"
#include "server/redis_options.h"

namespace kerf {
namespace {

// Whole or not at all: whoever starts next believes what is there.
absl::Status WriteRunKey(const std::string& path, const RunKey& key) {
  const std::string temporary = Cat(path, ".", getpid());
  UniqueFd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const bool is_written = file.valid() &&
                          write(file.get(), key.bytes.data(), key.bytes.size()) ==
                              static_cast<ssize_t>(key.bytes.size()) &&
                          fsync(file.get()) == 0;
  if (is_written && rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  unlink(temporary.c_str());
  return absl::FailedPreconditionError(
      ToAbsl(Cat("cannot write ", path, ": ", std::strerror(error))));
}

absl::StatusOr<RunKey> ReadOrMakeRunKey(const std::string& path) {
  absl::StatusOr<RunKey> key = ReadRunKey(path);
  if (!absl::IsNotFound(key.status())) return key;
  key = MakeRandomRunKey();
  KERF_RETURN_IF_ERROR(WriteRunKey(path, *key));
  return key;
}

absl::StatusOr<RunKey> ReadKey(const CuttingSettings& settings) {
  if (!settings.hints.key_file.empty()) {
    absl::StatusOr<RunKey> key = ReadRunKey(settings.hints.key_file);
    if (key.ok()) return key;
    return absl::FailedPreconditionError(ToAbsl(Cat("--hint-key-file: ", MessageOf(key.status()))));
  }
  if (!settings.index.data_dir.empty())
    return ReadOrMakeRunKey(settings.index.data_dir + "/hint.key");
  return MakeRandomRunKey();
}

absl::StatusOr<std::unique_ptr<SegmentStore>> OpenStore(
    const CuttingSettings& settings, std::shared_ptr<const TlsSource> redis_tls) {
  if (!settings.index.data_dir.empty()) {
    RocksDbSegmentOptions options;
    options.capacity_bytes = settings.hints.disk_bytes;
    options.opens_later = true;
    options.memtable_bytes = std::max<std::size_t>(
        options.memtable_bytes, settings.hints.disk_bytes / RocksDbSegmentOptions::kMaxFiles);
    return OpenRocksDbSegmentStore(settings.index.data_dir + "/hints", options);
  }
  if (settings.redis.seeds.empty()) return std::unique_ptr<SegmentStore>();
  if (settings.hints.key_file.empty()) {
    Log(LogLevel::kInfo,
        "no --hint-key-file: what is learned of files stays in this process, and other kerfd scan "
        "them again");
    return std::unique_ptr<SegmentStore>();
  }
  RedisSegmentOptions options;
  KERF_ASSIGN_OR_RETURN(options.redis, RedisOptionsOf(settings.redis, settings.edge.index_timeout,
                                                      std::move(redis_tls)));
  return CreateRedisSegmentStore(std::move(options));
}

}  // namespace

absl::StatusOr<OpenedHints> OpenHints(const CuttingSettings& settings,
                                      std::shared_ptr<const TlsSource> redis_tls) {
  OpenedHints opened;
  const std::uint64_t memory_bytes = MemoryBytesOf(settings.hints, !settings.redis.seeds.empty());
  if (memory_bytes == 0) return opened;
  HintCacheOptions options;
  options.capacity_bytes = memory_bytes;
  options.max_sizes = settings.hints.max_sizes;
  KERF_ASSIGN_OR_RETURN(options.key, ReadKey(settings));
  absl::StatusOr<std::unique_ptr<SegmentStore>> store = OpenStore(settings, std::move(redis_tls));
  if (store.ok()) {
    opened.store = *std::move(store);
  } else {
    // All of it may be lost: that is no reason not to serve.
    Log(LogLevel::kWarning, Cat("hints are kept in memory only: ", MessageOf(store.status())));
  }
  opened.cache = HintCache::Create(std::move(options), opened.store.get());
  return opened;
}

}  // namespace kerf
