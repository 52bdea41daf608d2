#include "client/agent/restore/restore_run.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "client/agent/restore/kept_paths.h"
#include "client/agent/restore/read_ahead.h"
#include "client/agent/restore/restrictions.h"
#include "client/fs/os_error.h"
#include "client/fs/path.h"
#include "client/fs/pruner.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/snapshots/tree_salvage.h"

namespace kerf::agent {
namespace {

// Entries between two calls of on_progress.
constexpr std::uint64_t kProgressInterval = 64;

// A file is read and written in runs of about this size; a file of one run is read by who
// writes it.
constexpr std::size_t kRunBytes = std::size_t{1} << 20;
constexpr std::size_t kRunChunks = 16384;
// Runs of one file that are read ahead: what it holds in memory.
constexpr std::size_t kRunsAhead = 6;
constexpr unsigned kMaxReadThreads = 8;
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// The chunks of a recipe one after the other, from memory or from the tree stream.
class Recipe {
 public:
  explicit Recipe(std::vector<ChunkRef> chunks) : chunks_(std::move(chunks)) {}
  explicit Recipe(RecipeReader stream) : stream_(std::move(stream)) {}

  bool at_end() const {
    return stream_.has_value() ? stream_->left_count() == 0 : next_ == chunks_.size();
  }
  // Not at the end.
  absl::StatusOr<ChunkRef> Next() {
    if (!stream_.has_value()) return chunks_[next_++];
    absl::StatusOr<ChunkRef> chunk = stream_->Next();
    // It was there a moment ago.
    if (absl::IsNotFound(chunk.status())) return absl::DataLossError(chunk.status().message());
    return chunk;
  }
  std::size_t held_bytes() const { return chunks_.size() * sizeof(ChunkRef); }

 private:
  std::vector<ChunkRef> chunks_;
  std::size_t next_ = 0;
  std::optional<RecipeReader> stream_;
};

class RecipeContent final : public FileContent {
 public:
  RecipeContent(ChunkReader& reader, ReadAhead& read_ahead, Recipe recipe,
                const std::function<bool()>& cancelled)
      : reader_(reader),
        read_ahead_(read_ahead),
        recipe_(std::move(recipe)),
        cancelled_(cancelled) {}

  absl::StatusOr<std::span<const std::uint8_t>> Next() override {
    if (cancelled_ && cancelled_()) return absl::CancelledError("the restore was interrupted");
    if (ahead_.empty()) {
      KERF_ASSIGN_OR_RETURN(ChunkRun run, NextRun());
      if (recipe_.at_end()) {
        KERF_ASSIGN_OR_RETURN(current_, ReadRun(reader_, std::move(run)));
        return std::span<const std::uint8_t>(current_);
      }
      ahead_.push_back(read_ahead_.Read(std::move(run)));
    }
    while (ahead_.size() < kRunsAhead && !recipe_.at_end()) {
      KERF_ASSIGN_OR_RETURN(ChunkRun run, NextRun());
      ahead_.push_back(read_ahead_.Read(std::move(run)));
    }
    absl::StatusOr<std::vector<std::uint8_t>> bytes = ahead_.front().get();
    ahead_.pop_front();
    KERF_RETURN_IF_ERROR(bytes.status());
    current_ = *std::move(bytes);
    return std::span<const std::uint8_t>(current_);
  }

  std::size_t held_bytes() const override { return recipe_.held_bytes(); }

 private:
  absl::StatusOr<ChunkRun> NextRun() {
    ChunkRun run{{}, std::exchange(current_, {})};
    std::size_t size_bytes = 0;
    while (!recipe_.at_end() && size_bytes < kRunBytes && run.chunks.size() < kRunChunks) {
      KERF_ASSIGN_OR_RETURN(const ChunkRef chunk, recipe_.Next());
      size_bytes += chunk.length_bytes;
      run.chunks.push_back(chunk);
    }
    return run;
  }

  ChunkReader& reader_;
  ReadAhead& read_ahead_;
  Recipe recipe_;
  const std::function<bool()>& cancelled_;
  std::deque<ReadAhead::Result> ahead_;
  std::vector<std::uint8_t> current_;
};

class RestoreRun {
 public:
  RestoreRun(const Store& store, const RestoreRunOptions& options, ChunkIndex& index)
      : store_(store),
        options_(options),
        digest_size_bytes_(DigestSizeBytes(store.digest_algorithm())),
        reader_(index, ReaderOptions(options)),
        index_(index),
        left_bytes_(options.restrictions.max_bytes.value_or(kNoLimit)),
        read_ahead_(reader_, std::clamp(std::thread::hardware_concurrency(), 1u, kMaxReadThreads)) {
  }

  absl::StatusOr<RestoreResult> Run(const store::v1::Snapshot& snapshot) {
    KERF_ASSIGN_OR_RETURN(std::vector<ChunkRef> tree,
                          RecipeFromProto(snapshot.tree(), digest_size_bytes_));
    tree_ = std::make_shared<const std::vector<ChunkRef>>(std::move(tree));
    if (options_.delete_others) KERF_RETURN_IF_ERROR(CheckDelete(snapshot));
    // Hard links may point out of the subtree: then their content must be known.
    if (!options_.subtree.empty()) KERF_RETURN_IF_ERROR(FindOutsideTargets(snapshot));
    if (options_.restrictions.max_bytes.has_value()) KERF_RETURN_IF_ERROR(CheckSize());
    if (options_.dry_run) return DryRun();
    RestoreOptions restore = options_.restore;
    bool may_delete = false;
    absl::Status deleted;
    absl::Status added;
    restore.before_directories = [&](int target_fd) {
      if (!added.ok()) return;
      may_delete = true;
      if (options_.delete_others) deleted = DeleteOthers(UniqueFd(dup(target_fd)));
    };
    KERF_ASSIGN_OR_RETURN(restorer_, MakeRestorer(options_.target, std::move(restore)));
    added = AddAll(snapshot.stats().entry_count());
    const bool cancelled = Cancelled();
    result_.restored = restorer_->Finish(cancelled);
    if (cancelled) return absl::CancelledError("the restore was interrupted");
    KERF_RETURN_IF_ERROR(added);
    KERF_RETURN_IF_ERROR(deleted);
    result_.kept_others = options_.delete_others && !may_delete;
    result_.unreadable = reader_.stepped_over();
    for (const DamagedPack& pack : index_.damaged()) {
      result_.unreadable.push_back(Annotate(pack.status, pack.path));
    }
    for (const auto& pack : index_.packs()) {
      if (!pack->needs_parity) continue;
      result_.unreadable.push_back(
          absl::DataLossError(Cat(index_.PackPath(pack->id), ": ", pack->flaw)));
    }
    for (const UnlistedFolder& folder : index_.unlisted()) {
      result_.unreadable.push_back(folder.status);
    }
    return std::move(result_);
  }

 private:
  // Before anything is touched.
  absl::Status CheckDelete(const store::v1::Snapshot& snapshot) {
    if (snapshot.stats().error_count() > 0) {
      return absl::FailedPreconditionError(
          Cat("snapshot ", snapshot.id(), " lacks ", snapshot.stats().error_count(),
              " entries that could not be read when it was made: --delete would remove them; "
              "restore without it"));
    }
    struct stat root{};
    struct stat target{};
    if (stat("/", &root) == 0 && stat(options_.target.c_str(), &target) == 0 &&
        root.st_dev == target.st_dev && root.st_ino == target.st_ino) {
      return absl::FailedPreconditionError(
          "--delete never cleans up the root of the running system: restore a part of the "
          "snapshot into the directory that it belongs to");
    }
    KERF_RETURN_IF_ERROR(kept_.CheckTarget(store_.directory(), options_.target));
    return kept_.Learn(snapshot, options_.delete_excluded);
  }

  absl::StatusOr<RestoreResult> DryRun() {
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    UniqueFd target(open(options_.target.c_str(), kFlags));
    // Where nothing is, nothing would be removed.
    if (!target.valid() && errno == ENOENT) return std::move(result_);
    if (!target.valid()) return OsError(errno, "cannot open", options_.target);
    KERF_RETURN_IF_ERROR(DeleteOthers(std::move(target)));
    return std::move(result_);
  }

  // As the snapshot names a directory of the target.
  std::string NameInSnapshot(std::string_view path) const {
    if (options_.subtree.empty()) return std::string(path);
    return path.empty() ? options_.subtree : Cat(options_.subtree, "/", path);
  }

  void ReportUnremoved(const std::string& path, const absl::Status& status) {
    ++result_.unremoved_count;
    if (options_.restore.on_error) options_.restore.on_error(path, status);
  }

  absl::Status DeleteOthers(UniqueFd target) {
    PruneOptions prune;
    prune.dry_run = options_.dry_run;
    prune.may_remove_in = [this](std::string_view directory) {
      return kept_.MayRemoveIn(NameInSnapshot(directory));
    };
    prune.is_spared = [this](std::string_view path, bool is_directory) {
      return kept_.IsLeftOut(NameInSnapshot(path), is_directory);
    };
    prune.spared_directory = kept_.store();
    prune.on_removed = options_.on_removed ? options_.on_removed : [](const std::string&) {};
    prune.on_error = [this](const std::string& path, const absl::Status& status) {
      ReportUnremoved(path, status);
    };
    Pruner pruner(std::move(target), std::move(prune));
    absl::Status damage;
    SalvagingTreeReader tree = OpenTree([&](const TreeGap& gap) { damage = gap.cause; });
    SalvagedEntry next;
    while (!Cancelled()) {
      KERF_ASSIGN_OR_RETURN(const bool more, tree.Next(next));
      // What is lost of the snapshot is not to be removed.
      if (!damage.ok()) return damage;
      if (!more) {
        pruner.Finish();
        break;
      }
      if (RenameIntoSubtree(next.entry.node)) pruner.Keep(next.entry.node);
    }
    result_.removed_count = pruner.removed_count();
    result_.spared_count = pruner.spared_count();
    return absl::OkStatus();
  }

  static ChunkReader::Options ReaderOptions(const RestoreRunOptions& options) {
    ChunkReader::Options reader;
    reader.verify = options.verify_chunks;
    reader.old_chunks_only = true;
    return reader;
  }

  bool Cancelled() const { return options_.cancelled && options_.cancelled(); }

  SalvagingTreeReader OpenTree(std::function<void(const TreeGap&)> on_gap) {
    return {reader_, tree_, digest_size_bytes_, options_.max_kept_chunks, std::move(on_gap)};
  }

  Recipe RecipeOf(TreeEntry& entry) {
    if (!entry.long_recipe.has_value()) return Recipe(std::move(entry.recipe));
    const RecipePlace& place = *entry.long_recipe;
    return Recipe(
        RecipeReader(ReadRecipe(reader_, tree_, place.piece_index), place, digest_size_bytes_));
  }

  absl::Status FindOutsideTargets(const store::v1::Snapshot& snapshot) {
    bool has_gaps = false;
    SalvagingTreeReader tree = OpenTree([&](const TreeGap&) { has_gaps = true; });
    SalvagedEntry next;
    bool found = false;
    while (true) {
      KERF_ASSIGN_OR_RETURN(const bool more, tree.Next(next));
      if (!more) break;
      const Node& node = next.entry.node;
      if (!IsAtOrBelow(node.path, options_.subtree)) continue;
      found = true;
      if (options_.delete_others && node.path == options_.subtree &&
          node.kind != NodeKind::kDirectory) {
        return absl::FailedPreconditionError(Cat(
            "/", node.path, " is no directory: what lies beside it is not --delete's to remove"));
      }
      const std::string& target = node.hard_link_to;
      if (!target.empty() && !IsAtOrBelow(target, options_.subtree)) outside_[target] = {};
    }
    if (!found && has_gaps) {
      return absl::DataLossError(Cat("snapshot ", snapshot.id(),
                                     " is damaged, and what is left of ", "it holds no /",
                                     options_.subtree));
    }
    if (!found) {
      return absl::NotFoundError(Cat("snapshot ", snapshot.id(), " holds no /", options_.subtree,
                                     ": paths begin at the root, as `kerf ls ", snapshot.id(),
                                     "` shows them"));
    }
    return absl::OkStatus();
  }

  absl::Status TooLarge(const Node& node, std::string_view done) const {
    return absl::OutOfRangeError(ToAbsl(Cat("what is to be restored takes more than --max-bytes (",
                                            FormatByteSize(*options_.restrictions.max_bytes),
                                            "), at /", node.path, ": ", done)));
  }

  // Before anything is touched. What is damaged now is not counted, but may be read later.
  absl::Status CheckSize() {
    SalvagingTreeReader tree = OpenTree({});
    SalvagedEntry next;
    std::uint64_t left_bytes = *options_.restrictions.max_bytes;
    while (!Cancelled()) {
      KERF_ASSIGN_OR_RETURN(const bool more, tree.Next(next));
      if (!more) break;
      Node& node = next.entry.node;
      // The content of a file outside comes with the first of its names inside.
      if (!outside_.contains(node.path) && !IsAtOrBelow(node.path, options_.subtree)) continue;
      if (options_.restrictions.no_set_id) RemoveSetId(node);
      if (TakeBytes(WrittenBytes(node), left_bytes)) continue;
      return TooLarge(node, "nothing was restored");
    }
    return absl::OkStatus();
  }

  absl::Status AddAll(std::uint64_t promised_count) {
    SalvagingTreeReader tree = OpenTree([this](const TreeGap& gap) { ReportGap(gap); });
    SalvagedEntry next;
    std::uint64_t found_count = 0;
    for (std::uint64_t count = 1; !Cancelled(); ++count) {
      KERF_ASSIGN_OR_RETURN(const bool more, tree.Next(next));
      if (!more) {
        if (result_.gap_count > 0 && promised_count > found_count) {
          result_.lost_entry_count = promised_count - found_count;
        }
        break;
      }
      if (!next.is_made_up) ++found_count;
      KERF_RETURN_IF_ERROR(Add(next));
      if (options_.on_progress && count % kProgressInterval == 0) {
        options_.on_progress(restorer_->progress());
      }
    }
    return absl::OkStatus();
  }

  void ReportGap(const TreeGap& gap) {
    if (!MayTouch(gap, options_.subtree)) return;
    ++result_.gap_count;
    restorer_->Report(gap.behind, DescribeGap(gap));
  }

  absl::Status Add(SalvagedEntry& next) {
    TreeEntry& entry = next.entry;
    if (!options_.subtree.empty() && !MoveIntoSubtree(entry)) return absl::OkStatus();
    if (!Restrict(entry.node)) return absl::OkStatus();
    if (!TakeBytes(WrittenBytes(entry.node), left_bytes_)) {
      return TooLarge(entry.node,
                      "its list of files is not what it was before; what is restored stays");
    }
    if (next.is_made_up) {
      ++result_.made_up_count;
      entry.node.uid = geteuid();
      entry.node.gid = getegid();
      restorer_->Report(entry.node.path,
                        absl::DataLossError("nothing is left of this directory but its name: only "
                                            "its owner, who restores it, may enter"));
    }
    if (next.is_doubtful && !options_.trust_doubtful && !Withhold(entry.node)) {
      return absl::OkStatus();
    }
    std::unique_ptr<FileContent> content;
    if (entry.node.kind == NodeKind::kFile && entry.node.hard_link_to.empty()) {
      content = std::make_unique<RecipeContent>(reader_, read_ahead_, RecipeOf(entry),
                                                options_.cancelled);
    }
    restorer_->Add(std::move(entry.node), std::move(content));
    return absl::OkStatus();
  }

  // False if it is left out.
  bool Restrict(Node& node) {
    if (options_.restrictions.no_devices && IsDevice(node)) {
      ++result_.left_out_device_count;
      return false;
    }
    if (options_.restrictions.no_set_id && RemoveSetId(node)) ++result_.without_set_id_count;
    return true;
  }

  // False if nothing of it is left.
  bool Withhold(Node& node) {
    const Withheld withheld = WithholdRights(node);
    if (withheld == Withheld::kNothing) return true;
    ++result_.withheld_count;
    restorer_->Report(node.path, absl::DataLossError(DescribeWithheld(withheld)));
    return withheld == Withheld::kRights;
  }

  bool RenameIntoSubtree(Node& node) const {
    const std::string& subtree = options_.subtree;
    if (subtree.empty()) return true;
    if (!IsAtOrBelow(node.path, subtree)) return false;
    if (node.path == subtree && node.kind == NodeKind::kDirectory) return false;
    node.path = node.path == subtree ? std::string(NameOf(node.path))
                                     : node.path.substr(subtree.size() + 1);
    return true;
  }

  // Renames the entry as seen from the subtree; false if it is not in it.
  bool MoveIntoSubtree(TreeEntry& entry) {
    Node& node = entry.node;
    if (const auto outside = outside_.find(node.path); outside != outside_.end()) {
      outside->second.entry = entry;
    }
    if (!RenameIntoSubtree(node)) return false;
    if (node.hard_link_to.empty()) return true;
    if (const auto outside = outside_.find(node.hard_link_to); outside != outside_.end()) {
      // The first of the names in the subtree takes the content, the others link to it.
      const std::string path = node.path;
      if (outside->second.entry.node.path.empty()) {
        restorer_->Report(path,
                          absl::DataLossError(Cat("it is a hard link to /", outside->first,
                                                  ", of which the snapshot has lost the entry")));
        return false;
      }
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

  const Store& store_;
  const RestoreRunOptions& options_;
  const std::size_t digest_size_bytes_;
  ChunkReader reader_;
  ChunkIndex& index_;
  // Of restrictions.max_bytes.
  std::uint64_t left_bytes_;
  ReadAhead read_ahead_;
  SharedRecipe tree_;
  // With --delete.
  KeptPaths kept_;
  RestoreResult result_;
  absl::flat_hash_map<std::string, OutsideTarget> outside_;
  std::unique_ptr<Restorer> restorer_;
};

}  // namespace

absl::StatusOr<RestoreResult> RunRestore(const Store& store, const store::v1::Snapshot& snapshot,
                                         const RestoreRunOptions& options) {
  ChunkIndex index(store.packs_directory(), SeenPacks::kAsFarAsListed);
  index.EndWhen(options.cancelled);
  KERF_RETURN_IF_ERROR(index.Refresh());
  return RestoreRun(store, options, index).Run(snapshot);
}

}  // namespace kerf::agent
