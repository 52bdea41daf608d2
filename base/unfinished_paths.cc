#include "base/unfinished_paths.h"

#include <chrono>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>

namespace kerf {
namespace {

// Nobody holds the lock while it waits for a disk.
constexpr std::chrono::seconds kLockPatience{1};

struct UnfinishedPaths {
  std::timed_mutex mutex;
  std::set<std::string> paths;
};

// Never destroyed: threads may still make files while the process ends.
UnfinishedPaths& Unfinished() {
  static auto* const unfinished = new UnfinishedPaths;
  return *unfinished;
}

}  // namespace

void AddUnfinishedPath(const std::string& path) {
  UnfinishedPaths& unfinished = Unfinished();
  const std::lock_guard lock(unfinished.mutex);
  unfinished.paths.insert(path);
}

void ForgetUnfinishedPath(const std::string& path) {
  UnfinishedPaths& unfinished = Unfinished();
  const std::lock_guard lock(unfinished.mutex);
  unfinished.paths.erase(path);
}

void RemoveUnfinishedPaths() {
  UnfinishedPaths& unfinished = Unfinished();
  const std::unique_lock lock(unfinished.mutex, kLockPatience);
  if (!lock.owns_lock()) return;
  for (const std::string& path : unfinished.paths) {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  unfinished.paths.clear();
}

}  // namespace kerf
