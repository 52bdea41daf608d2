#include "client/agent/restore/restore_run.h"

#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/agent/fs/path.h"
#include "client/agent/store/chunk_reader.h"
#include "client/agent/store/recipe_stream.h"

namespace kerf::agent {
namespace {

// Entries between two calls of on_progress.
constexpr std::uint64_t kProgressInterval = 64;

class RecipeContent final : public FileContent {
 public:
  RecipeContent(ChunkReader& reader, std::vector<ChunkRef> recipe,
                const std::atomic<bool>* cancelled)
      : reader_(reader), recipe_(std::move(recipe)), cancelled_(cancelled) {}

  absl::StatusOr<std::span<const std::uint8_t>> Next() override {
    if (cancelled_ != nullptr && cancelled_->load()) {
      return absl::CancelledError("the restore was interrupted");
    }
    if (next_ == recipe_.size()) return std::span<const std::uint8_t>();
    absl::StatusOr<ChunkBytes> chunk = reader_.Read(recipe_[next_++]);
    // The snapshot promises the chunk: without it the store is damaged.
    if (absl::IsNotFound(chunk.status())) return absl::DataLossError(chunk.status().message());
    KERF_RETURN_IF_ERROR(chunk.status());
    current_ = *std::move(chunk);
    return current_.bytes();
  }

 private:
  ChunkReader& reader_;
  const std::vector<ChunkRef> recipe_;
  const std::atomic<bool>* const cancelled_;
  std::size_t next_ = 0;
  ChunkBytes current_;
};

class RestoreRun {
 public:
  RestoreRun(const RestoreRunOptions& options, ChunkIndex& index, std::size_t digest_size_bytes)
      : options_(options),
        digest_size_bytes_(digest_size_bytes),
        reader_(index, ReaderOptions(options)) {}

  absl::StatusOr<RestoreSummary> Run(const store::v1::Snapshot& snapshot) {
    // Hard links may point out of the subtree: then their content must be known.
    if (!options_.subtree.empty()) KERF_RETURN_IF_ERROR(FindOutsideTargets(snapshot));
    KERF_ASSIGN_OR_RETURN(restorer_, MakeRestorer(options_.target, options_.restore));
    const absl::Status status = AddAll(snapshot);
    const bool cancelled = Cancelled();
    const RestoreSummary summary = restorer_->Finish(cancelled);
    if (cancelled) return absl::CancelledError("the restore was interrupted");
    KERF_RETURN_IF_ERROR(status);
    return summary;
  }

 private:
  static ChunkReader::Options ReaderOptions(const RestoreRunOptions& options) {
    ChunkReader::Options reader;
    reader.verify = options.verify_chunks;
    return reader;
  }

  bool Cancelled() const { return options_.cancelled != nullptr && options_.cancelled->load(); }

  absl::StatusOr<TreeReader> OpenTree(const store::v1::Snapshot& snapshot) {
    KERF_ASSIGN_OR_RETURN(std::vector<ChunkRef> recipe,
                          RecipeFromProto(snapshot.tree(), digest_size_bytes_));
    return TreeReader(ReadRecipe(reader_, std::move(recipe)), digest_size_bytes_);
  }

  absl::Status FindOutsideTargets(const store::v1::Snapshot& snapshot) {
    KERF_ASSIGN_OR_RETURN(TreeReader tree, OpenTree(snapshot));
    TreeEntry entry;
    bool found = false;
    while (true) {
      KERF_ASSIGN_OR_RETURN(const bool more, tree.Next(entry));
      if (!more) break;
      if (!IsAtOrBelow(entry.node.path, options_.subtree)) continue;
      found = true;
      const std::string& target = entry.node.hard_link_to;
      if (!target.empty() && !IsAtOrBelow(target, options_.subtree)) outside_[target] = {};
    }
    if (!found) {
      return absl::NotFoundError(Cat("snapshot ", snapshot.id(), " holds no /", options_.subtree));
    }
    return absl::OkStatus();
  }

  absl::Status AddAll(const store::v1::Snapshot& snapshot) {
    KERF_ASSIGN_OR_RETURN(TreeReader tree, OpenTree(snapshot));
    TreeEntry entry;
    for (std::uint64_t count = 1; !Cancelled(); ++count) {
      KERF_ASSIGN_OR_RETURN(const bool more, tree.Next(entry));
      if (!more) break;
      Add(entry);
      if (options_.on_progress && count % kProgressInterval == 0) {
        options_.on_progress(restorer_->progress());
      }
    }
    return absl::OkStatus();
  }

  void Add(TreeEntry& entry) {
    if (!options_.subtree.empty() && !MoveIntoSubtree(entry)) return;
    std::unique_ptr<FileContent> content;
    if (entry.node.kind == NodeKind::kFile && entry.node.hard_link_to.empty()) {
      content =
          std::make_unique<RecipeContent>(reader_, std::move(entry.recipe), options_.cancelled);
    }
    restorer_->Add(std::move(entry.node), std::move(content));
  }

  // Renames the entry as seen from the subtree; false if it is not in it.
  bool MoveIntoSubtree(TreeEntry& entry) {
    Node& node = entry.node;
    if (const auto outside = outside_.find(node.path); outside != outside_.end()) {
      outside->second.entry = entry;
    }
    if (!IsAtOrBelow(node.path, options_.subtree)) return false;
    if (node.path == options_.subtree) {
      if (node.kind == NodeKind::kDirectory) return false;
      node.path = std::string(NameOf(node.path));
    } else {
      node.path = node.path.substr(options_.subtree.size() + 1);
    }
    if (node.hard_link_to.empty()) return true;
    if (const auto outside = outside_.find(node.hard_link_to); outside != outside_.end()) {
      // The first of the names in the subtree takes the content, the others link to it.
      const std::string path = node.path;
      if (outside->second.restored_as.empty()) {
        entry = outside->second.entry;
        entry.node.path = path;
        outside->second.restored_as = path;
      } else {
        node.hard_link_to = outside->second.restored_as;
      }
      return true;
    }
    node.hard_link_to = node.hard_link_to.substr(options_.subtree.size() + 1);
    return true;
  }

  struct OutsideTarget {
    TreeEntry entry;
    std::string restored_as;
  };

  const RestoreRunOptions& options_;
  const std::size_t digest_size_bytes_;
  ChunkReader reader_;
  absl::flat_hash_map<std::string, OutsideTarget> outside_;
  std::unique_ptr<Restorer> restorer_;
};

}  // namespace

absl::StatusOr<RestoreSummary> RunRestore(const Store& store, const store::v1::Snapshot& snapshot,
                                          const RestoreRunOptions& options) {
  ChunkIndex index(store.packs_directory());
  KERF_RETURN_IF_ERROR(index.Refresh());
  return RestoreRun(options, index, DigestSizeBytes(store.digest_algorithm())).Run(snapshot);
}

}  // namespace kerf::agent
