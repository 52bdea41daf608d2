// Two trees held against each other by plain system calls, so that a test of scanner and restorer
// does not trust either of them.
#pragma once

#include <string>
#include <vector>

namespace kerf::agent::testing {

struct CompareOptions {
  bool owners = true;
  // Data and holes lie in the same places; not every file system keeps them.
  bool holes = false;
};

// What differs below the two directories, one line each: names, kind, mode, owner, mtime to the
// nanosecond, size, content, link target, device number, extended attributes, which names are hard
// links of each other. Empty if the trees are the same. Stops after some lines.
std::vector<std::string> CompareTrees(const std::string& left, const std::string& right,
                                      const CompareOptions& options = {});

// Removes a tree whatever modes and lengths of path it has. Does not follow symlinks.
void RemoveTree(const std::string& path);

}  // namespace kerf::agent::testing
