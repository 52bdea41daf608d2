// Has the kernel read what will be asked for soon. Hints: whoever reads gets the same bytes with or
// without them, and of what goes wrong nobody is told.
#pragma once

#include <cstdint>
#include <string>

#include "client/fs/node.h"

namespace kerf::agent {

// Whether what the kernel has read of a file is still there for the next who opens it, so that
// reading ahead pays: on file systems of this machine, and on NFS, which asks whether the file has
// changed. Others (FUSE, SMB, 9P) may read all of it again for each who opens it, or for each read:
// there a hint would cost its traffic twice. False if it cannot be told. Handles will do.
bool KeepsWhatIsRead(int fd);

// Begins to read these bytes of the open file, and does not wait for them. Costs little where they
// are in memory.
void BeginReading(int fd, std::uint64_t offset, std::uint64_t size_bytes);

// Begins to read the front of the regular file that was scanned as `scanned`; nothing if something
// else has its name by now or it cannot be opened. Holds a descriptor meanwhile, for a moment two,
// and touches no access time. False if that was for nothing: all of it was in memory for certain,
// or its file system does not keep what is read (then it is not opened).
bool BeginReadingFile(const std::string& node_path, const NodeIdentity& scanned,
                      std::uint64_t size_bytes);

// How much the calling thread has had the kernel read from disks so far, in units of its own; 0
// where that is not counted.
long ReadsOfThread();

// Where on its device the file's content begins, in bytes; 0 where nobody can tell.
std::uint64_t PhysicalPlace(const std::string& node_path, const NodeIdentity& scanned);

}  // namespace kerf::agent
