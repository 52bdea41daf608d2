// Recreates nodes below a target directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/fs/durability.h"
#include "client/fs/node.h"

namespace kerf::agent {

// The content of one file: of its extents one after the other. Used by one thread at a time, not
// always the same one.
class FileContent {
 public:
  virtual ~FileContent() = default;

  // The next bytes, valid until the next call; empty at the end. An error ends this file only.
  virtual absl::StatusOr<std::span<const std::uint8_t>> Next() = 0;

  // Memory that it takes before its first Next.
  virtual std::size_t held_bytes() const { return 0; }
};

// What to do where something that is not a directory stands in the way. A directory stands in the
// way only of something else; then it is an error under every policy.
enum class OverwritePolicy {
  // Report it as an error, leave it (the default).
  kRefuse,
  // Leave it silently; it is counted as skipped.
  kNever,
  // Leave a file of the same size and mtime, replace everything else.
  kIfChanged,
  // Replace it. The old file stays until the new one is complete.
  kAlways,
};

// "refuse", "never", "if-changed", "always".
std::optional<OverwritePolicy> ParseOverwritePolicy(std::string_view name);

inline constexpr unsigned kMaxRestoreThreads = 16;

// Of the nodes of directories and hard links, which are kept until the end: a quarter of the
// machine's memory.
std::uint64_t MaxHeldNodeBytes();

struct RestoreOptions {
  OverwritePolicy overwrite = OverwritePolicy::kRefuse;
  // Threads that write files; 0 takes as many as there are cores, at most kMaxRestoreThreads.
  unsigned thread_count = 0;
  // A directory or hard link beyond it is not restored (FailedPrecondition), nor what lies below.
  std::uint64_t max_held_node_bytes = MaxHeldNodeBytes();
  // Makes what is restored durable, and reports what cannot be.
  bool sync = true;
  // Reads every file again, past the page cache if `sync`, and compares it with what was written.
  bool verify = false;
  // Called by Finish when all but the metadata of directories is done and nothing has failed, with
  // the target: what it changes in directories does not change their times.
  std::function<void(int target_fd)> before_directories;
  // The calls behind `sync`; null: the kernel's.
  Durability* durability = nullptr;
  // Called for every node that could not be restored, or not completely, with its path in the
  // snapshot; from several threads, one at a time. The run goes on. What lies below a directory
  // that could not be restored is counted, and not reported again.
  std::function<void(const std::string& path, const absl::Status& status)> on_error;
};

struct RestoreSummary {
  std::uint64_t file_count = 0;
  std::uint64_t directory_count = 0;
  // Symlinks, hard links, fifos, sockets, devices.
  std::uint64_t other_count = 0;
  std::uint64_t written_bytes = 0;
  // Left as they were, by policy.
  std::uint64_t skipped_count = 0;
  // Files that were read back.
  std::uint64_t verified_count = 0;
  std::uint64_t error_count = 0;
  // Owners, and attributes in the privileged namespaces, that only root could have set. Not
  // counted as errors.
  std::uint64_t unprivileged_count = 0;
};

// Never touches anything outside the target, whatever the nodes say: every name is resolved
// relative to an open directory that this run has made or entered itself, and no symlink is
// followed below the target. A node whose parent was not restored as a directory is refused.
//
// Directories are made at once, files by several threads, hard links and the metadata of
// directories in Finish, deepest first. A file appears under its name with mode 0600 (or only when
// complete, where it replaces another one), gets its attributes when its content is complete, and
// is removed again if its content is not. Its time comes last, when it is durable, and only if all
// else of it could be set: whoever is interrupted, or refused an attribute, leaves nothing that
// looks like the snapshot's and is not. Owners are restored by
// number; where they cannot be, set-id bits are not restored either. Directories that exist are
// entered and get the metadata of their node. What is restored has no attribute or right that its
// node has not, at no moment (docs/adr/0017-restoring.md).
//
// Add and Finish belong to one thread.
class Restorer {
 public:
  virtual ~Restorer() = default;

  // Nodes come in the order of a snapshot (ComparePaths). Only regular files without hard_link_to
  // have content. Blocks while too much work is queued. What goes wrong with the node is reported
  // through on_error.
  virtual void Add(Node node, std::unique_ptr<FileContent> content) = 0;

  // Counts and reports what the caller could not give it: an entry, or a part of it.
  virtual void Report(const std::string& path, const absl::Status& status) = 0;

  // Completes everything. If `cancelled`, what is queued is dropped, links are not made, and
  // directories get their metadata.
  virtual RestoreSummary Finish(bool cancelled) = 0;

  // As of now, for progress. Thread-safe.
  virtual RestoreSummary progress() const = 0;
};

// Makes `target` with its parents if it does not exist. `target` may be a symlink to a directory.
absl::StatusOr<std::unique_ptr<Restorer>> MakeRestorer(const std::string& target,
                                                       RestoreOptions options);

}  // namespace kerf::agent
