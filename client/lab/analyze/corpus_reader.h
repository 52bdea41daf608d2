// Reads the given paths into memory, as a backup would read them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/fs/exclude.h"
#include "client/lab/analyze/corpus.h"

namespace kerf::agent::analyze {

struct ReadOptions {
  std::vector<std::string> paths;
  ExcludePatterns excludes;
  // Of content that is held in memory; beyond it a sample is taken (sample.h).
  std::uint64_t max_bytes = 0;
  std::uint64_t seed = 0;
  // Called for each file or folder that cannot be read; it is left out.
  std::function<void(const std::string& path, const absl::Status& status)> on_warning;
};

// How far reading is; written by the reader, read by any thread.
struct ReadProgress {
  std::atomic<std::uint64_t> found_files{0};
  std::atomic<std::uint64_t> found_bytes{0};
  std::atomic<std::uint64_t> done_files{0};
  std::atomic<std::uint64_t> done_bytes{0};
  std::atomic<bool> scan_done{false};
};

// Regular files only; of hard links within one path the first; of sparse files what is no hole.
// NotFound if there is not one byte; Cancelled if `cancelled` became true; the first error if no
// path can be read at all.
absl::StatusOr<Corpus> ReadCorpus(const ReadOptions& options, const std::atomic<bool>& cancelled,
                                  ReadProgress& progress);

}  // namespace kerf::agent::analyze
