#include "server/open_index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "server/index/memory_index.h"
#include "server/index/rocksdb_index.h"
#include "server/logging/logging.h"

namespace kerf {
namespace {

constexpr std::size_t kMaxPasswordBytes = 1024;

absl::Status PasswordError(const std::string& path, std::string_view what) {
  return absl::FailedPreconditionError(ToAbsl(Cat("--redis-password-file ", path, ": ", what)));
}

// The first line of the file.
absl::StatusOr<std::string> ReadPassword(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return PasswordError(path, std::strerror(errno));
  struct stat info{};
  std::array<char, kMaxPasswordBytes + 2> buffer{};
  const bool is_known = fstat(file, &info) == 0;
  const ssize_t count = read(file, buffer.data(), buffer.size());
  close(file);
  if (!is_known || count < 0) return PasswordError(path, "cannot be read");
  if ((info.st_mode & (S_IRWXG | S_IRWXO) & ~S_IRGRP) != 0) {
    return PasswordError(path, "more than its owner and group may read it: chmod 0640 or less");
  }
  std::string text(buffer.data(), static_cast<std::size_t>(count));
  text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.empty()) return PasswordError(path, "its first line is empty");
  if (text.size() > kMaxPasswordBytes) {
    return PasswordError(path, Cat("its first line has more than ", kMaxPasswordBytes, " bytes"));
  }
  return text;
}

absl::StatusOr<OpenedIndex> OpenRedis(const Settings& settings) {
  RedisIndexOptions options;
  options.redis.seeds = settings.redis;
  options.redis.username = settings.redis_user;
  options.redis.command_timeout = settings.index_timeout;
  options.replica_count = static_cast<int>(settings.redis_replicas);
  if (!settings.redis_password_file.empty()) {
    KERF_ASSIGN_OR_RETURN(options.redis.password, ReadPassword(settings.redis_password_file));
  }
  std::string names;
  for (const RedisAddress& seed : settings.redis) names += " " + FormatRedisAddress(seed);
  Log(LogLevel::kInfo, Cat("opening the index in Redis at", names));
  std::vector<std::string> warnings;
  OpenedIndex opened;
  KERF_ASSIGN_OR_RETURN(opened.redis, RedisIndex::Open(std::move(options), &warnings));
  for (const std::string& warning : warnings) Log(LogLevel::kWarning, warning);
  opened.index = MakeBlockingIndex(opened.redis.get());
  return opened;
}

}  // namespace

absl::StatusOr<OpenedIndex> OpenIndex(const Settings& settings) {
  if (!settings.redis.empty()) return OpenRedis(settings);
  OpenedIndex opened;
  if (settings.data_dir.empty()) {
    Log(LogLevel::kWarning,
        "NO --data-dir: the index is in memory and is lost when kerfd stops; agents will then "
        "upload everything again");
    opened.index = CreateMemoryIndex();
    return opened;
  }
  if (mkdir(settings.data_dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat("cannot create --data-dir ", settings.data_dir, ": ", std::strerror(errno))));
  }
  RocksDbIndexOptions options;
  options.sync_commits = settings.sync_commits;
  KERF_ASSIGN_OR_RETURN(opened.index, OpenRocksDbIndex(settings.data_dir + "/index", options));
  return opened;
}

}  // namespace kerf
