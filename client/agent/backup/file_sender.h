// Reads the files of a backup and sends them through its lanes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "client/agent/backup/chunk_keeper.h"
#include "client/agent/backup/entry_window.h"
#include "client/agent/backup/lane.h"
#include "client/agent/backup/progress.h"
#include "client/agent/backup/slow_reads.h"
#include "client/fs/file_source.h"
#include "client/store/format/chunk_ref.h"

namespace kerf::agent {

// Thread-safe; a lane belongs to one thread at a time. Everything that it is given outlives it.
class FileSender {
 public:
  struct Options {
    // Where the bytes of the only file come from, if it is none of the file system's.
    std::optional<int> stream_fd;
    // As of BackupOptions.
    std::function<absl::Status(const std::function<absl::Status()>& failure)> stream_end = {};
    // Large files are read ahead of being sent.
    bool reads_ahead = true;
    // Why the run has ended, OK while it has not.
    std::function<absl::Status()> failure;
    // Of a file that is left out, or is not as it was.
    std::function<void(const std::string& path, const absl::Status& status)> warn;
  };

  FileSender(const ChunkKeeper& keeper, EntryWindow& window, BackupProgress& progress,
             Options options)
      : keeper_(keeper), window_(window), progress_(progress), options_(std::move(options)) {}

  // Both parts of the slot are reported once they are there. OK unless the lane or the run has
  // failed.
  absl::Status Send(Lane& lane, EntryWindow::Slot* slot);

  // Files that a lane waits for.
  SlowReads& slow_reads() { return slow_reads_; }

  // A file that need not be sent.
  void CountUnchanged(std::span<const ChunkRef> recipe);

 private:
  absl::Status SendFile(Lane& lane, EntryWindow::Slot* slot);
  absl::Status SendStream(Lane& lane, EntryWindow::Slot* slot);
  void TakeWhatIsOpen(const FileSource& source, EntryWindow::Slot& slot) const;
  Lane::OnComplete WhenComplete(EntryWindow::Slot* slot, std::uint64_t hole_bytes);
  void CountRead(std::uint64_t bytes);
  void CountSavings();

  const ChunkKeeper& keeper_;
  EntryWindow& window_;
  BackupProgress& progress_;
  const Options options_;
  SlowReads slow_reads_;
  std::atomic<std::uint64_t> unchanged_bytes_{0};
};

}  // namespace kerf::agent
