#include "client/agent/verbs/mount_check.h"

#include <mntent.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

namespace kerf::agent {
namespace {

// Longer ones, and what is behind so many, count as not there: nobody has them.
constexpr int kMaxLineBytes = 16 * 1024;
constexpr std::size_t kMaxMounts = 65'536;

struct TableCloser {
  void operator()(std::FILE* table) const { endmntent(table); }
};

// Resolved as far as they are there: a mount point may be named through a symlink.
std::filesystem::path Resolved(const std::string& path) {
  std::error_code error;
  std::filesystem::path resolved = std::filesystem::weakly_canonical(path, error);
  return error ? std::filesystem::path(path).lexically_normal() : resolved;
}

// Nothing if the table cannot be read. Swap and the like have no mount point.
std::optional<std::vector<std::filesystem::path>> MountPointsIn(const std::string& table_path) {
  const std::unique_ptr<std::FILE, TableCloser> table(setmntent(table_path.c_str(), "re"));
  if (table == nullptr) return std::nullopt;
  std::vector<std::filesystem::path> points;
  std::vector<char> line(kMaxLineBytes);
  mntent entry{};
  while (points.size() < kMaxMounts &&
         getmntent_r(table.get(), &entry, line.data(), kMaxLineBytes) != nullptr) {
    if (entry.mnt_dir != nullptr && *entry.mnt_dir == '/') points.emplace_back(entry.mnt_dir);
  }
  return points;
}

bool LiesIn(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

}  // namespace

std::optional<std::string> FindUnmounted(const std::string& path, const MountTables& tables) {
  const auto known = MountPointsIn(tables.known);
  const auto mounted = MountPointsIn(tables.mounted);
  if (!known.has_value() || !mounted.has_value()) return std::nullopt;
  const std::filesystem::path resolved = Resolved(path);
  for (const std::filesystem::path& point : *known) {
    // Nor is one looked at whose server may be gone: that may take for ever.
    if (std::find(mounted->begin(), mounted->end(), point) != mounted->end()) continue;
    const std::filesystem::path folder = Resolved(point.string());
    // Whatever runs has a root, also where that is mounted otherwise, as in a container.
    if (folder == folder.root_path() || !LiesIn(resolved, folder)) continue;
    if (std::find(mounted->begin(), mounted->end(), folder) == mounted->end()) {
      return point.string();
    }
  }
  return std::nullopt;
}

}  // namespace kerf::agent
