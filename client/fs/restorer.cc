#include "client/fs/restorer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/open_files.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/fs/directory_stack.h"
#include "client/fs/os_error.h"
#include "client/fs/path.h"
#include "client/fs/restore_metadata.h"
#include "client/fs/restore_node.h"
#include "client/fs/settler.h"

namespace kerf::agent {
namespace {

// A batch is what a thread takes at once: neighbours, because files of one directory are created
// one after the other anyway, and because their content lies side by side in the store.
constexpr std::size_t kBatchNodes = 32;
constexpr std::uint64_t kBatchBytes = 1 << 20;
// Every node of a batch may hold a directory open; this bounds how many.
constexpr std::size_t kBatchDirectories = 8;
// Nodes may be large themselves: extended attributes, or the list of what their content is made of.
constexpr std::uint64_t kBatchHeldBytes = 1 << 20;
// Batches that wait, for each thread.
constexpr std::size_t kQueuedBatches = 2;
// What the nodes of all batches that wait may hold.
constexpr std::uint64_t kMaxQueuedHeldBytes = std::uint64_t{64} << 20;
// Files that are made durable at once; each of two groups has a file and perhaps a directory open
// for each, so that they take half of the files that may be.
constexpr std::size_t kGroupFiles = 4096;
constexpr std::size_t kMinGroupFiles = 16;
constexpr std::uint64_t kWantedOpenFiles = 8 * kGroupFiles;
constexpr std::uint64_t kGroupBytes = std::uint64_t{1} << 30;
// What an extent that is remembered counts as.
constexpr std::uint64_t kExtentWeightBytes = std::uint64_t{16} << 10;

struct Task {
  Node node;
  std::unique_ptr<FileContent> content;
  DirectoryStack::Directory directory;
};

struct Batch {
  std::vector<Task> tasks;
  std::uint64_t content_bytes = 0;
  std::uint64_t held_bytes = 0;
  std::size_t directory_count = 0;
};

std::uint64_t HeldBytes(const Node& node) {
  std::uint64_t bytes = sizeof node + node.path.size() + node.hard_link_to.size() +
                        node.link_target.size() + node.user.size() + node.group.size() +
                        node.extents.size() * sizeof(Extent);
  for (const Xattr& xattr : node.xattrs) {
    bytes += sizeof xattr + xattr.name.size() + xattr.value.size();
  }
  return bytes;
}

class TreeRestorer : public Restorer {
 public:
  TreeRestorer(UniqueFd target, UniqueFd target_again, RestoreOptions options);
  ~TreeRestorer() override { Stop(true); }

  void Add(Node node, std::unique_ptr<FileContent> content) override;
  void Report(const std::string& path, const absl::Status& status) override;
  RestoreSummary Finish(bool cancelled) override;
  RestoreSummary progress() const override;

 private:
  void AddDirectory(Node node, int parent_fd);
  void AddHardLink(Node node);
  // False, and the node is reported, if there is no room to keep it until the end.
  bool Hold(const Node& node);
  void Enqueue(Task task);
  void PushBatch();
  void Work();
  void Restore(Task& task);
  // Waits for the threads; `drop` what is queued.
  void Stop(bool drop);
  void MakeHardLinks();
  void FinishDirectories();
  // Of a file system that is not the target's.
  void NoteFileSystem(int directory_fd);
  void SyncAll();
  SettlerOptions MakeSettlerOptions();
  void TakeSettled(const Node& node, const SettledFile& settled);
  void Count(const Node& node, const NodeOutcome& outcome);
  void NoteFailed(const std::string& path) {
    const std::lock_guard lock(report_mutex_);
    failed_paths_.insert(path);
  }
  bool HasFailed(const std::string& path) {
    const std::lock_guard lock(report_mutex_);
    return failed_paths_.contains(path);
  }

  const RestoreOptions options_;
  Durability& durability_;
  Settler settler_;
  // By their device: a descriptor on each file system that directories were entered on.
  std::map<dev_t, UniqueFd> file_systems_;
  // Of the thread that calls Add.
  DirectoryStack stack_;
  DirectoryStack second_stack_;
  // A directory that could not be restored, "" if there is none: what lies below cannot be either.
  std::string failed_directory_;
  // Of the two below.
  std::uint64_t held_bytes_ = 0;
  std::vector<Node> directories_;
  std::vector<Node> hard_links_;
  Batch batch_;

  std::mutex queue_mutex_;
  std::condition_variable queue_changed_;
  std::deque<Batch> queue_;
  // By their batches.
  std::uint64_t queued_held_bytes_ = 0;
  std::size_t max_queued_ = 0;
  bool closed_ = false;
  std::vector<std::thread> threads_;

  std::mutex report_mutex_;
  // What is not there: nothing may be linked to it.
  std::unordered_set<std::string> failed_paths_;

  std::atomic<std::uint64_t> file_count_{0};
  std::atomic<std::uint64_t> directory_count_{0};
  std::atomic<std::uint64_t> other_count_{0};
  std::atomic<std::uint64_t> written_bytes_{0};
  std::atomic<std::uint64_t> skipped_count_{0};
  std::atomic<std::uint64_t> verified_count_{0};
  std::atomic<std::uint64_t> error_count_{0};
  std::atomic<std::uint64_t> unprivileged_count_{0};
};

TreeRestorer::TreeRestorer(UniqueFd target, UniqueFd target_again, RestoreOptions options)
    : options_(std::move(options)),
      durability_(options_.durability == nullptr ? SystemDurability() : *options_.durability),
      settler_(MakeSettlerOptions()),
      stack_(std::move(target), O_RDONLY),
      second_stack_(std::move(target_again), O_RDONLY) {
  unsigned count =
      options_.thread_count == 0 ? std::thread::hardware_concurrency() : options_.thread_count;
  count = std::clamp(count, 1u, kMaxRestoreThreads);
  max_queued_ = count * kQueuedBatches;
  NoteFileSystem((*stack_.Top())->get());
  for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this] { Work(); });
}

SettlerOptions TreeRestorer::MakeSettlerOptions() {
  SettlerOptions options{.sync = options_.sync,
                         .verify = options_.verify,
                         .durability = durability_,
                         .max_bytes = kGroupBytes,
                         .on_settled = [this](const WaitingFile& file, const SettledFile& settled) {
                           TakeSettled(file.node, settled);
                         }};
  // Nothing is won by waiting for others where nothing is synced.
  if (!options_.sync) return options;
  options.max_files = std::clamp<std::size_t>(RaiseOpenFileLimit(kWantedOpenFiles) / 8,
                                              kMinGroupFiles, kGroupFiles);
  return options;
}

void TreeRestorer::NoteFileSystem(int directory_fd) {
  struct stat status{};
  if (!options_.sync || fstat(directory_fd, &status) != 0 ||
      file_systems_.contains(status.st_dev)) {
    return;
  }
  file_systems_.emplace(status.st_dev, UniqueFd(openat(directory_fd, ".", O_RDONLY | O_CLOEXEC)));
}

void TreeRestorer::SyncAll() {
  if (!options_.sync) return;
  for (const auto& [device, fd] : file_systems_) {
    const int error = durability_.SyncsAsAWhole(fd.get()) ? durability_.SyncFileSystem(fd.get())
                                                          : durability_.SyncFile(fd.get());
    if (error != 0) Report("", OsError(error, "cannot make durable what was restored", "to it"));
  }
}

void TreeRestorer::Report(const std::string& path, const absl::Status& status) {
  ++error_count_;
  const std::lock_guard lock(report_mutex_);
  if (options_.on_error) options_.on_error(path, status);
}

void TreeRestorer::Add(Node node, std::unique_ptr<FileContent> content) {
  if (absl::Status status = CheckNodePath(node.path); !status.ok()) {
    Report(node.path, status);
    return;
  }
  if (!failed_directory_.empty() && IsAtOrBelow(node.path, failed_directory_)) {
    ++error_count_;
    return;
  }
  const std::string_view parent = ParentOf(node.path);
  stack_.PopTo(parent);
  if (stack_.path() != parent) {
    Report(node.path, absl::FailedPreconditionError(
                          Cat("the parent of /", node.path, " was not restored as a directory")));
    return;
  }
  absl::StatusOr<DirectoryStack::Directory> directory = stack_.Top();
  if (!directory.ok()) {
    Report(node.path, directory.status());
    return;
  }
  if (node.kind == NodeKind::kDirectory) {
    AddDirectory(std::move(node), (*directory)->get());
  } else if (!node.hard_link_to.empty()) {
    AddHardLink(std::move(node));
  } else {
    Enqueue({std::move(node), std::move(content), *std::move(directory)});
  }
}

bool TreeRestorer::Hold(const Node& node) {
  const std::uint64_t bytes = HeldBytes(node);
  if (bytes <= options_.max_held_node_bytes - held_bytes_) {
    held_bytes_ += bytes;
    return true;
  }
  Report(node.path, absl::FailedPreconditionError(
                        Cat("/", node.path, ": the directories and hard links take more than ",
                            options_.max_held_node_bytes, " bytes of memory: restore a part")));
  return false;
}

void TreeRestorer::AddHardLink(Node node) {
  // The file has them already.
  node.xattrs.clear();
  if (Hold(node)) hard_links_.push_back(std::move(node));
}

void TreeRestorer::AddDirectory(Node node, int parent_fd) {
  if (!Hold(node)) {
    failed_directory_ = node.path;
    return;
  }
  absl::StatusOr<UniqueFd> opened = RestoreDirectory(parent_fd, node, options_.overwrite);
  if (!opened.ok()) {
    Report(node.path, opened.status());
    failed_directory_ = node.path;
    return;
  }
  ++directory_count_;
  NoteFileSystem(opened->get());
  stack_.Push(NameOf(node.path), *std::move(opened));
  directories_.push_back(std::move(node));
}

void TreeRestorer::Enqueue(Task task) {
  batch_.content_bytes += task.node.size_bytes;
  batch_.held_bytes += HeldBytes(task.node);
  if (task.content != nullptr) batch_.held_bytes += task.content->held_bytes();
  if (batch_.tasks.empty() || batch_.tasks.back().directory != task.directory) {
    ++batch_.directory_count;
  }
  batch_.tasks.push_back(std::move(task));
  if (batch_.tasks.size() >= kBatchNodes || batch_.content_bytes >= kBatchBytes ||
      batch_.directory_count >= kBatchDirectories || batch_.held_bytes >= kBatchHeldBytes) {
    PushBatch();
  }
}

void TreeRestorer::PushBatch() {
  if (batch_.tasks.empty()) return;
  std::unique_lock lock(queue_mutex_);
  queue_changed_.wait(lock, [this] {
    return queue_.empty() ||
           (queue_.size() < max_queued_ && queued_held_bytes_ < kMaxQueuedHeldBytes);
  });
  queued_held_bytes_ += batch_.held_bytes;
  queue_.push_back(std::exchange(batch_, {}));
  queue_changed_.notify_all();
}

void TreeRestorer::Work() {
  while (true) {
    Batch batch;
    {
      std::unique_lock lock(queue_mutex_);
      queue_changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      batch = std::move(queue_.front());
      queue_.pop_front();
      queued_held_bytes_ -= batch.held_bytes;
      queue_changed_.notify_all();
    }
    for (Task& task : batch.tasks) Restore(task);
  }
}

void TreeRestorer::Restore(Task& task) {
  NodeOutcome outcome = RestoreNode(task.directory->get(), task.node, task.content.get(),
                                    options_.overwrite, options_.verify);
  // Releases what the content holds before the next file needs some.
  task.content.reset();
  Count(task.node, outcome);
  if (!outcome.file.has_value()) {
    const bool is_there = task.node.kind != NodeKind::kFile && outcome.restored;
    if (!is_there && !outcome.skipped) NoteFailed(task.node.path);
    return;
  }
  Node& node = task.node;
  node.xattrs = {};
  if (!options_.verify) node.extents = {};
  const std::uint64_t weight = outcome.written_bytes + node.extents.size() * kExtentWeightBytes;
  settler_.Add({std::move(node), std::move(task.directory), *std::move(outcome.file), weight});
}

void TreeRestorer::TakeSettled(const Node& node, const SettledFile& settled) {
  if (!settled.status.ok()) Report(node.path, settled.status);
  if (!settled.is_there) {
    NoteFailed(node.path);
    return;
  }
  ++file_count_;
  if (options_.verify) ++verified_count_;
}

void TreeRestorer::Count(const Node& node, const NodeOutcome& outcome) {
  if (!outcome.status.ok()) Report(node.path, outcome.status);
  if (outcome.skipped) ++skipped_count_;
  if (outcome.unprivileged) ++unprivileged_count_;
  written_bytes_ += outcome.written_bytes;
  // A file counts when it is settled.
  if (outcome.restored && !outcome.file.has_value()) ++other_count_;
}

void TreeRestorer::Stop(bool drop) {
  {
    const std::lock_guard lock(queue_mutex_);
    if (drop) queue_.clear();
    closed_ = true;
    queue_changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void TreeRestorer::MakeHardLinks() {
  for (const Node& node : hard_links_) {
    if (absl::Status status = CheckNodePath(node.hard_link_to); !status.ok()) {
      Report(node.path, status);
      continue;
    }
    if (HasFailed(node.hard_link_to)) {
      Report(node.path, absl::FailedPreconditionError(Cat("/", node.path, " is a hard link to /",
                                                          node.hard_link_to,
                                                          ", which could not be restored")));
      continue;
    }
    const auto directory = stack_.Enter(ParentOf(node.path));
    const auto source = second_stack_.Enter(ParentOf(node.hard_link_to));
    if (!directory.ok() || !source.ok()) {
      Report(node.path, directory.ok() ? source.status() : directory.status());
      continue;
    }
    Count(node, RestoreHardLink((*source)->get(), std::string(NameOf(node.hard_link_to)),
                                (*directory)->get(), node, options_.overwrite));
  }
}

void TreeRestorer::FinishDirectories() {
  std::for_each(directories_.rbegin(), directories_.rend(), [this](const Node& node) {
    const auto directory = stack_.Enter(node.path);
    if (!directory.ok()) {
      Report(node.path, directory.status());
      return;
    }
    const int fd = (*directory)->get();
    MetadataResult result = ApplyAttributes(fd, node);
    if (options_.sync && !durability_.SyncsAsAWhole(fd)) {
      const int error = durability_.SyncFile(fd);
      if (error != 0) result.status.Update(OsError(error, "cannot make durable", "/" + node.path));
    }
    if (result.status.ok()) result.status = ApplyTime(fd, node);
    if (!result.status.ok()) Report(node.path, result.status);
    if (result.unprivileged) ++unprivileged_count_;
  });
}

RestoreSummary TreeRestorer::Finish(bool cancelled) {
  if (!cancelled) PushBatch();
  batch_ = {};
  Stop(cancelled);
  settler_.Finish();
  if (!cancelled) MakeHardLinks();
  if (!cancelled && error_count_ == 0 && options_.before_directories) {
    stack_.PopTo("");
    if (const auto target = stack_.Top(); target.ok()) {
      options_.before_directories((*target)->get());
    }
  }
  FinishDirectories();
  SyncAll();
  return progress();
}

RestoreSummary TreeRestorer::progress() const {
  RestoreSummary summary;
  summary.file_count = file_count_;
  summary.directory_count = directory_count_;
  summary.other_count = other_count_;
  summary.written_bytes = written_bytes_;
  summary.skipped_count = skipped_count_;
  summary.verified_count = verified_count_;
  summary.error_count = error_count_;
  summary.unprivileged_count = unprivileged_count_;
  return summary;
}

}  // namespace

std::uint64_t MaxHeldNodeBytes() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) / 4;
}

std::optional<OverwritePolicy> ParseOverwritePolicy(std::string_view name) {
  if (name == "refuse") return OverwritePolicy::kRefuse;
  if (name == "never") return OverwritePolicy::kNever;
  if (name == "if-changed") return OverwritePolicy::kIfChanged;
  if (name == "always") return OverwritePolicy::kAlways;
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<Restorer>> MakeRestorer(const std::string& target,
                                                       RestoreOptions options) {
  std::error_code error;
  std::filesystem::create_directories(target, error);
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  UniqueFd fd(open(target.c_str(), kFlags));
  if (!fd.valid()) return OsError(errno, "cannot restore into", target);
  // One error, not one for each file.
  if (faccessat(fd.get(), ".", W_OK, 0) != 0 && errno == EROFS) {
    return OsError(errno, "cannot restore into", target);
  }
  UniqueFd again(openat(fd.get(), ".", kFlags));
  if (!again.valid()) return OsError(errno, "cannot restore into", target);
  return std::make_unique<TreeRestorer>(std::move(fd), std::move(again), std::move(options));
}

}  // namespace kerf::agent
