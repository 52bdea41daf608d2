// SNAPSHOT or SNAPSHOT:PATH as people write it.
#pragma once

#include <string>
#include <string_view>

namespace kerf::agent {

struct SnapshotName {
  std::string snapshot;
  // As nodes have it: without a '/' in front or behind; empty for the whole snapshot.
  std::string path;
};

inline SnapshotName ParseSnapshotName(std::string_view text) {
  SnapshotName name;
  const std::size_t colon = text.find(':');
  name.snapshot = text.substr(0, colon);
  if (colon == std::string_view::npos) return name;
  std::string_view path = text.substr(colon + 1);
  while (path.starts_with('/')) path.remove_prefix(1);
  while (path.ends_with('/')) path.remove_suffix(1);
  name.path = path;
  return name;
}

// A node's path as people know it.
inline std::string AbsoluteName(std::string_view node_path) { return "/" + std::string(node_path); }

}  // namespace kerf::agent
