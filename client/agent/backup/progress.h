// How far a backup is.
#pragma once

#include <atomic>
#include <cstdint>

namespace kerf::agent {

// As of now; written by the engine, read by whoever shows progress.
struct BackupProgress {
  std::atomic<std::uint64_t> scanned_files{0};
  std::atomic<std::uint64_t> scanned_bytes{0};
  std::atomic<bool> scan_done{false};
  // Uploaded or unchanged; of a file that is being read, what has been read.
  std::atomic<std::uint64_t> done_files{0};
  std::atomic<std::uint64_t> done_bytes{0};
  std::atomic<std::uint64_t> unchanged_files{0};
  // Of what was looked up: bytes of unchanged files and of chunks that were answered, holes left
  // out; and those of them that had to be stored.
  std::atomic<std::uint64_t> known_bytes{0};
  std::atomic<std::uint64_t> new_bytes{0};
  // Looked at ahead of the lanes (cache_warmer.h).
  std::atomic<std::uint64_t> read_ahead_files{0};

  void Reset() {
    for (auto* counter : {&scanned_files, &scanned_bytes, &done_files, &done_bytes,
                          &unchanged_files, &known_bytes, &new_bytes, &read_ahead_files}) {
      *counter = 0;
    }
    scan_done = false;
  }
};

}  // namespace kerf::agent
