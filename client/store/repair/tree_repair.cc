#include "client/store/repair/tree_repair.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/store/collect/collection_guard.h"
#include "client/store/format/tree_codec.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/packs/pack_writer.h"
#include "client/store/repair/metadata_writer.h"
#include "client/store/repair/surviving_entries.h"
#include "client/store/snapshots/collector_lock.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/quarantine.h"
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/snapshots/roots.h"

namespace kerf::agent {
namespace {

// Of a stream, before it is cut.
constexpr std::size_t kStreamPieceBytes = std::size_t{1} << 20;

void CountEntry(const Node& node, store::v1::Snapshot& snapshot) {
  store::v1::SnapshotStats& stats = *snapshot.mutable_stats();
  stats.set_entry_count(stats.entry_count() + 1);
  if (node.kind == NodeKind::kDirectory) stats.set_directory_count(stats.directory_count() + 1);
  if (node.kind == NodeKind::kFile) {
    stats.set_file_count(stats.file_count() + 1);
    if (node.hard_link_to.empty()) stats.set_total_bytes(stats.total_bytes() + node.size_bytes);
  } else if (!node.hard_link_to.empty()) {
    snapshot.set_has_linked_specials(true);
  }
}

// What it is of and from when: rules and `latest` see it in the place of the old one.
store::v1::Snapshot Successor(const store::v1::Snapshot& old) {
  store::v1::Snapshot snapshot = old;
  snapshot.clear_id();
  snapshot.clear_tree();
  snapshot.clear_identity();
  snapshot.clear_stats();
  snapshot.clear_has_linked_specials();
  return snapshot;
}

class TreeRepair {
 public:
  TreeRepair(const Store& store, const TreeRepairOptions& options, TreeRepairReport& report)
      : store_(store),
        options_(options),
        digest_size_bytes_(DigestSizeBytes(store.digest_algorithm())),
        index_(store.packs_directory(), SeenPacks::kAreDurable),
        reader_(index_, {.old_chunks_only = true}),
        report_(report) {
    index_.EndWhen(options_.is_cancelled);
  }

  absl::Status Run();

 private:
  bool Accepts(std::string_view loss) const {
    const std::vector<std::string>& losses = options_.accepted_losses;
    return std::find(losses.begin(), losses.end(), loss) != losses.end();
  }
  absl::Status Look(const store::v1::Snapshot& snapshot);
  absl::Status Replace(const store::v1::Snapshot& old, SurvivingEntries& entries,
                       RepairedTree& tree);
  absl::Status Write(SurvivingEntries& entries, RepairedTree& tree, store::v1::Snapshot& made);
  absl::Status Encode(SurvivingEntries& entries, const TreeEntry& entry, MetadataWriter& writer,
                      std::vector<std::uint8_t>& bytes) const;
  absl::Status Publish(store::v1::Snapshot& made);
  absl::Status MovePin(const std::string& from, const std::string& to) const;

  const Store& store_;
  const TreeRepairOptions& options_;
  const std::size_t digest_size_bytes_;
  CollectionGuard guard_;
  ChunkIndex index_;
  ChunkReader reader_;
  // Of parity_failures, while packs are written.
  std::mutex mutex_;
  TreeRepairReport& report_;
};

// Behind what `bytes` hold and `writer` has not.
absl::Status TreeRepair::Encode(SurvivingEntries& entries, const TreeEntry& entry,
                                MetadataWriter& writer, std::vector<std::uint8_t>& bytes) const {
  if (!entry.long_recipe.has_value()) {
    EncodeTreeEntry(entry, digest_size_bytes_, bytes);
    return absl::OkStatus();
  }
  // In front stands how long it is; a hostile store may have one of gigabytes.
  std::uint64_t recipe_bytes = 0;
  std::vector<std::uint8_t> one;
  KERF_RETURN_IF_ERROR(entries.VisitRecipe(entry, [&](const ChunkRef& chunk) {
    one.clear();
    EncodeChunkRef(chunk, digest_size_bytes_, one);
    recipe_bytes += one.size();
  }));
  EncodeLongTreeEntry(entry, recipe_bytes, bytes);
  absl::Status status;
  KERF_RETURN_IF_ERROR(entries.VisitRecipe(entry, [&](const ChunkRef& chunk) {
    EncodeChunkRef(chunk, digest_size_bytes_, bytes);
    if (!status.ok() || bytes.size() < kStreamPieceBytes) return;
    status = writer.Append(bytes);
    bytes.clear();
  }));
  return status;
}

absl::Status TreeRepair::Write(SurvivingEntries& entries, RepairedTree& tree,
                               store::v1::Snapshot& made) {
  PackWriterOptions writer_options;
  writer_options.packs_directory = store_.packs_directory();
  writer_options.temporary_directory = store_.temporary_directory();
  writer_options.digest_algorithm = store_.digest_algorithm();
  writer_options.thread_count = 1;
  writer_options.on_sealed = [this](SealedPack pack) { index_.AddPack(std::move(pack)); };
  writer_options.on_parity_failed = [this](const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    report_.parity_failures.push_back(status);
  };
  PackWriter packs(std::move(writer_options));
  const DigestSet condemned = guard_.Condemned(index_);
  KERF_ASSIGN_OR_RETURN(const auto tree_writer,
                        MetadataWriter::Make(store_, reader_, packs, condemned));
  KERF_ASSIGN_OR_RETURN(const auto identity_writer,
                        MetadataWriter::Make(store_, reader_, packs, condemned));
  std::vector<std::uint8_t> tree_bytes;
  std::vector<std::uint8_t> identity_bytes;
  const auto flush = [&](std::size_t size_bytes) -> absl::Status {
    if (tree_bytes.size() >= size_bytes) {
      KERF_RETURN_IF_ERROR(tree_writer->Append(std::exchange(tree_bytes, {})));
    }
    if (identity_bytes.size() < size_bytes) return absl::OkStatus();
    return identity_writer->Append(std::exchange(identity_bytes, {}));
  };
  const absl::Status visited = entries.Visit(
      [&](const TreeEntry& entry, const NodeIdentity& identity) -> absl::Status {
        CountEntry(entry.node, made);
        KERF_RETURN_IF_ERROR(Encode(entries, entry, *tree_writer, tree_bytes));
        EncodeIdentity(identity, identity_bytes);
        return flush(kStreamPieceBytes);
      },
      tree);
  KERF_RETURN_IF_ERROR(visited);
  KERF_RETURN_IF_ERROR(flush(0));
  KERF_RETURN_IF_ERROR(tree_writer->Finish());
  KERF_RETURN_IF_ERROR(identity_writer->Finish());
  KERF_RETURN_IF_ERROR(packs.Flush());
  RecipeToProto(tree_writer->recipe(), digest_size_bytes_, *made.mutable_tree());
  RecipeToProto(identity_writer->recipe(), digest_size_bytes_, *made.mutable_identity());
  store::v1::SnapshotStats& stats = *made.mutable_stats();
  stats.set_new_chunk_count(tree_writer->new_chunk_count() + identity_writer->new_chunk_count());
  stats.set_new_bytes(tree_writer->new_bytes() + identity_writer->new_bytes());
  stats.set_stored_bytes(packs.stored_bytes());
  return absl::OkStatus();
}

absl::Status TreeRepair::Publish(store::v1::Snapshot& made) {
  KERF_RETURN_IF_ERROR(PublishPending(store_, made));
  const auto visit = [&](const ChunkVisitor& visitor) {
    return VisitSnapshot(made, digest_size_bytes_, reader_, visitor, EntryVisitor());
  };
  // It is read once more, whatever collections did, before anybody counts on it.
  absl::Status status = visit([](const ChunkRef&) {});
  if (status.ok()) {
    absl::StatusOr<FinishCheck> check = guard_.Check(store_, index_, visit);
    status = check.status();
    if (status.ok()) {
      // Content that is lost anyway, and may stay so, is no collection's doing.
      std::erase_if(check->lost,
                    [this](const ChunkRef& chunk) { return !index_.Contains(chunk.digest); });
      if (!check->lost.empty()) {
        status = absl::AbortedError("the plan of an interrupted collection names what it needs");
      }
    }
  }
  if (status.ok()) return ConfirmPending(store_, made);
  WithdrawPending(store_, made.id()).IgnoreError();
  return status;
}

absl::Status TreeRepair::MovePin(const std::string& from, const std::string& to) const {
  if (!store_.pins().Has(from)) return absl::OkStatus();
  absl::StatusOr<store::v1::SnapshotPin> pin = store_.pins().Read(from);
  // One that cannot be read is one all the same.
  store::v1::SnapshotPin copy;
  if (pin.ok()) copy = *std::move(pin);
  copy.set_id(to);
  return store_.PinSnapshot(copy);
}

absl::Status TreeRepair::Replace(const store::v1::Snapshot& old, SurvivingEntries& entries,
                                 RepairedTree& tree) {
  store::v1::Snapshot made = Successor(old);
  KERF_RETURN_IF_ERROR(Write(entries, tree, made));
  const store::v1::Salvage& salvage = tree.salvage;
  *made.mutable_salvage() = salvage;
  made.set_store_epoch(guard_.epoch());
  std::uint64_t missing_count =
      salvage.lost_entry_count() + salvage.left_out_count() + salvage.made_up_count();
  // The count of a damaged tree may be wrong as well.
  missing_count = std::max(missing_count, salvage.gap_count());
  made.mutable_stats()->set_error_count(old.stats().error_count() + missing_count);
  KERF_RETURN_IF_ERROR(Publish(made));
  tree.new_id = made.id();
  KERF_RETURN_IF_ERROR(MovePin(old.id(), made.id()));
  KERF_ASSIGN_OR_RETURN(tree.quarantine_path, QuarantineSnapshot(store_.directory(), old.id()));
  const absl::Status pin =
      MoveToQuarantine(store_.directory(), store_.pins().PathOf(old.id())).status();
  return absl::IsNotFound(pin) ? absl::OkStatus() : pin;
}

absl::Status TreeRepair::Look(const store::v1::Snapshot& snapshot) {
  RepairedTree tree;
  tree.id = snapshot.id();
  tree.path = Store::SnapshotPath(store_.snapshots_directory(), snapshot.id());
  const bool is_named = Accepts(snapshot.id());
  absl::StatusOr<std::unique_ptr<SurvivingEntries>> entries = SurvivingEntries::Make(
      snapshot, digest_size_bytes_, index_, reader_, options_, is_named && Accepts(kContentLoss));
  if (!entries.ok()) {
    tree.damage = Annotate(entries.status(), "nothing of it can be read: `kerf forget` removes it");
    report_.trees.push_back(std::move(tree));
    return absl::OkStatus();
  }
  KERF_RETURN_IF_ERROR((*entries)->Examine(tree.damage));
  if (tree.damage.ok()) {
    if (!is_named) return absl::OkStatus();
    return absl::InvalidArgumentError(
        Cat("nothing of the tree of snapshot ", snapshot.id(), " is lost",
            Accepts(kContentLoss) ? ""
                                  : ": with --accept-loss content, too, files go whose "
                                    "content is lost"));
  }
  tree.is_whole = (*entries)->is_whole();
  // What costs no entry needs no word, unless it may be read another time.
  const bool has_rotted = absl::IsDataLoss(tree.damage) || absl::IsNotFound(tree.damage);
  tree.is_accepted = is_named || (tree.is_whole && has_rotted);
  const absl::Status status =
      options_.dry_run || !tree.is_accepted
          ? (*entries)->Visit(
                [](const TreeEntry&, const NodeIdentity&) { return absl::OkStatus(); }, tree)
          : Replace(snapshot, **entries, tree);
  // Its place may have been taken before something failed.
  if (status.ok() || !tree.new_id.empty()) report_.trees.push_back(std::move(tree));
  return Annotate(status, Cat("snapshot ", snapshot.id()));
}

absl::Status TreeRepair::Run() {
  UniqueFd lock;
  if (!options_.dry_run) {
    KERF_ASSIGN_OR_RETURN(lock, LockCollector(store_.directory()));
  }
  KERF_ASSIGN_OR_RETURN(guard_, CollectionGuard::Begin(store_));
  KERF_ASSIGN_OR_RETURN(const SnapshotList list, store_.ListSnapshots());
  KERF_RETURN_IF_ERROR(index_.Refresh());
  for (const store::v1::Snapshot& snapshot : list.snapshots) {
    KERF_RETURN_IF_ERROR(Look(snapshot));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RepairTrees(const Store& store, const TreeRepairOptions& options,
                         TreeRepairReport& report) {
  return TreeRepair(store, options, report).Run();
}

absl::StatusOr<TreeRepairReport> RepairTrees(const Store& store, const TreeRepairOptions& options) {
  TreeRepairReport report;
  KERF_RETURN_IF_ERROR(RepairTrees(store, options, report));
  return report;
}

}  // namespace kerf::agent
