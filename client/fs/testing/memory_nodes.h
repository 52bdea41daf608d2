// Nodes for tests to restore, and looks at what became of them.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "client/fs/testing/memory_snapshot.h"

namespace kerf::agent::testing {

inline MemoryNode Directory(const std::string& path, std::uint32_t mode = 0755) {
  MemoryNode entry;
  entry.node.path = path;
  entry.node.kind = NodeKind::kDirectory;
  entry.node.mode = mode;
  entry.node.uid = geteuid();
  entry.node.gid = getegid();
  entry.node.modified = {1'500'000'000, 123};
  return entry;
}

inline MemoryNode File(const std::string& path, const std::string& text) {
  MemoryNode entry = Directory(path, 0640);
  entry.node.kind = NodeKind::kFile;
  entry.node.size_bytes = text.size();
  entry.content.assign(text.begin(), text.end());
  return entry;
}

inline MemoryNode Symlink(const std::string& path, const std::string& target) {
  MemoryNode entry = Directory(path);
  entry.node.kind = NodeKind::kSymlink;
  entry.node.link_target = target;
  return entry;
}

inline MemoryNode HardLink(const std::string& path, const std::string& to) {
  MemoryNode entry = File(path, "");
  entry.node.hard_link_to = to;
  return entry;
}

inline std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline bool Exists(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0;
}

}  // namespace kerf::agent::testing
