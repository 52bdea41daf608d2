// A file system that passes everything on to a folder, but for what its rules say.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "e2e/fault_fs/rules.h"
#include "e2e/fault_fs/unflushed.h"
#include "e2e/fault_fs/unsynced.h"

namespace kerf::fault_fs {

// What the operations and the control share.
struct FileSystem {
  explicit FileSystem(std::string unsynced_folder) : unsynced(std::move(unsynced_folder)) {}

  Rules rules;
  Unsynced unsynced;
  Unflushed unflushed;
  // Times are told rounded down to this, as by file systems that keep them so.
  std::atomic<std::int64_t> granularity_ns{1};
};

// Serves the working directory at `mount_point` until it is unmounted or the process is asked to
// end; the exit code. Nothing is cached: each system call of a user is an operation.
int Serve(FileSystem& files, const std::string& mount_point);

}  // namespace kerf::fault_fs
