// Whether a disk that should be there is mounted.
#pragma once

#include <optional>
#include <string>

namespace kerf::agent {

// What the machine says of file systems, in the format of fstab(5).
struct MountTables {
  // Those that it knows.
  std::string known = "/etc/fstab";
  // Those that are there.
  std::string mounted = "/proc/self/mounts";
};

// The mount point at or above `path`, an absolute one, that the machine knows and at which nothing
// is mounted now. Nothing if there is none, or that cannot be told.
std::optional<std::string> FindUnmounted(const std::string& path, const MountTables& tables);

}  // namespace kerf::agent
