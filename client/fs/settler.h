// Gives restored files the last that they lack, once they last.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "client/fs/directory_stack.h"
#include "client/fs/durability.h"
#include "client/fs/node.h"
#include "client/fs/restore_node.h"

namespace kerf::agent {

// A restored file that waits for its group.
struct WaitingFile {
  Node node;
  DirectoryStack::Directory directory;
  UnsettledFile file;
  // Of its group's.
  std::uint64_t weight_bytes = 0;
};

struct SettledFile {
  absl::Status status;
  // Under its name, with all of its content. Always if the status is OK; also if all that failed is
  // that its file system does not take its time.
  bool is_there = false;
};

struct SettlerOptions {
  // Makes files durable, a group at a time: the whole file system at once, which costs a hundredth
  // of syncing file after file (docs/adr/0017-restoring.md).
  bool sync = true;
  // Reads each file again, from the disk if they are synced, and compares.
  bool verify = false;
  Durability& durability;
  // Of a group.
  std::size_t max_files = 1;
  std::uint64_t max_bytes = 0;
  // For each file, from any thread that is in Add or Finish: how it ended.
  std::function<void(const WaitingFile& file, const SettledFile& settled)> on_settled;
};

// A file's time, which is what tells whoever comes later that it is complete, is set when its
// content is durable and, with `verify`, when it has been read back; then it takes the name of what
// it replaces. One that does not come so far is removed. One that lacks attributes keeps the time
// at which it was written, or gets any other one but its own; so does one whose file system refuses
// to set a time, which is a failure, and no reason to be without the file.
//
// Holds at most two groups of open files and their directories. Thread-safe.
class Settler {
 public:
  explicit Settler(SettlerOptions options) : options_(std::move(options)) {}

  // Blocks while two groups are full.
  void Add(WaitingFile file);
  // Settles what waits. Nobody adds any more.
  void Finish();

 private:
  bool IsFull() const {
    return group_.size() >= options_.max_files || group_bytes_ >= options_.max_bytes;
  }
  void Settle(std::vector<WaitingFile> group);
  void Sync(std::span<const WaitingFile> group, std::vector<absl::Status>& statuses);
  SettledFile Complete(const WaitingFile& file) const;
  absl::Status Prove(const WaitingFile& file) const;
  absl::Status Verify(const WaitingFile& file) const;

  const SettlerOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<WaitingFile> group_;
  std::uint64_t group_bytes_ = 0;
  bool settling_ = false;
};

}  // namespace kerf::agent
