// One backup: scan, upload what has changed, write the snapshot.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/backup/cache_warmer.h"
#include "client/agent/backup/chunk_keeper.h"
#include "client/agent/backup/known_chunks.h"
#include "client/agent/backup/lane.h"
#include "client/agent/backup/progress.h"
#include "client/agent/backup/stream_tally.h"
#include "client/agent/backup/who_cuts.h"
#include "client/cpp/call_cancellation.h"
#include "client/cpp/resuming_upload.h"
#include "client/cpp/retry.h"
#include "client/fs/exclude.h"
#include "client/store/format/tree_codec.h"
#include "client/store/packs/compression.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

inline constexpr std::chrono::seconds kSlowFileAfter{30};

struct BackupOptions {
  std::vector<std::string> paths;
  // In place of files: all that this descriptor gives, as the one file of `paths`, "/NAME" (see
  // standard_input.h). FailedPrecondition if it gives nothing.
  std::optional<int> stream_fd;
  // Asked once it has given all: whether that is the whole content. An error ends the run, and no
  // snapshot is made. May wait, until `failure` says something. Empty: nobody can tell.
  std::function<absl::Status(const std::function<absl::Status()>& failure)> stream_end = {};
  // Each "unix:PATH" or "HOST:PORT"; where one is lost the next one is tried. At least one.
  std::vector<std::string> servers;
  // One of them has answered already: where it is away by now it is waited for from the beginning.
  bool server_was_met = false;
  // Not OK once none of them comes again, where the caller knows: the run ends with it. Of one
  // thread.
  std::function<absl::Status()> server_end = {};
  client::TlsChoice tls = {};
  // Sends streams past a front, to the workers that it names, where those can be reached.
  bool direct = false;
  WhoCuts who_cuts = WhoCuts::kServer;
  // With a server on this machine that cuts.
  bool shares_memory = true;
  // What is tried without progress before the run fails.
  client::RetryLimits retry = {};
  // A stream was lost and will be tried again; from any thread, one at a time.
  std::function<void(const client::ResumingUpload::Lost& lost)> on_lost;
  // Tells the index, for a session of the epoch, of chunks that a stream was lost with.
  // Ends soon once it is cancelled.
  std::function<absl::Status(std::uint64_t epoch, std::span<const StoredChunk> chunks,
                             client::CallCancellation& cancellation)>
      commit_late;
  ExcludePatterns excludes;
  // Left out with all that is in them, as the store itself is.
  std::vector<std::string> skip_directories = {};
  bool one_file_system = false;
  // As of ScanOptions.
  bool pseudo_file_systems = false;
  // A file of the snapshot before may have another device number by now.
  bool ignore_device = false;
  // Reads every file, even one that looks unchanged.
  bool force = false;
  // Threads that read ahead of the lanes, as far as there are descriptors for them; 0: nothing is
  // read ahead.
  unsigned reader_count = kDefaultReaders;
  ReadOrder read_order = ReadOrder::kInode;
  // Upload streams at once; 0 takes as many as there are cores, at most kMaxLanes.
  unsigned lane_count = 0;
  // Of new packs.
  Compression compression;
  // A pack is sealed when it has grown to this.
  std::uint64_t target_pack_bytes = PackWriterOptions().target_pack_bytes;
  // What may be known of the store's chunks, and who knows more.
  KnownChunks::Options known = {};
  // Longer recipes of the snapshot before are read only for files that have not changed.
  std::size_t max_kept_chunks = kMaxKeptChunks;
  std::string host;
  std::string user;
  // An entry that could not be read, or changed while it was read; from any thread, one at a time.
  std::function<void(const std::string& path, const absl::Status& status)> on_warning;
  // A file that a lane has waited for this long, to open or to read it; what is behind its file
  // system may never answer. It is no warning: the file may come yet. From one thread.
  std::function<void(const std::string& path)> on_slow_file = {};
  std::chrono::milliseconds slow_file_after = kSlowFileAfter;
  // As of PackWriterOptions. It is no warning: the snapshot is as it should be.
  std::function<void(const absl::Status&)> on_parity_failed = {};
  // Ends the run with Cancelled when it becomes true. When the snapshot is there and only the
  // server's last word is missing, it ends just the waiting for that.
  const std::atomic<bool>* cancelled = nullptr;
  // A server that is silent for so long counts as lost.
  std::chrono::milliseconds answer_limit = kAnswerLimit;
};

inline constexpr unsigned kMaxLanes = 8;

struct BackupResult {
  store::v1::Snapshot snapshot;
  ChunkCounts chunks;
  // The store has more chunks than could be listed: each was looked for where the index said.
  bool went_by_place = false;
  // Of entries that are not in the snapshot as they are.
  std::uint64_t warning_count = 0;
  // Why the server's index does not know all new chunks yet: no fault of the snapshot. OK if it
  // does.
  absl::Status index_warning;
  StreamCounts streams;
  // Whose content the kernel makes up, so that it was left out.
  std::vector<std::string> pseudo_directories;
};

// OK means that the snapshot is durable and whole but for the entries that were warned of. On
// failure no snapshot is written; packs that are sealed stay, and the next run uses them.
absl::StatusOr<BackupResult> RunBackup(Store& store, const BackupOptions& options,
                                       BackupProgress& progress);

}  // namespace kerf::agent
