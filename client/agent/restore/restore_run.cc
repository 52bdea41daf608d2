#include "client/agent/restore/restore_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "client/agent/fs/path.h"
#include "client/agent/store/chunk_index.h"
#include "client/agent/store/chunk_reader.h"
#include "client/agent/store/recipe_stream.h"
#include "client/agent/store/tree_codec.h"

namespace kerf::agent {
namespace {

// Reads the chunks of one file as the restorer asks for them.
class StoredContent : public FileContent {
 public:
  StoredContent(ChunkReader& reader, TreeEntry entry, const std::atomic<bool>* cancelled,
                RestoreProgress& progress)
      : reader_(reader),
        recipe_(std::move(entry.recipe)),
        uncounted_bytes_(entry.node.size_bytes),
        cancelled_(cancelled),
        progress_(progress) {}

  ~StoredContent() override {
    ++progress_.done_files;
    // Holes, or what could not be restored.
    progress_.done_bytes += uncounted_bytes_;
  }

  absl::StatusOr<std::span<const std::uint8_t>> Next() override {
    if (cancelled_ != nullptr && *cancelled_) return absl::CancelledError("interrupted");
    if (next_ == recipe_.size()) return std::span<const std::uint8_t>();
    absl::StatusOr<ChunkBytes> chunk = reader_.Read(recipe_[next_++]);
    // The snapshot promises the chunk: without it the store is damaged.
    if (absl::IsNotFound(chunk.status())) {
      return absl::DataLossError(chunk.status().message());
    }
    KERF_RETURN_IF_ERROR(chunk.status());
    current_ = *std::move(chunk);
    const std::uint64_t counted =
        std::min<std::uint64_t>(current_.bytes().size(), uncounted_bytes_);
    uncounted_bytes_ -= counted;
    progress_.done_bytes += counted;
    return current_.bytes();
  }

 private:
  ChunkReader& reader_;
  const std::vector<ChunkRef> recipe_;
  std::size_t next_ = 0;
  ChunkBytes current_;
  std::uint64_t uncounted_bytes_;
  const std::atomic<bool>* const cancelled_;
  RestoreProgress& progress_;
};

// Without '/' at its ends.
std::string_view Trimmed(std::string_view path) {
  while (path.starts_with('/')) path.remove_prefix(1);
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

class RestoreRun {
 public:
  RestoreRun(const Store& store, const store::v1::Snapshot& snapshot,
             const RestoreRunOptions& options, RestoreProgress& progress)
      : snapshot_(snapshot),
        options_(options),
        progress_(progress),
        digest_size_bytes_(DigestSizeBytes(store.digest_algorithm())),
        subtree_(Trimmed(options.subtree)),
        index_(store.packs_directory()),
        reader_(index_, {}) {}

  absl::StatusOr<RestoreSummary> Run();

 private:
  bool IsCancelled() const { return options_.cancelled != nullptr && *options_.cancelled; }
  absl::StatusOr<TreeReader> OpenTree();
  // Of names inside the subtree: the files outside that they are hard links to.
  absl::Status FindOutsideTargets();
  absl::Status AddEntries(Restorer& restorer);
  void Add(TreeEntry entry, Restorer& restorer);
  // The path below the target.
  std::string TargetPath(const std::string& path) const;
  void ResolveHardLink(TreeEntry& entry);

  const store::v1::Snapshot& snapshot_;
  const RestoreRunOptions& options_;
  RestoreProgress& progress_;
  const std::size_t digest_size_bytes_;
  const std::string subtree_;
  bool subtree_is_directory_ = true;
  ChunkIndex index_;
  ChunkReader reader_;

  std::unordered_set<std::string> outside_targets_;
  std::unordered_map<std::string, TreeEntry> outside_entries_;
  // Of a file outside: the path below the target of its first name inside.
  std::unordered_map<std::string, std::string> first_names_inside_;
};

absl::StatusOr<TreeReader> RestoreRun::OpenTree() {
  KERF_ASSIGN_OR_RETURN(std::vector<ChunkRef> recipe,
                        RecipeFromProto(snapshot_.tree(), digest_size_bytes_));
  return TreeReader(ReadRecipe(reader_, std::move(recipe)), digest_size_bytes_);
}

absl::Status RestoreRun::FindOutsideTargets() {
  KERF_ASSIGN_OR_RETURN(TreeReader tree, OpenTree());
  TreeEntry entry;
  bool found = false;
  while (!IsCancelled()) {
    KERF_ASSIGN_OR_RETURN(const bool more, tree.Next(entry));
    if (!more) break;
    const Node& node = entry.node;
    if (!IsAtOrBelow(node.path, subtree_)) {
      if (ComparePaths(node.path, subtree_) > 0) break;
      continue;
    }
    if (node.path == subtree_) {
      found = true;
      subtree_is_directory_ = node.kind == NodeKind::kDirectory;
    }
    if (!node.hard_link_to.empty() && !IsAtOrBelow(node.hard_link_to, subtree_)) {
      outside_targets_.insert(node.hard_link_to);
    }
  }
  if (found || IsCancelled()) return absl::OkStatus();
  return absl::NotFoundError(ToAbsl(Cat("snapshot ", snapshot_.id(), " has no /", subtree_)));
}

std::string RestoreRun::TargetPath(const std::string& path) const {
  if (subtree_.empty()) return path;
  if (!subtree_is_directory_) return std::string(NameOf(path));
  return path.substr(subtree_.size() + 1);
}

void RestoreRun::ResolveHardLink(TreeEntry& entry) {
  Node& node = entry.node;
  const auto outside = outside_entries_.find(node.hard_link_to);
  if (outside == outside_entries_.end()) {
    node.hard_link_to = TargetPath(node.hard_link_to);
    return;
  }
  const auto [first, is_first] =
      first_names_inside_.try_emplace(node.hard_link_to, TargetPath(node.path));
  if (!is_first) {
    node.hard_link_to = first->second;
    return;
  }
  std::string path = std::move(node.path);
  entry = std::move(outside->second);
  entry.node.path = std::move(path);
}

void RestoreRun::Add(TreeEntry entry, Restorer& restorer) {
  if (!entry.node.hard_link_to.empty()) ResolveHardLink(entry);
  entry.node.path = TargetPath(entry.node.path);
  Node node = entry.node;
  std::unique_ptr<FileContent> content;
  if (node.kind == NodeKind::kFile && node.hard_link_to.empty()) {
    content =
        std::make_unique<StoredContent>(reader_, std::move(entry), options_.cancelled, progress_);
  }
  restorer.Add(std::move(node), std::move(content));
}

absl::Status RestoreRun::AddEntries(Restorer& restorer) {
  KERF_ASSIGN_OR_RETURN(TreeReader tree, OpenTree());
  while (!IsCancelled()) {
    TreeEntry entry;
    KERF_ASSIGN_OR_RETURN(const bool more, tree.Next(entry));
    if (!more) return absl::OkStatus();
    if (!IsAtOrBelow(entry.node.path, subtree_)) {
      if (ComparePaths(entry.node.path, subtree_) > 0) return absl::OkStatus();
      if (outside_targets_.contains(entry.node.path)) {
        std::string path = entry.node.path;
        outside_entries_.emplace(std::move(path), std::move(entry));
      }
      continue;
    }
    // The target itself stands for the directory.
    if (subtree_is_directory_ && entry.node.path == subtree_) continue;
    Add(std::move(entry), restorer);
  }
  return absl::OkStatus();
}

absl::StatusOr<RestoreSummary> RestoreRun::Run() {
  if (!subtree_.empty()) KERF_RETURN_IF_ERROR(CheckNodePath(subtree_));
  KERF_RETURN_IF_ERROR(index_.Refresh());
  if (!subtree_.empty()) KERF_RETURN_IF_ERROR(FindOutsideTargets());
  RestoreOptions restore = options_.restore;
  restore.on_error = [this](const std::string& path, const absl::Status& status) {
    // One message for the whole run is enough.
    if (IsCancelled() && absl::IsCancelled(status)) return;
    if (options_.restore.on_error) options_.restore.on_error(path, status);
  };
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Restorer> restorer,
                        MakeRestorer(options_.target, std::move(restore)));
  const absl::Status added = AddEntries(*restorer);
  RestoreSummary summary = restorer->Finish(IsCancelled());
  if (IsCancelled()) return absl::CancelledError("interrupted");
  KERF_RETURN_IF_ERROR(added);
  return summary;
}

}  // namespace

absl::StatusOr<RestoreSummary> RestoreSnapshot(const Store& store,
                                               const store::v1::Snapshot& snapshot,
                                               const RestoreRunOptions& options,
                                               RestoreProgress& progress) {
  return RestoreRun(store, snapshot, options, progress).Run();
}

}  // namespace kerf::agent
