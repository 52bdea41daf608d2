#include "client/store/collect/collection.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/collect/index_batch.h"
#include "client/store/collect/marks.h"
#include "client/store/collect/mover.h"
#include "client/store/collect/targets.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/pack_files.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/packs/pack_check.h"
#include "client/store/packs/pack_writer.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/snapshots/forgotten.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/quarantine.h"
#include "client/store/snapshots/roots.h"

namespace kerf::agent {
namespace {

// A full disk: each pass makes room for the next one.
constexpr int kMaxPasses = 32;
// How often unchecked snapshots may go while they are looked at.
constexpr int kMaxListings = 16;

// Nothing may be deleted then. What people have to mend is damage; else it may pass.
absl::Status CannotRead(std::string_view snapshot, const absl::Status& why, std::string_view mend) {
  return absl::Status(
      mend.empty() ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kDataLoss,
      Cat(snapshot, " cannot be read, so what it references is unknown (", MessageOf(why), "); ",
          mend.empty() ? "run `kerf gc` again once the store can be read" : mend));
}

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
            &report_.findings) {
    index_.EndWhen(options_.is_cancelled);
  }

  absl::Status Run();
  // What it has done, also where it broke off.
  CollectionReport TakeReport();

  bool has_lock() const { return round_.has_lock(); }
  // There was no room to rewrite all that should be.
  bool is_short() const { return is_short_; }

 private:
  absl::Status ExpireForgotten();
  absl::Status MarkRoots();
  absl::Status ListAndMark();
  absl::Status MarkChecked(const store::v1::Snapshot& snapshot);
  absl::Status MarkPending(const store::v1::Snapshot& snapshot);
  absl::Status VisitChunks(const store::v1::Snapshot& snapshot, std::uint64_t& missing_count);
  absl::Status MarkForgotten(const SnapshotList& forgotten);
  absl::Status SetAside(const std::string& path, const absl::Status& why);
  absl::Status RefuseUnlessDamaged(const std::string& path, const absl::Status& why) const;
  bool HasRotted(const absl::Status& unreadable) const;
  void Choose();
  std::optional<std::uint64_t> AvailableBytes() const;
  std::vector<PlannedPack> Condemn() const;
  absl::StatusOr<ForgottenChunks> Forget();
  absl::Status Move();
  absl::Status Change();
  void CountWhatWouldBeDone();
  absl::Status CommitMoves(std::uint64_t epoch);
  absl::Status CommitAll(std::uint64_t epoch);
  absl::Status Delete(bool with_live);
  absl::Status RemoveOldFiles();
  absl::Status RemoveStrayParity();
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
  // From when the targets are chosen.
  std::optional<Mover> mover_;
  CollectionReport report_;
  bool is_short_ = false;
  EpochRound round_;
};

// Then it stays as it is. What no pack holds may lie in one that cannot be read today.
bool Collection::HasRotted(const absl::Status& unreadable) const {
  if (absl::IsDataLoss(unreadable)) return true;
  const std::vector<DamagedPack> damaged = index_.damaged();
  return absl::IsNotFound(unreadable) &&
         std::all_of(damaged.begin(), damaged.end(),
                     [](const DamagedPack& pack) { return absl::IsDataLoss(pack.status); });
}

absl::Status Collection::VisitChunks(const store::v1::Snapshot& snapshot,
                                     std::uint64_t& missing_count) {
  return VisitSnapshot(
      snapshot, DigestSizeBytes(store_.digest_algorithm()), reader_,
      [&](const ChunkRef& chunk) {
        if (!marks_->Mark(chunk.digest)) ++missing_count;
      },
      EntryVisitor());
}

absl::Status Collection::ExpireForgotten() {
  std::vector<std::string> expired;
  // To tell the time a file is made.
  KERF_RETURN_IF_ERROR(store_.reserve().Spend([&]() -> absl::Status {
    KERF_ASSIGN_OR_RETURN(expired, ExpiredForgotten(store_, options_.max_forgotten_age_s));
    return absl::OkStatus();
  }));
  for (const std::string& id : expired) {
    expired_.insert(id);
    if (!options_.dry_run) KERF_RETURN_IF_ERROR(PurgeForgotten(store_, id));
  }
  return absl::OkStatus();
}

// One that has rotted could not be brought back either: nobody waits for it. One that cannot be
// read today could be tomorrow.
absl::Status Collection::MarkForgotten(const SnapshotList& forgotten) {
  for (const DamagedSnapshot& damaged : forgotten.damaged) {
    if (absl::IsDataLoss(damaged.status)) {
      report_.damage.push_back(Cat("a forgotten snapshot is damaged: ", MessageOf(damaged.status)));
    } else {
      return CannotRead(Cat("forgotten snapshot ", damaged.path), damaged.status, "");
    }
  }
  for (const store::v1::Snapshot& snapshot : forgotten.snapshots) {
    if (expired_.contains(snapshot.id())) continue;
    std::uint64_t missing_count = 0;
    const absl::Status status = VisitChunks(snapshot, missing_count);
    if (status.ok()) continue;
    const std::string name = Cat("forgotten snapshot ", snapshot.id());
    if (!HasRotted(status)) return CannotRead(name, status, "");
    report_.damage.push_back(
        Cat(name, " can be brought back in part at most: ", MessageOf(status)));
  }
  return absl::OkStatus();
}

absl::Status Collection::MarkChecked(const store::v1::Snapshot& snapshot) {
  if (marked_.contains(snapshot.id())) return absl::OkStatus();
  const absl::Status status = VisitChunks(snapshot, report_.missing_chunk_count);
  if (status.ok()) {
    marked_.insert(snapshot.id());
    return absl::OkStatus();
  }
  return CannotRead(
      Cat("snapshot ", snapshot.id()), status,
      HasRotted(status)
          ? Cat("bring back what is damaged, let a snapshot of what is left take its "
                "place with `kerf repair --trees --apply --accept-loss ",
                snapshot.id(), "`, or remove it with `kerf forget ", snapshot.id(), "`")
          : "");
}

// Of one that cannot be read nobody knows what it references, and its agent may have checked it
// already and be about to make it a snapshot. Once it has left pending/, nobody can.
absl::Status Collection::MarkPending(const store::v1::Snapshot& snapshot) {
  std::uint64_t unused_count = 0;
  const absl::Status status = VisitChunks(snapshot, unused_count);
  // Its agent has not checked it yet, and will find the same chunk missing.
  if (status.ok() || (absl::IsNotFound(status) && index_.damaged().empty())) {
    return absl::OkStatus();
  }
  const std::string path = Store::SnapshotPath(store_.pending_directory(), snapshot.id());
  if (HasRotted(status)) return SetAside(path, status);
  return RefuseUnlessDamaged(path, status);
}

absl::Status Collection::RefuseUnlessDamaged(const std::string& path,
                                             const absl::Status& why) const {
  // Of a newer kerf: nobody should remove that.
  if (absl::IsFailedPrecondition(why)) return why;
  if (absl::IsDataLoss(why)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Cat("what the unchecked snapshot ", path, " references is unknown (", MessageOf(why),
          "); run `kerf gc` again, and if it stays so move that file out of the store: the backup "
          "that it is of has to be made again"));
}

absl::Status Collection::SetAside(const std::string& path, const absl::Status& why) {
  if (options_.dry_run) {
    report_.damage.push_back(Cat("the unchecked snapshot ", path, " cannot be read (",
                                 MessageOf(why), "): it would be put into quarantine"));
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> moved;
  store_.reserve()
      .Spend([&] {
        moved = MoveToQuarantine(store_.directory(), path);
        return moved.status();
      })
      .IgnoreError();
  if (absl::IsNotFound(moved.status())) {
    // Its agent has withdrawn it, or was quicker and has made it a snapshot.
    return absl::AbortedError("");
  }
  KERF_RETURN_IF_ERROR(moved.status());
  report_.damage.push_back(Cat("the unchecked snapshot ", path, " cannot be read (", MessageOf(why),
                               "): it is in ", *moved,
                               " now, and the backup that it is of has to be made again"));
  return absl::OkStatus();
}

absl::Status Collection::ListAndMark() {
  KERF_ASSIGN_OR_RETURN(const Roots roots, ListRoots(store_));
  KERF_RETURN_IF_ERROR(CheckRootsAreComplete(store_, roots));
  for (const DamagedSnapshot& damaged : roots.checked.damaged) {
    // Of a newer kerf: nobody should remove that.
    if (absl::IsFailedPrecondition(damaged.status)) return damaged.status;
    return CannotRead("a snapshot", damaged.status,
                      absl::IsDataLoss(damaged.status)
                          ? Cat("bring it back, or give it up with `kerf repair --apply "
                                "--accept-loss ",
                                damaged.id, "`")
                          : "");
  }
  for (const DamagedSnapshot& damaged : roots.pending.damaged) {
    KERF_RETURN_IF_ERROR(RefuseUnlessDamaged(damaged.path, damaged.status));
    KERF_RETURN_IF_ERROR(SetAside(damaged.path, damaged.status));
  }
  // A snapshot that was removed must not come back once its chunks are gone.
  KERF_RETURN_IF_ERROR(SyncDirectory(store_.pending_directory()));
  KERF_RETURN_IF_ERROR(SyncDirectory(store_.snapshots_directory()));
  // After the roots were listed, so that what they reference is in it.
  KERF_RETURN_IF_ERROR(index_.Refresh());
  if (!marks_.has_value()) marks_.emplace(index_);
  // Always again: what could not be read of one before may have been published since.
  for (const store::v1::Snapshot& snapshot : roots.pending.snapshots) {
    KERF_RETURN_IF_ERROR(MarkPending(snapshot));
  }
  for (const store::v1::Snapshot& snapshot : roots.checked.snapshots) {
    KERF_RETURN_IF_ERROR(MarkChecked(snapshot));
  }
  KERF_RETURN_IF_ERROR(MarkForgotten(roots.forgotten));
  report_.snapshot_count = roots.checked.snapshots.size();
  report_.pending_count = roots.pending.snapshots.size();
  return absl::OkStatus();
}

absl::Status Collection::MarkRoots() {
  for (int round = 0; round < kMaxListings; ++round) {
    const absl::Status status = ListAndMark();
    // One of them has left pending/ under its reader: what is where now?
    if (!absl::IsAborted(status)) return status;
  }
  return absl::UnavailableError("unchecked snapshots come and go: run `kerf gc` again");
}

std::optional<std::uint64_t> Collection::AvailableBytes() const {
  if (options_.available_bytes) return options_.available_bytes();
  struct statvfs info{};
  if (statvfs(store_.packs_directory().c_str(), &info) != 0) return std::nullopt;
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

void Collection::Choose() {
  for (const DamagedPack& damaged : index_.damaged()) {
    report_.damage.push_back(Cat(MessageOf(damaged.status), " (left as it is)"));
  }
  for (std::size_t pack_index = 0; pack_index < marks_->pack_count(); ++pack_index) {
    report_.stored_bytes_before += marks_->pack(pack_index).file_bytes;
  }
  ChosenTargets chosen = ChooseTargets(*marks_, options_, AvailableBytes(),
                                       ReadParityPercent(store_.directory()).value_or(0));
  targets_ = std::move(chosen.targets);
  report_.left_pack_count = chosen.left_count;
  report_.left_bytes = chosen.left_bytes;
  is_short_ = chosen.is_short;
  mover_.emplace(index_, reader_, *marks_, targets_, report_.damage);
  for (std::size_t pack_index = 0; pack_index < marks_->pack_count(); ++pack_index) {
    const KnownPack& pack = marks_->pack(pack_index);
    if (pack.flaw.empty() || mover_->IsTarget(pack)) continue;
    report_.damage.push_back(Cat(index_.PackPath(pack.id), ": ", pack.flaw, " (left as it is)"));
  }
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

absl::Status Collection::CommitMoves(std::uint64_t epoch) {
  IndexBatch batch(
      [this, epoch](std::span<const StoredChunk> chunks) { return server_.Commit(epoch, chunks); });
  absl::flat_hash_map<Digest, std::string, DigestHash> moved;
  for (const SealedPack& pack : mover_->moved()) {
    const std::vector<PackChunk>& chunks = pack.footer.chunks;
    for (std::uint32_t index = 0; index < chunks.size(); ++index) {
      const std::string locator = EncodeLocator(pack.id, index);
      moved.emplace(chunks[index].digest, locator);
      KERF_RETURN_IF_ERROR(batch.Add({chunks[index].digest, chunks[index].length_bytes, locator}));
    }
  }
  // The index may name the redundant copies that go: it is told the ones that stay. And it may have
  // been made whole without the packs that were to go.
  for (const Target& target : targets_) {
    const std::vector<PackChunk>& chunks = marks_->pack(target.pack_index).footer.chunks;
    for (std::uint32_t index = 0; index < chunks.size(); ++index) {
      const Digest& digest = chunks[index].digest;
      const bool is_live = marks_->live(target.pack_index, index);
      if (moved.contains(digest) || (is_live && !target.keep) ||
          !marks_->referenced(target.pack_index, index)) {
        continue;
      }
      const std::optional<ChunkPlace> place =
          is_live ? ChunkPlace{marks_->shared_pack(target.pack_index), index}
                  : index_.Locate(digest);
      if (!place.has_value()) continue;
      moved.emplace(digest, place->locator());
      KERF_RETURN_IF_ERROR(batch.Add({digest, chunks[index].length_bytes, place->locator()}));
    }
  }
  return batch.Flush();
}

absl::Status Collection::Move() {
  PackWriterOptions writer_options;
  writer_options.packs_directory = store_.packs_directory();
  writer_options.temporary_directory = store_.temporary_directory();
  writer_options.digest_algorithm = store_.digest_algorithm();
  writer_options.compression = options_.compression;
  writer_options.target_pack_bytes = options_.target_pack_bytes;
  writer_options.thread_count = options_.thread_count;
  std::mutex mutex;
  writer_options.on_parity_failed = [&](const absl::Status& status) {
    const std::lock_guard lock(mutex);
    ++report_.parity_failure_count;
    report_.findings.emplace_back(MessageOf(status));
  };
  KERF_RETURN_IF_ERROR(mover_->Move(writer_options));
  report_.moved_bytes = mover_->moved_bytes();
  for (const SealedPack& pack : mover_->moved()) report_.stored_bytes_after += pack.file_bytes;
  if (mover_->disk_was_full()) {
    is_short_ = true;
    for (const Target& target : targets_) {
      if (!target.keep || target.is_merge) continue;
      ++report_.left_pack_count;
      report_.left_bytes += static_cast<std::uint64_t>(marks_->DeadBytes(target.pack_index));
    }
  }
  return Step(CollectionStep::kMoved);
}

absl::Status Collection::CommitAll(std::uint64_t epoch) {
  IndexBatch batch(
      [this, epoch](std::span<const StoredChunk> chunks) { return server_.Commit(epoch, chunks); });
  for (const auto& pack : index_.packs()) {
    if (!mover_->IsTarget(*pack)) KERF_RETURN_IF_ERROR(batch.AddPack(*pack));
  }
  KERF_RETURN_IF_ERROR(batch.Flush());
  return CommitMoves(epoch);
}

// One that cannot be deleted does not hold up the others.
absl::Status Collection::Delete(bool with_live) {
  absl::Status failure;
  for (const Target& target : targets_) {
    if (target.has_live != with_live || target.keep) continue;
    const KnownPack& pack = marks_->pack(target.pack_index);
    const std::string path = index_.PackPath(pack.id);
    const absl::Status status = RemoveFile(path);
    if (!status.ok() && !absl::IsNotFound(status)) {
      if (failure.ok()) failure = status;
      continue;
    }
    // Behind its pack. What stays goes with the next collection.
    RemoveFile(ParityPathOf(path)).IgnoreError();
    ++report_.deleted_pack_count;
    if (with_live) ++report_.rewritten_pack_count;
    if (target.is_merge) ++report_.merged_pack_count;
    report_.stored_bytes_after -= pack.file_bytes;
  }
  return failure;
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

// Whoever makes parity does it behind the pack: what has none now is of one that was deleted, by
// kerf 0.1.0, which knows no parity, or by a collection that died. In a store that keeps none it is
// of a backup that had read the setting before that was changed, or of a pack that has rotted: what
// that has lost may come back from nothing else. A failure does not matter; where nobody knows
// whether the store keeps parity, all stays.
absl::Status Collection::RemoveStrayParity() {
  const absl::StatusOr<std::vector<PackId>> ids =
      ListPackFiles(ParityDirectory(store_.directory()), kParitySuffix);
  if (!ids.ok() || !ReadParityPercent(store_.directory()).ok()) return absl::OkStatus();
  // Each time: it may be made again from now on.
  const auto is_kept = [this] { return ReadParityPercent(store_.directory()).value_or(1) > 0; };
  for (const PackId& id : *ids) {
    const std::string path = index_.PackPath(id);
    if (MayExist(path)) {
      if (is_kept()) continue;
      // Each is read as a whole: who interrupts does not wait for all of them.
      KERF_RETURN_IF_ERROR(Step(CollectionStep::kLocked));
      if (!CheckPack(path, id).ok() || is_kept()) continue;
    }
    if (RemoveFile(ParityPath(store_.directory(), id)).ok()) ++report_.removed_temporary_count;
  }
  return absl::OkStatus();
}

absl::Status Collection::Change() {
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
  return Step(CollectionStep::kPlanRemoved);
}

void Collection::CountWhatWouldBeDone() {
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

absl::Status Collection::Run() {
  KERF_RETURN_IF_ERROR(round_.Lock());
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kLocked));
  KERF_RETURN_IF_ERROR(round_.ReadEpochs(!options_.dry_run));
  if (!options_.dry_run) {
    KERF_RETURN_IF_ERROR(round_.PayWhatIsOwed());
    KERF_RETURN_IF_ERROR(RemoveOldFiles());
    KERF_RETURN_IF_ERROR(RemoveStrayParity());
  }
  KERF_RETURN_IF_ERROR(ExpireForgotten());
  KERF_RETURN_IF_ERROR(MarkRoots());
  Choose();
  report_.stored_bytes_after = report_.stored_bytes_before;
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kMarked));
  if (options_.dry_run) {
    CountWhatWouldBeDone();
  } else {
    KERF_RETURN_IF_ERROR(Change());
  }
  return absl::OkStatus();
}

CollectionReport Collection::TakeReport() {
  report_.epoch = round_.epoch();
  for (const absl::Status& damage : reader_.stepped_over()) {
    report_.damage.push_back(Cat(MessageOf(damage), " (another copy was read)"));
  }
  for (std::size_t pack_index = 0; marks_ && pack_index < marks_->pack_count(); ++pack_index) {
    report_.chunk_count += marks_->pack(pack_index).footer.chunks.size();
    report_.live_chunk_count += marks_->live_count(pack_index);
  }
  return std::move(report_);
}

// What two passes have done together.
void Add(CollectionReport& sum, CollectionReport pass) {
  sum.epoch = pass.epoch;
  sum.snapshot_count = pass.snapshot_count;
  sum.pending_count = pass.pending_count;
  sum.condemned_chunk_count += pass.condemned_chunk_count;
  sum.deleted_pack_count += pass.deleted_pack_count;
  sum.rewritten_pack_count += pass.rewritten_pack_count;
  sum.merged_pack_count += pass.merged_pack_count;
  sum.left_pack_count = pass.left_pack_count;
  sum.left_bytes = pass.left_bytes;
  sum.moved_bytes += pass.moved_bytes;
  sum.stored_bytes_after = pass.stored_bytes_after;
  sum.removed_temporary_count += pass.removed_temporary_count;
  sum.parity_failure_count += pass.parity_failure_count;
  sum.missing_chunk_count = pass.missing_chunk_count;
  for (auto [lines, more] :
       {std::pair(&sum.findings, &pass.findings), std::pair(&sum.damage, &pass.damage)}) {
    for (std::string& line : *more) {
      if (std::find(lines->begin(), lines->end(), line) == lines->end()) {
        lines->push_back(std::move(line));
      }
    }
  }
}

}  // namespace

absl::StatusOr<CollectionReport> CollectGarbage(const Store& store, CollectionIndex& index,
                                                const CollectionOptions& options) {
  CollectionReport report;
  KERF_RETURN_IF_ERROR(CollectGarbage(store, index, options, report));
  return report;
}

absl::Status CollectGarbage(const Store& store, CollectionIndex& index,
                            const CollectionOptions& options, CollectionReport& report) {
  // However it ends. If that fails, whoever opens the store next tries again.
  bool may_have_spent = false;
  const bool had_reserve = store.reserve().IsThere();
  const absl::Cleanup take_back = [&] {
    if (may_have_spent) store.reserve().TakeBack().IgnoreError();
  };
  absl::Status status;
  bool goes_on = true;
  for (int pass = 0; goes_on && pass < kMaxPasses; ++pass) {
    Collection collection(store, index, options);
    status = collection.Run();
    // Another one that runs may be about to write where the reserve was.
    const bool has_spent = had_reserve && !store.reserve().IsThere();
    may_have_spent |= collection.has_lock() && (!options.dry_run || has_spent);
    CollectionReport ended = collection.TakeReport();
    // What a pass has deleted is room for the next one.
    goes_on =
        status.ok() && collection.is_short() && ended.deleted_pack_count > 0 && !options.dry_run;
    if (pass == 0) {
      report = std::move(ended);
    } else {
      Add(report, std::move(ended));
    }
  }
  if (report.left_pack_count > 0) {
    report.findings.push_back(Cat(
        "the disk is too full to rewrite all packs without their waste: ", report.left_pack_count,
        " are left as they are, with ", FormatByteSize(report.left_bytes),
        " that nobody needs; make room, and run `kerf gc` again"));
  }
  if (report.missing_chunk_count > 0) {
    report.damage.push_back(
        Cat("no pack holds ", report.missing_chunk_count,
            " of the chunks that snapshots need: `kerf verify` names the files"));
  }
  return status;
}

}  // namespace kerf::agent
