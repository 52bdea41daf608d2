#include "client/store/collect/collection.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/collect/index_batch.h"
#include "client/store/collect/marks.h"
#include "client/store/format/durable_file.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/packs/pack_writer.h"
#include "client/store/snapshots/forgotten.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/roots.h"

namespace kerf::agent {
namespace {

class Collection {
 public:
  Collection(const Store& store, CollectionIndex& server, const CollectionOptions& options)
      : store_(store),
        server_(server),
        options_(options),
        index_(store.packs_directory(), SeenPacks::kAreDurable),
        reader_(index_, ChunkReader::Options()),
        round_(
            store, server,
            {[this](std::uint64_t epoch) { return CommitAll(epoch); }, [this] { return Forget(); }},
            &report_.findings) {}

  absl::StatusOr<CollectionReport> Run();

 private:
  // A planned pack, by its index in marks_.
  struct Target {
    std::size_t pack_index = 0;
    // It had live chunks when all roots had been read.
    bool has_live = false;
    // It goes because it is small.
    bool is_merge = false;
    // A chunk of it could not be moved: it stays.
    bool keep = false;
  };

  absl::Status ExpireForgotten();
  absl::Status MarkRoots();
  void MarkForgotten(const SnapshotList& forgotten);
  absl::Status MarkSnapshot(const store::v1::Snapshot& snapshot, bool checked);
  void ChooseTargets();
  std::vector<PlannedPack> Condemn() const;
  absl::StatusOr<ForgottenChunks> Forget();
  absl::Status Move();
  bool OtherCopyIsSound(const PackChunk& chunk);
  bool IsTarget(const KnownPack& pack) const;
  absl::Status MoveChunks(PackWriter& writer);
  absl::Status CommitMoves(std::uint64_t epoch);
  absl::Status CommitAll(std::uint64_t epoch);
  absl::Status Delete(bool with_live);
  absl::Status RemoveOldFiles();
  absl::Status Step(CollectionStep step) const {
    return options_.on_step ? options_.on_step(step) : absl::OkStatus();
  }

  const Store& store_;
  CollectionIndex& server_;
  const CollectionOptions& options_;
  ChunkIndex index_;
  ChunkReader reader_;
  std::optional<Marks> marks_;
  // Checked snapshots that have been marked; they never change.
  absl::flat_hash_set<std::string> marked_;
  // Forgotten snapshots that are no roots any more.
  absl::flat_hash_set<std::string> expired_;
  std::vector<Target> targets_;
  absl::flat_hash_set<const KnownPack*> target_packs_;
  // Packs that hold what was moved.
  std::vector<SealedPack> moved_;
  CollectionReport report_;
  EpochRound round_;
};

absl::Status Collection::MarkSnapshot(const store::v1::Snapshot& snapshot, bool checked) {
  std::uint64_t missing_count = 0;
  const absl::Status status = VisitSnapshot(
      snapshot, DigestSizeBytes(store_.digest_algorithm()), reader_,
      [&](const ChunkRef& chunk) {
        if (!marks_->Mark(chunk.digest)) ++missing_count;
      },
      EntryVisitor());
  if (checked) report_.missing_chunk_count += missing_count;
  // Its agent has not checked it yet, and will find the same chunk missing.
  if (!checked && absl::IsNotFound(status)) return absl::OkStatus();
  if (status.ok()) return status;
  return absl::FailedPreconditionError(
      Cat("snapshot ", snapshot.id(), " cannot be read, so what it references is unknown (",
          MessageOf(status), "); repair it, or remove it with `kerf forget ", snapshot.id(), "`"));
}

absl::Status Collection::ExpireForgotten() {
  KERF_ASSIGN_OR_RETURN(const std::vector<std::string> expired,
                        ExpiredForgotten(store_, options_.max_forgotten_age_s));
  for (const std::string& id : expired) {
    expired_.insert(id);
    if (!options_.dry_run) KERF_RETURN_IF_ERROR(PurgeForgotten(store_, id));
  }
  return absl::OkStatus();
}

// One that cannot be read could not be brought back either: nobody waits for it.
void Collection::MarkForgotten(const SnapshotList& forgotten) {
  for (const store::v1::Snapshot& snapshot : forgotten.snapshots) {
    if (expired_.contains(snapshot.id())) continue;
    const absl::Status status = MarkSnapshot(snapshot, false);
    if (!status.ok()) report_.findings.push_back(Cat("forgotten ", MessageOf(status)));
  }
}

absl::Status Collection::MarkRoots() {
  KERF_ASSIGN_OR_RETURN(const Roots roots, ListRoots(store_));
  KERF_RETURN_IF_ERROR(CheckRootsAreComplete(store_, roots));
  if (!roots.checked.damaged.empty() || !roots.pending.damaged.empty()) {
    const DamagedSnapshot& damaged = roots.checked.damaged.empty() ? roots.pending.damaged.front()
                                                                   : roots.checked.damaged.front();
    // Of a newer kerf: nobody should remove that.
    if (absl::IsFailedPrecondition(damaged.status)) return damaged.status;
    return absl::FailedPreconditionError(Cat("what a damaged snapshot references is unknown (",
                                             MessageOf(damaged.status), "); remove the file ",
                                             damaged.path, " if it is not needed"));
  }
  // A snapshot that was removed must not come back once its chunks are gone.
  KERF_RETURN_IF_ERROR(SyncDirectory(store_.pending_directory()));
  KERF_RETURN_IF_ERROR(SyncDirectory(store_.snapshots_directory()));
  if (!marks_.has_value()) {
    // After the roots were listed, so that what they reference is in it.
    KERF_RETURN_IF_ERROR(index_.Refresh());
    marks_.emplace(index_);
  }
  // Always again: what could not be read of one before may have been published since.
  for (const store::v1::Snapshot& snapshot : roots.pending.snapshots) {
    KERF_RETURN_IF_ERROR(MarkSnapshot(snapshot, false));
  }
  for (const store::v1::Snapshot& snapshot : roots.checked.snapshots) {
    if (marked_.contains(snapshot.id())) continue;
    KERF_RETURN_IF_ERROR(MarkSnapshot(snapshot, true));
    marked_.insert(snapshot.id());
  }
  MarkForgotten(roots.forgotten);
  report_.snapshot_count = roots.checked.snapshots.size();
  report_.pending_count = roots.pending.snapshots.size();
  return absl::OkStatus();
}

void Collection::ChooseTargets() {
  for (const DamagedPack& damaged : index_.damaged()) {
    report_.findings.push_back(Cat(MessageOf(damaged.status), " (left as it is)"));
  }
  std::vector<std::size_t> small;
  for (std::size_t pack_index = 0; pack_index < marks_->pack_count(); ++pack_index) {
    const KnownPack& pack = marks_->pack(pack_index);
    report_.stored_bytes_before += pack.file_bytes;
    const std::uint64_t live_count = marks_->live_count(pack_index);
    const bool all_live = live_count == pack.footer.chunks.size();
    const double waste_ratio = marks_->DeadBytes(pack_index) / static_cast<double>(pack.file_bytes);
    if (live_count == 0 || (!all_live && waste_ratio > options_.max_waste_ratio)) {
      targets_.push_back({pack_index, live_count > 0});
    } else if (pack.file_bytes < options_.small_pack_bytes &&
               pack.footer.chunks.size() < options_.small_pack_chunks) {
      small.push_back(pack_index);
    }
  }
  if (small.size() >= options_.min_merged_packs) {
    for (const std::size_t pack_index : small) targets_.push_back({pack_index, true, true});
  }
  for (const Target& target : targets_) target_packs_.insert(&marks_->pack(target.pack_index));
  std::sort(targets_.begin(), targets_.end(), [this](const Target& a, const Target& b) {
    return marks_->pack(a.pack_index).id < marks_->pack(b.pack_index).id;
  });
}

std::vector<PlannedPack> Collection::Condemn() const {
  std::vector<PlannedPack> condemned;
  for (const Target& target : targets_) {
    const KnownPack& pack = marks_->pack(target.pack_index);
    PlannedPack& planned = condemned.emplace_back();
    planned.id = pack.id;
    planned.condemned.resize(pack.footer.chunks.size());
    for (std::size_t index = 0; index < planned.condemned.size(); ++index) {
      planned.condemned[index] = !marks_->live(target.pack_index, index);
    }
  }
  return condemned;
}

absl::StatusOr<ForgottenChunks> Collection::Forget() {
  ForgottenChunks all{0, std::numeric_limits<std::uint64_t>::max(), 0};
  IndexBatch batch([this, &all](std::span<const StoredChunk> chunks) -> absl::Status {
    KERF_ASSIGN_OR_RETURN(const ForgottenChunks forgotten, server_.Forget(chunks));
    all.Add(forgotten);
    return absl::OkStatus();
  });
  report_.condemned_chunk_count = 0;
  for (Target& target : targets_) {
    target.has_live = marks_->live_count(target.pack_index) > 0;
    const std::vector<PackChunk>& chunks = marks_->pack(target.pack_index).footer.chunks;
    for (std::uint32_t index = 0; index < chunks.size(); ++index) {
      // Of a redundant copy the index is told the other place instead, before this one goes.
      if (marks_->referenced(target.pack_index, index)) continue;
      ++report_.condemned_chunk_count;
      // Whatever place the index names: a locator that it kept by mistake must not save the entry.
      KERF_RETURN_IF_ERROR(batch.Add({chunks[index].digest, chunks[index].length_bytes, ""}));
    }
  }
  KERF_RETURN_IF_ERROR(batch.Flush());
  return all;
}

// False if the copy that is to stay instead of this redundant one has rotted.
bool Collection::OtherCopyIsSound(const PackChunk& chunk) {
  const std::optional<ChunkPlace> place = index_.Locate(chunk.digest);
  // Of a chunk that is moved, any copy that is sound is taken.
  if (!place.has_value() || IsTarget(*place->pack)) return true;
  return !absl::IsDataLoss(reader_.ReadAt(*place, {chunk.digest, chunk.length_bytes}).status());
}

bool Collection::IsTarget(const KnownPack& pack) const { return target_packs_.contains(&pack); }

absl::Status Collection::MoveChunks(PackWriter& writer) {
  for (Target& target : targets_) {
    const std::vector<PackChunk>& chunks = marks_->pack(target.pack_index).footer.chunks;
    for (std::uint32_t index = 0; index < chunks.size(); ++index) {
      if (!marks_->live(target.pack_index, index) &&
          (!marks_->referenced(target.pack_index, index) || OtherCopyIsSound(chunks[index]))) {
        continue;
      }
      const absl::StatusOr<ChunkBytes> bytes =
          reader_.Read({chunks[index].digest, chunks[index].length_bytes});
      if (absl::IsDataLoss(bytes.status())) {
        // Once for each pack. The rest of it is moved all the same: of a chunk that is damaged here
        // and sound in another pack that goes, this is the only reading.
        if (!target.keep) {
          report_.findings.push_back(Cat(MessageOf(bytes.status()), " (its pack is kept)"));
        }
        target.keep = true;
        continue;
      }
      if (!bytes.ok()) return bytes.status();
      KERF_RETURN_IF_ERROR(writer.Add(chunks[index].digest, bytes->bytes()));
      report_.moved_bytes += chunks[index].length_bytes;
    }
  }
  return writer.Flush();
}

absl::Status Collection::CommitMoves(std::uint64_t epoch) {
  IndexBatch batch(
      [this, epoch](std::span<const StoredChunk> chunks) { return server_.Commit(epoch, chunks); });
  absl::flat_hash_map<Digest, std::string, DigestHash> moved;
  for (const SealedPack& pack : moved_) {
    const std::vector<PackChunk>& chunks = pack.footer.chunks;
    for (std::uint32_t index = 0; index < chunks.size(); ++index) {
      const std::string locator = EncodeLocator(pack.id, index);
      moved.emplace(chunks[index].digest, locator);
      KERF_RETURN_IF_ERROR(batch.Add({chunks[index].digest, chunks[index].length_bytes, locator}));
    }
  }
  // The index may name the redundant copies that go: it is told the ones that stay.
  for (const Target& target : targets_) {
    const std::vector<PackChunk>& chunks = marks_->pack(target.pack_index).footer.chunks;
    for (std::uint32_t index = 0; index < chunks.size(); ++index) {
      const Digest& digest = chunks[index].digest;
      if (marks_->live(target.pack_index, index) || moved.contains(digest) ||
          !marks_->referenced(target.pack_index, index)) {
        continue;
      }
      const std::optional<ChunkPlace> place = index_.Locate(digest);
      if (!place.has_value()) continue;
      moved.emplace(digest, place->locator());
      KERF_RETURN_IF_ERROR(batch.Add({digest, chunks[index].length_bytes, place->locator()}));
    }
  }
  return batch.Flush();
}

absl::Status Collection::Move() {
  std::mutex mutex;
  PackWriterOptions writer_options;
  writer_options.packs_directory = store_.packs_directory();
  writer_options.temporary_directory = store_.temporary_directory();
  writer_options.digest_algorithm = store_.digest_algorithm();
  writer_options.zstd_level = options_.zstd_level;
  writer_options.target_pack_bytes = options_.target_pack_bytes;
  writer_options.thread_count = options_.thread_count;
  writer_options.on_sealed = [this, &mutex](SealedPack pack) {
    const std::lock_guard lock(mutex);
    moved_.push_back(std::move(pack));
  };
  {
    PackWriter writer(std::move(writer_options));
    KERF_RETURN_IF_ERROR(MoveChunks(writer));
  }
  for (const SealedPack& pack : moved_) report_.stored_bytes_after += pack.file_bytes;
  return Step(CollectionStep::kMoved);
}

absl::Status Collection::CommitAll(std::uint64_t epoch) {
  IndexBatch batch(
      [this, epoch](std::span<const StoredChunk> chunks) { return server_.Commit(epoch, chunks); });
  for (const auto& pack : index_.packs()) {
    if (!IsTarget(*pack)) KERF_RETURN_IF_ERROR(batch.AddPack(*pack));
  }
  KERF_RETURN_IF_ERROR(batch.Flush());
  return CommitMoves(epoch);
}

absl::Status Collection::Delete(bool with_live) {
  for (const Target& target : targets_) {
    if (target.has_live != with_live || target.keep) continue;
    const KnownPack& pack = marks_->pack(target.pack_index);
    const std::string path = index_.PackPath(pack.id);
    const absl::Status status = RemoveFile(path);
    if (!status.ok() && !absl::IsNotFound(status)) return status;
    ++report_.deleted_pack_count;
    if (with_live) ++report_.rewritten_pack_count;
    if (target.is_merge) ++report_.merged_pack_count;
    report_.stored_bytes_after -= pack.file_bytes;
  }
  return absl::OkStatus();
}

// What dead agents have left behind. Failures to remove it do not matter.
absl::Status Collection::RemoveOldFiles() {
  const auto remove = [this](const std::string& directory, std::int64_t max_age_s) -> absl::Status {
    KERF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(directory));
    for (const std::string& name : names) {
      const std::string path = Cat(directory, "/", name);
      struct stat info{};
      if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      if (std::time(nullptr) - info.st_mtime <= max_age_s) continue;
      if (RemoveFile(path).ok()) ++report_.removed_temporary_count;
    }
    return absl::OkStatus();
  };
  KERF_RETURN_IF_ERROR(remove(store_.temporary_directory(), options_.max_temporary_age_s));
  return remove(store_.pending_directory(), options_.max_pending_age_s);
}

absl::StatusOr<CollectionReport> Collection::Run() {
  KERF_RETURN_IF_ERROR(round_.Lock());
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kLocked));
  KERF_RETURN_IF_ERROR(round_.ReadEpochs(!options_.dry_run));
  if (!options_.dry_run) KERF_RETURN_IF_ERROR(RemoveOldFiles());
  KERF_RETURN_IF_ERROR(ExpireForgotten());
  KERF_RETURN_IF_ERROR(MarkRoots());
  ChooseTargets();
  report_.stored_bytes_after = report_.stored_bytes_before;
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kMarked));

  if (!options_.dry_run) {
    KERF_RETURN_IF_ERROR(round_.PublishPlan(Condemn()));
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kPlanned));
    KERF_RETURN_IF_ERROR(round_.RaiseStoreToFence());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kEpochRaised));
    KERF_RETURN_IF_ERROR(round_.Fence());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kFenced));
    KERF_RETURN_IF_ERROR(MarkRoots());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kMarkedAgain));
    KERF_RETURN_IF_ERROR(Forget().status());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kForgotten));
    KERF_RETURN_IF_ERROR(Move());
    KERF_RETURN_IF_ERROR(CommitMoves(round_.epoch()));
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kMovesCommitted));
    KERF_RETURN_IF_ERROR(round_.RaiseStoreAgain());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kEpochRaisedAgain));
    KERF_RETURN_IF_ERROR(round_.Advance());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kAdvanced));
    KERF_RETURN_IF_ERROR(round_.PublishThatChunksGo());
    KERF_RETURN_IF_ERROR(Delete(false));
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kDeadDeleted));
    KERF_RETURN_IF_ERROR(Delete(true));
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kDeleted));
    KERF_RETURN_IF_ERROR(round_.RemovePlan());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kPlanRemoved));
  }
  if (options_.dry_run) {
    for (const Target& target : targets_) {
      const KnownPack& pack = marks_->pack(target.pack_index);
      ++report_.deleted_pack_count;
      if (target.has_live) ++report_.rewritten_pack_count;
      if (target.is_merge) ++report_.merged_pack_count;
      report_.condemned_chunk_count +=
          pack.footer.chunks.size() - marks_->live_count(target.pack_index);
      report_.stored_bytes_after -=
          target.has_live ? static_cast<std::uint64_t>(marks_->DeadBytes(target.pack_index))
                          : pack.file_bytes;
    }
  }
  report_.epoch = round_.epoch();
  for (std::size_t pack_index = 0; pack_index < marks_->pack_count(); ++pack_index) {
    report_.chunk_count += marks_->pack(pack_index).footer.chunks.size();
    report_.live_chunk_count += marks_->live_count(pack_index);
  }
  return std::move(report_);
}

}  // namespace

absl::StatusOr<CollectionReport> CollectGarbage(const Store& store, CollectionIndex& index,
                                                const CollectionOptions& options) {
  return Collection(store, index, options).Run();
}

}  // namespace kerf::agent
