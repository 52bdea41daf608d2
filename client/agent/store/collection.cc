#include "client/agent/store/collection.h"

#include <fcntl.h>
#include <sys/file.h>
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
#include "client/agent/store/chunk_index.h"
#include "client/agent/store/chunk_reader.h"
#include "client/agent/store/collection_plan.h"
#include "client/agent/store/durable_file.h"
#include "client/agent/store/marks.h"
#include "client/agent/store/pack_writer.h"
#include "client/agent/store/pending.h"
#include "client/agent/store/roots.h"

namespace kerf::agent {
namespace {

// How far a collection raises the epoch: once to fence late commits off, once when all is
// forgotten.
constexpr std::uint64_t kEpochsPerCollection = 2;
// How often the index is asked whether it still knows what it was told to forget.
constexpr int kMaxForgetRounds = 4;
// How often the index may go back in time while it is told one epoch.
constexpr int kMaxSetbacks = 16;

// Collects chunks for one kind of call on the index.
class IndexBatch {
 public:
  using Send = std::function<absl::Status(std::span<const StoredChunk>)>;
  explicit IndexBatch(Send send) : send_(std::move(send)) {}

  absl::Status Add(StoredChunk chunk) {
    chunks_.push_back(std::move(chunk));
    return chunks_.size() < kMaxIndexBatch ? absl::OkStatus() : Flush();
  }
  absl::Status Flush() {
    if (chunks_.empty()) return absl::OkStatus();
    KERF_RETURN_IF_ERROR(send_(chunks_));
    chunks_.clear();
    return absl::OkStatus();
  }

 private:
  Send send_;
  std::vector<StoredChunk> chunks_;
};

class Collection {
 public:
  Collection(const Store& store, CollectionIndex& server, const CollectionOptions& options)
      : store_(store),
        server_(server),
        options_(options),
        index_(store.packs_directory(), SeenPacks::kAreDurable),
        reader_(index_, ChunkReader::Options()) {}

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

  absl::Status Lock();
  absl::Status ReadEpochs();
  absl::Status FollowIndex();
  std::uint64_t fence_epoch() const { return first_epoch_ + 1; }
  absl::Status RaiseStoreToFence();
  absl::Status Fence();
  absl::Status CommitAll();
  absl::Status MarkRoots();
  absl::Status MarkSnapshot(const store::v1::Snapshot& snapshot, bool checked);
  void ChooseTargets();
  void Condemn();
  absl::Status PublishPlan();
  absl::Status RaiseStoreEpoch();
  absl::Status Forget();
  absl::Status AdvanceIndex();
  absl::Status DistrustIndex();
  absl::Status MakeIndexWhole();
  absl::Status Move();
  bool OtherCopyIsSound(const PackChunk& chunk);
  bool IsTarget(const KnownPack& pack) const;
  absl::Status MoveChunks(PackWriter& writer);
  absl::Status CommitMoves();
  absl::Status Delete(bool with_live);
  absl::Status RemoveOldFiles();
  absl::Status Step(CollectionStep step) const {
    return options_.on_step ? options_.on_step(step) : absl::OkStatus();
  }

  const Store& store_;
  CollectionIndex& server_;
  const CollectionOptions& options_;
  UniqueFd lock_;
  std::uint64_t first_epoch_ = 0;
  std::uint64_t index_epoch_ = 0;
  // An index of that epoch, or a later one, names no chunk that is gone.
  std::uint64_t min_index_epoch_ = 0;
  // By the last Forget.
  ForgottenChunks forgotten_;
  // It has gone back in time, or the store has: entries of it may name chunks that are gone.
  bool index_is_behind_ = false;
  ChunkIndex index_;
  ChunkReader reader_;
  std::optional<Marks> marks_;
  // Checked snapshots that have been marked; they never change.
  absl::flat_hash_set<std::string> marked_;
  std::vector<Target> targets_;
  absl::flat_hash_set<const KnownPack*> target_packs_;
  // What was condemned when it was published first, also if it is published again.
  std::vector<PlannedPack> planned_;
  // Packs that hold what was moved.
  std::vector<SealedPack> moved_;
  CollectionReport report_;
};

absl::Status Collection::Lock() {
  const std::string path = store_.collector_lock_path();
  lock_ = UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock_.get() < 0) return ErrnoStatus(errno, path);
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, path);
    return absl::FailedPreconditionError(
        Cat(store_.directory(), ": another collection is running; wait until it is done"));
  }
  return Step(CollectionStep::kLocked);
}

absl::Status Collection::ReadEpochs() {
  KERF_ASSIGN_OR_RETURN(const std::uint64_t store_epoch, store_.ReadEpoch());
  if (!options_.dry_run) {
    KERF_ASSIGN_OR_RETURN(index_epoch_, server_.ReadEpoch());
  }
  first_epoch_ = store_epoch;
  // An index that has lost nothing knows this epoch: the collection that raised it has told it.
  min_index_epoch_ = store_epoch;
  const absl::StatusOr<std::optional<CollectionPlan>> plan = ReadCollectionPlan(store_.plan_path());
  if (plan.ok() && plan->has_value()) {
    first_epoch_ = std::max(first_epoch_, (*plan)->target_epoch);
    index_is_behind_ = (*plan)->index_is_behind;
    if ((*plan)->min_index_epoch.has_value()) {
      min_index_epoch_ = *(*plan)->min_index_epoch;
    } else if (store_epoch < (*plan)->target_epoch) {
      // It has deleted nothing: it died before it raised the epoch for the second time.
      min_index_epoch_ = (*plan)->target_epoch - kEpochsPerCollection;
    }
  } else if (absl::IsDataLoss(plan.status())) {
    // Whatever it was, its last epoch is no further away than this.
    first_epoch_ += kEpochsPerCollection;
    index_is_behind_ = true;
    report_.findings.push_back(std::string(MessageOf(plan.status())));
  } else if (!plan.ok()) {
    return plan.status();
  }
  // Nobody has told it of the first epoch, and nothing had been deleted then.
  if (min_index_epoch_ > 1 && index_epoch_ < min_index_epoch_) index_is_behind_ = true;
  KERF_RETURN_IF_ERROR(FollowIndex());
  report_.epoch = first_epoch_ + kEpochsPerCollection;
  return absl::OkStatus();
}

// The store is told an epoch before the index is. If the index knows a later one, the store was set
// back to an older copy of itself: it goes on from the index's epoch, so that no epoch comes a
// second time, and nothing is trusted that the index has of the time that the store has lost.
absl::Status Collection::FollowIndex() {
  if (first_epoch_ > kMaxStoreEpoch) {
    return absl::FailedPreconditionError(
        Cat(store_.directory(), ": its epoch is ", first_epoch_, ", further than any collections ",
            "can have counted: the file epoch or gc/plan is damaged; bring it back from a copy"));
  }
  if (index_epoch_ <= first_epoch_) return absl::OkStatus();
  if (index_epoch_ > kMaxFollowedEpoch) {
    return absl::FailedPreconditionError(
        Cat("the server's index is at epoch ", index_epoch_, " and the store at ", first_epoch_,
            ": that is no epoch of this store; give the server an empty index for it "
            "(another --data-dir), the next backup fills it"));
  }
  report_.findings.push_back(Cat("the store was at epoch ", first_epoch_, ", behind its index at ",
                                 index_epoch_,
                                 ": it was set back to an older copy; it goes on from there"));
  first_epoch_ = index_epoch_;
  index_is_behind_ = true;
  return absl::OkStatus();
}

// The store's epoch for the time of the fence: sessions of today do not believe an index that has
// gone back in time, though it is told the fence.
absl::Status Collection::RaiseStoreToFence() {
  return store_.WriteEpoch(index_is_behind_ ? fence_epoch() + 1 : fence_epoch());
}

// Once the index is at the fence it looks like one that has lost nothing: that it has gone back is
// written down before it is raised.
absl::Status Collection::Fence() {
  std::uint64_t reached = index_epoch_;
  int setback_count = 0;
  while (reached < fence_epoch()) {
    const std::uint64_t next = reached + std::min(fence_epoch() - reached, kMaxIndexEpochStep);
    KERF_ASSIGN_OR_RETURN(const std::uint64_t before, server_.AdvanceEpoch(next, reached));
    if (before >= reached) {
      reached = next;
      continue;
    }
    if (++setback_count > kMaxSetbacks) {
      return absl::UnavailableError("the server's index goes back in time again and again");
    }
    reached = before;
    if (index_is_behind_) continue;
    index_is_behind_ = true;
    KERF_RETURN_IF_ERROR(PublishPlan());
    KERF_RETURN_IF_ERROR(RaiseStoreToFence());
  }
  return absl::OkStatus();
}

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

absl::Status Collection::MarkRoots() {
  KERF_ASSIGN_OR_RETURN(const Roots roots, ListRoots(store_));
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

// What the next collection is to know of this one if it dies, too.
absl::Status Collection::PublishPlan() {
  CollectionPlan plan;
  plan.target_epoch = report_.epoch;
  plan.index_is_behind = index_is_behind_;
  plan.min_index_epoch = min_index_epoch_;
  plan.packs = planned_;
  return WriteCollectionPlan(store_.plan_path(), store_.temporary_directory(), plan);
}

void Collection::Condemn() {
  for (const Target& target : targets_) {
    const KnownPack& pack = marks_->pack(target.pack_index);
    PlannedPack& planned = planned_.emplace_back();
    planned.id = pack.id;
    planned.condemned.resize(pack.footer.chunks.size());
    for (std::size_t index = 0; index < planned.condemned.size(); ++index) {
      planned.condemned[index] = !marks_->live(target.pack_index, index);
    }
  }
}

absl::Status Collection::RaiseStoreEpoch() {
  ++report_.epoch;
  return store_.WriteEpoch(report_.epoch);
}

absl::Status Collection::Forget() {
  IndexBatch batch([this](std::span<const StoredChunk> chunks) -> absl::Status {
    KERF_ASSIGN_OR_RETURN(const ForgottenChunks forgotten, server_.Forget(chunks));
    forgotten_.Add(forgotten);
    return absl::OkStatus();
  });
  forgotten_ = {0, std::numeric_limits<std::uint64_t>::max(), 0};
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
  return batch.Flush();
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

absl::Status Collection::CommitMoves() {
  IndexBatch batch([this](std::span<const StoredChunk> chunks) {
    return server_.Commit(report_.epoch, chunks);
  });
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

// The last epoch makes every entry that the index holds trusted again, so it must have forgotten
// the condemned ones by then. An index that loses its last writes (a failover) may have lost just
// that: it is asked once more behind the epoch, must have that epoch when it answers, and nobody
// may have removed one of them since it was told the epoch. So none was there then, and what the
// index loses later it loses together with the epoch, or has nothing of it.
absl::Status Collection::AdvanceIndex() {
  for (int round = 0; !index_is_behind_ && round < kMaxForgetRounds; ++round) {
    const std::uint64_t min_before = report_.epoch - 1;
    KERF_ASSIGN_OR_RETURN(const std::uint64_t before,
                          server_.AdvanceEpoch(report_.epoch, min_before));
    // It was not told: what it has is UNVERIFIED.
    if (before < min_before) break;
    KERF_RETURN_IF_ERROR(Forget());
    if (forgotten_.NothingWasThere(report_.epoch)) return absl::OkStatus();
    // The epoch that the index was just told is void for sessions of a later one.
    KERF_RETURN_IF_ERROR(RaiseStoreEpoch());
  }
  return DistrustIndex();
}

// The chunks that the store keeps are committed anew, in an epoch that the index has not been told.
// Until it is, all other entries are UNVERIFIED.
absl::Status Collection::DistrustIndex() {
  report_.findings.push_back(
      "the index and the store were not of the same time; the index was told of all chunks of the "
      "store again");
  if (!index_is_behind_) {
    // Written down before it is told an epoch at which it may still name what is gone.
    index_is_behind_ = true;
    KERF_RETURN_IF_ERROR(PublishPlan());
    KERF_RETURN_IF_ERROR(RaiseStoreEpoch());
  }
  KERF_RETURN_IF_ERROR(CommitAll());
  return MakeIndexWhole();
}

// What sessions have committed since the fence is there: they had read the plan. All that is older
// and that CommitAll has not found goes. That it has gone is seen at an epoch that no session of
// today believes, and only an index that has that epoch is told today's.
absl::Status Collection::MakeIndexWhole() {
  for (int round = 0; round < kMaxForgetRounds; ++round) {
    KERF_RETURN_IF_ERROR(server_.ForgetOlder(fence_epoch()).status());
    const std::uint64_t void_epoch = report_.epoch - 1;
    KERF_ASSIGN_OR_RETURN(const std::uint64_t before,
                          server_.AdvanceEpoch(void_epoch, fence_epoch()));
    if (before < fence_epoch()) break;
    KERF_ASSIGN_OR_RETURN(const ForgottenChunks forgotten, server_.ForgetOlder(fence_epoch()));
    if (forgotten.NothingWasThere(void_epoch)) {
      KERF_ASSIGN_OR_RETURN(const std::uint64_t seen_at,
                            server_.AdvanceEpoch(report_.epoch, void_epoch));
      if (seen_at < void_epoch) break;
      index_is_behind_ = false;
      return absl::OkStatus();
    }
    KERF_RETURN_IF_ERROR(RaiseStoreEpoch());
  }
  // The next collection tries again. What it has lost meanwhile may be what it was told before.
  return CommitAll();
}

absl::Status Collection::CommitAll() {
  IndexBatch batch([this](std::span<const StoredChunk> chunks) {
    return server_.Commit(report_.epoch, chunks);
  });
  for (const auto& pack : index_.packs()) {
    const std::vector<PackChunk>& chunks = pack->footer.chunks;
    if (IsTarget(*pack)) continue;
    for (std::uint32_t index = 0; index < chunks.size(); ++index) {
      KERF_RETURN_IF_ERROR(batch.Add(
          {chunks[index].digest, chunks[index].length_bytes, EncodeLocator(pack->id, index)}));
    }
  }
  KERF_RETURN_IF_ERROR(batch.Flush());
  return CommitMoves();
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
  KERF_RETURN_IF_ERROR(Lock());
  KERF_RETURN_IF_ERROR(ReadEpochs());
  if (!options_.dry_run) KERF_RETURN_IF_ERROR(RemoveOldFiles());
  KERF_RETURN_IF_ERROR(MarkRoots());
  ChooseTargets();
  report_.stored_bytes_after = report_.stored_bytes_before;
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kMarked));

  if (!options_.dry_run) {
    Condemn();
    KERF_RETURN_IF_ERROR(PublishPlan());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kPlanned));
    KERF_RETURN_IF_ERROR(RaiseStoreToFence());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kEpochRaised));
    KERF_RETURN_IF_ERROR(Fence());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kFenced));
    KERF_RETURN_IF_ERROR(MarkRoots());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kMarkedAgain));
    KERF_RETURN_IF_ERROR(Forget());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kForgotten));
    KERF_RETURN_IF_ERROR(Move());
    KERF_RETURN_IF_ERROR(CommitMoves());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kMovesCommitted));
    KERF_RETURN_IF_ERROR(index_is_behind_ ? RaiseStoreEpoch() : store_.WriteEpoch(report_.epoch));
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kEpochRaisedAgain));
    KERF_RETURN_IF_ERROR(AdvanceIndex());
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kAdvanced));
    // From here on chunks go: an index that does not know this epoch may name them.
    min_index_epoch_ = report_.epoch;
    KERF_RETURN_IF_ERROR(PublishPlan());
    KERF_RETURN_IF_ERROR(Delete(false));
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kDeadDeleted));
    KERF_RETURN_IF_ERROR(Delete(true));
    KERF_RETURN_IF_ERROR(Step(CollectionStep::kDeleted));
    KERF_RETURN_IF_ERROR(RemoveCollectionPlan(store_.plan_path()));
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
