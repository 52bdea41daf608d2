// Reads ahead of the lanes: brings the files that wait for one into the page cache, many at a time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "client/agent/backup/file_queue.h"
#include "client/agent/backup/progress.h"
#include "client/agent/backup/warmth.h"

namespace kerf::agent {

// In which the files of a window (kAheadFiles) are read ahead. What a snapshot holds, and the order
// in which lanes send it, is the same with each.
enum class ReadOrder : std::uint8_t {
  // Of their paths.
  kPath,
  // Of their inodes, which most file systems give out along the disk.
  kInode,
  // Of where their content begins on the disk; asks the file system for each.
  kPhysical,
};

// path, inode or physical; InvalidArgument for anything else.
absl::StatusOr<ReadOrder> ParseReadOrder(std::string_view text);

// Asks `is_over` between files, which takes from the order, and from nothing else, once it is true.
std::vector<AheadFile> InOrder(
    std::vector<AheadFile> files, ReadOrder order,
    const std::function<bool()>& is_over = [] { return false; });

inline constexpr unsigned kDefaultReaders = 8;
inline constexpr unsigned kMaxReaders = 64;

// As many of the wanted threads as the process has descriptors to spare for, of which each takes
// two at a time: what the backup itself needs must never be short of them.
unsigned AffordableReaders(unsigned wanted, std::uint64_t descriptor_limit);

// Holds what the queue lets it read ahead (kAheadBytes) in the page cache, and for each thread two
// descriptors. Nothing waits for it, and what becomes of a file behind it is as if it had never
// been looked at.
class CacheWarmer {
 public:
  // Ends with the queue, which outlives it; `progress` does, too.
  CacheWarmer(FileQueue& queue, unsigned reader_count, ReadOrder order, BackupProgress& progress);
  // Once the queue is drained, or aborted, from when on nothing more is begun.
  ~CacheWarmer();
  CacheWarmer(const CacheWarmer&) = delete;
  CacheWarmer& operator=(const CacheWarmer&) = delete;

 private:
  void Run();
  // The next file, in the order; false at the end.
  bool Next(AheadFile& file);

  FileQueue& queue_;
  const ReadOrder order_;
  BackupProgress& progress_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // What is handed out next, from next_ on.
  std::vector<AheadFile> window_;
  std::size_t next_ = 0;
  // A thread waits for the queue.
  bool fetching_ = false;
  bool ended_ = false;
  Warmth warmth_;
  std::vector<std::thread> threads_;
};

}  // namespace kerf::agent
