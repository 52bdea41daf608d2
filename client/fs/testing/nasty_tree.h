// A tree of everything that breaks backups.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::agent::testing {

struct NastyTree {
  // What this machine or user could not make ("device nodes", "ACLs", ...); it is also printed.
  std::vector<std::string> left_out;
  // Files that nobody but root can read.
  std::vector<std::string> unreadable;
};

// Fills the new directory `root`; the parent must exist. The same seed gives the same tree. Ends
// the process where even plain files cannot be made. Contents:
//   files    empty, 1 byte, about 3 MiB, incompressible and constant, sizes around powers of 2
//   sparse   a leading, inner, trailing hole, only a hole, a hole of 1 TiB
//   links    hard links in one and across directories, of symlinks too; symlinks dangling,
//            absolute, in a loop, to directories, with a long target
//   special  fifo, socket, device nodes, and hard links of them
//   modes    0000, 0111, 0444, 4755, 2755, 1777, a read-only directory with content
//   times    before 1970, with nanoseconds, in the far future; on symlinks and directories too
//   xattrs   empty, binary, large, many; on directories too; ACLs
//   names    not UTF-8, line feed, quotes, a leading dash, blanks, 255 bytes, names that sort
//            around '/', a path of more than 4096 bytes
NastyTree MakeNastyTree(const std::string& root, std::uint64_t seed);

// For a test that needs to read everything: removes what this process cannot read.
void RemoveUnreadable(const NastyTree& tree);

}  // namespace kerf::agent::testing
