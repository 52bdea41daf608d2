#include "client/store/copy/copy_run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/store/collect/collection_guard.h"
#include "client/store/collect/index_batch.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/tree_codec.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/snapshots/roots.h"

namespace kerf::agent {
namespace {

// Of one snapshot, against collections that come in between each time.
constexpr int kMaxRounds = 3;

bool IsSameRecipe(const google::protobuf::RepeatedPtrField<store::v1::StoredChunkRef>& a,
                  const google::protobuf::RepeatedPtrField<store::v1::StoredChunkRef>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const auto& left, const auto& right) {
        return left.digest() == right.digest() && left.length_bytes() == right.length_bytes();
      });
}

// Held while snapshots are pending: of two runs that copy the same one none replaces, or withdraws,
// what the other has checked.
absl::StatusOr<UniqueFd> LockPublishing(const Store& store) {
  const std::string path = Cat(store.directory(), "/locks/copy");
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return ErrnoStatus(errno, path);
  while (flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return ErrnoStatus(errno, path);
  }
  return lock;
}

class CopyRun {
 public:
  CopyRun(const Store& from, const Store& to, const CopyOptions& options, CopyReport& report)
      : from_(from),
        to_(to),
        options_(options),
        digest_size_bytes_(DigestSizeBytes(from.digest_algorithm())),
        from_index_(from.packs_directory(), SeenPacks::kAsFarAsListed),
        from_reader_(from_index_, ChunkReader::Options()),
        to_index_(to.packs_directory(), SeenPacks::kAreDurable),
        to_reader_(to_index_, ChunkReader::Options()),
        transfer_(from_reader_, to, to_index_, options.transfer),
        report_(report) {
    from_index_.EndWhen(options_.transfer.cancelled);
    to_index_.EndWhen(options_.transfer.cancelled);
  }

  absl::Status Run(std::span<const store::v1::Snapshot> snapshots);

 private:
  // Its chunks are copied; nobody sees it yet.
  struct Copied {
    store::v1::Snapshot snapshot;
    SnapshotCopy result;
    int round_count = 1;
  };

  absl::Status BeginSession();
  absl::Status CopyOne(const store::v1::Snapshot& snapshot);
  absl::StatusOr<bool> IsThere(const store::v1::Snapshot& snapshot) const;
  absl::Status CopyChunks(const store::v1::Snapshot& snapshot);
  absl::Status CopyAgain(Copied& copied);
  absl::Status DescribeFailure(const std::string& id, const absl::Status& status) const;
  absl::Status Flush();
  absl::Status PublishAll();
  absl::StatusOr<bool> Publish(Copied& copied);
  void Tell();
  void Report(const SnapshotCopy& result);
  bool Cancelled() const { return options_.transfer.cancelled && options_.transfer.cancelled(); }
  absl::Status CopyAll(std::span<const store::v1::Snapshot> snapshots);
  void ShowProgress() const {
    if (options_.on_progress) options_.on_progress(progress_);
  }

  const Store& from_;
  const Store& to_;
  const CopyOptions& options_;
  const std::size_t digest_size_bytes_;
  ChunkIndex from_index_;
  ChunkReader from_reader_;
  ChunkIndex to_index_;
  ChunkReader to_reader_;
  ChunkTransfer transfer_;
  // What collections of `to_` had published when the session began.
  std::optional<CollectionGuard> guard_;
  std::vector<Copied> unpublished_;
  // What the server has not been told yet.
  std::vector<StoredChunk> untold_;
  bool is_server_lost_ = false;
  std::uint64_t flushed_stored_bytes_ = 0;
  // Of what was flushed last: what it takes in packs, to its raw bytes.
  double stored_ratio_ = 1;
  CopyProgress progress_;
  CopyReport& report_;
};

absl::Status CopyRun::BeginSession() {
  KERF_ASSIGN_OR_RETURN(guard_, CollectionGuard::Begin(to_));
  KERF_RETURN_IF_ERROR(to_index_.Refresh());
  transfer_.Distrust(guard_->Distrusted(to_index_));
  return absl::OkStatus();
}

// False if the other store has no snapshot of that id.
absl::StatusOr<bool> CopyRun::IsThere(const store::v1::Snapshot& snapshot) const {
  const absl::StatusOr<store::v1::Snapshot> there = to_.FindSnapshot(snapshot.id());
  if (absl::IsNotFound(there.status())) return false;
  // It was lost: it comes back.
  const std::string path = Store::SnapshotPath(to_.snapshots_directory(), snapshot.id());
  if (absl::IsDataLoss(there.status()) && access(path.c_str(), F_OK) != 0) return false;
  if (!there.ok()) {
    return Annotate(there.status(), Cat("snapshot ", snapshot.id(), " of ", to_.directory()));
  }
  if (IsSameRecipe(there->tree(), snapshot.tree()) &&
      IsSameRecipe(there->identity(), snapshot.identity())) {
    return true;
  }
  return absl::AlreadyExistsError(
      Cat(to_.directory(), " has another snapshot ", snapshot.id(), " than ", from_.directory()));
}

// OK unless the run is over: what is wrong with the snapshot is reported.
absl::Status CopyRun::CopyOne(const store::v1::Snapshot& snapshot) {
  SnapshotCopy result;
  result.id = snapshot.id();
  const std::uint64_t chunk_count_before = transfer_.new_chunk_count();
  const std::uint64_t bytes_before = transfer_.new_bytes();
  // Else nobody could name it there.
  absl::Status status = IsSnapshotId(snapshot.id())
                            ? absl::OkStatus()
                            : absl::DataLossError(Cat("'", snapshot.id(), "' is no snapshot id"));
  if (status.ok()) {
    const absl::StatusOr<bool> is_there = IsThere(snapshot);
    status = is_there.status();
    if (is_there.ok() && *is_there) {
      progress_.files_done += snapshot.stats().file_count();
      progress_.bytes_done += snapshot.stats().total_bytes();
      result.outcome = CopyOutcome::kWasThere;
      Report(result);
      return absl::OkStatus();
    }
  }
  if (status.ok()) status = CopyChunks(snapshot);
  if (!status.ok()) {
    transfer_.DropWanted();
    if (transfer_.target_failed() || absl::IsCancelled(status)) return status;
    result.outcome = CopyOutcome::kFailed;
    result.status = DescribeFailure(snapshot.id(), status);
    Report(result);
    return absl::OkStatus();
  }
  result.new_chunk_count = transfer_.new_chunk_count() - chunk_count_before;
  result.new_bytes = transfer_.new_bytes() - bytes_before;
  unpublished_.push_back({snapshot, std::move(result)});
  const bool is_full = unpublished_.size() >= options_.max_unpublished ||
                       transfer_.unflushed_bytes() >= options_.transfer.target_pack_bytes;
  return is_full ? PublishAll() : absl::OkStatus();
}

absl::Status CopyRun::CopyChunks(const store::v1::Snapshot& snapshot) {
  KERF_ASSIGN_OR_RETURN(std::vector<ChunkRef> tree,
                        RecipeFromProto(snapshot.tree(), digest_size_bytes_));
  KERF_ASSIGN_OR_RETURN(const std::vector<ChunkRef> identity,
                        RecipeFromProto(snapshot.identity(), digest_size_bytes_));
  for (const std::vector<ChunkRef>& recipe : {std::cref(tree), std::cref(identity)}) {
    for (const ChunkRef& chunk : recipe) {
      KERF_RETURN_IF_ERROR(transfer_.Want(chunk, ChunkTransfer::Kind::kMetadata));
    }
  }
  const CopyProgress before = progress_;
  TreeReader entries(ReadRecipe(from_reader_, std::move(tree)), digest_size_bytes_);
  TreeEntry entry;
  absl::Status status;
  const auto visit = [&](const ChunkRef& chunk) {
    // Entries may be long: what is wanted is copied as it comes.
    if (status.ok()) status = transfer_.Want(chunk, ChunkTransfer::Kind::kData);
    progress_.bytes_done += chunk.length_bytes;
    ShowProgress();
  };
  for (bool more = true; more;) {
    if (Cancelled()) return absl::CancelledError("the copying was interrupted");
    KERF_ASSIGN_OR_RETURN(more, entries.Next(entry, visit));
    KERF_RETURN_IF_ERROR(status);
    if (more && entry.node.kind == NodeKind::kFile) ++progress_.files_done;
  }
  KERF_RETURN_IF_ERROR(transfer_.CopyWanted());
  // Holes and further names of a file have no chunks.
  progress_.files_done = before.files_done + snapshot.stats().file_count();
  progress_.bytes_done = before.bytes_done + snapshot.stats().total_bytes();
  return absl::OkStatus();
}

// Why a snapshot could not be read.
absl::Status CopyRun::DescribeFailure(const std::string& id, const absl::Status& status) const {
  if (!absl::IsNotFound(status)) return status;
  if (absl::IsNotFound(from_.FindSnapshot(id).status())) {
    return absl::NotFoundError(Cat("it was forgotten in ", from_.directory(),
                                   " meanwhile, and a collection of garbage has deleted what it "
                                   "needs (",
                                   MessageOf(status), ")"));
  }
  return absl::DataLossError(Cat(from_.directory(), ": ", MessageOf(status),
                                 "; `kerf verify` tells what else is missing"));
}

// False if collections have taken something that it needs: it is pending no more.
absl::StatusOr<bool> CopyRun::Publish(Copied& copied) {
  store::v1::Snapshot& snapshot = copied.snapshot;
  snapshot.set_store_epoch(guard_->epoch());
  store::v1::SnapshotStats& stats = *snapshot.mutable_stats();
  stats.set_new_chunk_count(copied.result.new_chunk_count);
  stats.set_new_bytes(copied.result.new_bytes);
  stats.set_stored_bytes(
      static_cast<std::uint64_t>(stored_ratio_ * static_cast<double>(copied.result.new_bytes)));
  KERF_RETURN_IF_ERROR(PublishPending(to_, snapshot));
  const absl::StatusOr<FinishCheck> check =
      guard_->Check(to_, to_index_, [&](const ChunkVisitor& visit) {
        return VisitSnapshot(snapshot, digest_size_bytes_, to_reader_, visit, EntryVisitor());
      });
  // A chunk of the tree itself is gone.
  const bool is_lost = absl::IsNotFound(check.status());
  if (!check.ok() && !is_lost) {
    WithdrawPending(to_, snapshot.id()).IgnoreError();
    return check.status();
  }
  if (!is_lost && check->lost.empty()) {
    KERF_RETURN_IF_ERROR(ConfirmPending(to_, snapshot));
    return true;
  }
  KERF_RETURN_IF_ERROR(WithdrawPending(to_, snapshot.id()));
  return false;
}

// A session later, in which what collections took is stored anew.
absl::Status CopyRun::CopyAgain(Copied& copied) {
  if (++copied.round_count > kMaxRounds) {
    return absl::AbortedError(Cat("collections of garbage in ", to_.directory(),
                                  " took chunks of snapshot ", copied.snapshot.id(), " ",
                                  kMaxRounds, " times: run it again"));
  }
  const CopyProgress progress = progress_;
  const absl::Status status = CopyChunks(copied.snapshot);
  progress_ = progress;
  return status;
}

absl::Status CopyRun::Flush() {
  const std::uint64_t raw_bytes = transfer_.unflushed_bytes();
  const std::uint64_t stored_bytes_before = std::exchange(flushed_stored_bytes_, 0);
  KERF_RETURN_IF_ERROR(transfer_.Flush());
  flushed_stored_bytes_ = transfer_.stored_bytes();
  if (raw_bytes > 0) {
    stored_ratio_ = static_cast<double>(flushed_stored_bytes_ - stored_bytes_before) /
                    static_cast<double>(raw_bytes);
  }
  return absl::OkStatus();
}

// What is copied becomes durable, and then visible.
absl::Status CopyRun::PublishAll() {
  while (!unpublished_.empty()) {
    KERF_RETURN_IF_ERROR(Flush());
    Tell();
    std::vector<Copied> again;
    {
      KERF_ASSIGN_OR_RETURN(const UniqueFd lock, LockPublishing(to_));
      for (Copied& copied : std::exchange(unpublished_, {})) {
        if (Cancelled()) return absl::CancelledError("the copying was interrupted");
        // Another run may have been faster.
        const absl::StatusOr<bool> is_there = IsThere(copied.snapshot);
        if (is_there.ok() && !*is_there) {
          KERF_ASSIGN_OR_RETURN(const bool is_whole, Publish(copied));
          if (!is_whole) {
            again.push_back(std::move(copied));
            continue;
          }
        } else {
          copied.result.outcome = is_there.ok() ? CopyOutcome::kWasThere : CopyOutcome::kFailed;
          copied.result.status = is_there.status();
        }
        Report(copied.result);
      }
    }
    KERF_RETURN_IF_ERROR(BeginSession());
    for (Copied& copied : again) {
      const absl::Status status = CopyAgain(copied);
      if (status.ok()) {
        unpublished_.push_back(std::move(copied));
        continue;
      }
      transfer_.DropWanted();
      const bool is_over =
          transfer_.target_failed() || absl::IsCancelled(status) || absl::IsAborted(status);
      if (is_over) return status;
      copied.result.outcome = CopyOutcome::kFailed;
      copied.result.status = DescribeFailure(copied.snapshot.id(), status);
      Report(copied.result);
    }
  }
  return absl::OkStatus();
}

// A session may commit what it has sealed itself. What an earlier one could not, for a collection
// had raised the epoch, it commits if no plan is there: the packs that it sees now stay.
void CopyRun::Tell() {
  std::vector<StoredChunk> chunks = transfer_.TakeSealed();
  if (!options_.commit || is_server_lost_) return;
  for (StoredChunk& chunk : std::exchange(untold_, {})) {
    const std::optional<ChunkPlace> place = to_index_.Locate(chunk.digest);
    if (!place.has_value()) continue;
    chunk.locator = place->locator();
    (guard_->plan_present() ? untold_ : chunks).push_back(std::move(chunk));
  }
  IndexBatch batch(
      [&](std::span<const StoredChunk> some) { return options_.commit(guard_->epoch(), some); });
  absl::Status status;
  for (const StoredChunk& chunk : chunks) {
    if (status.ok()) status = batch.Add(chunk);
  }
  if (status.ok()) status = batch.Flush();
  report_.index_warning = status;
  if (status.ok()) return;
  // To tell it twice does no harm.
  untold_.insert(untold_.end(), chunks.begin(), chunks.end());
  is_server_lost_ = !absl::IsFailedPrecondition(status);
}

void CopyRun::Report(const SnapshotCopy& result) {
  if (result.outcome == CopyOutcome::kCopied) ++report_.copied_count;
  if (result.outcome == CopyOutcome::kWasThere) ++report_.present_count;
  if (result.outcome == CopyOutcome::kFailed) ++report_.failed_count;
  if (absl::IsDataLoss(result.status)) ++report_.damaged_count;
  ++progress_.snapshots_done;
  ShowProgress();
  if (options_.on_snapshot) options_.on_snapshot(result);
}

absl::Status CopyRun::CopyAll(std::span<const store::v1::Snapshot> snapshots) {
  KERF_RETURN_IF_ERROR(CheckCopyable(from_, to_));
  KERF_RETURN_IF_ERROR(from_index_.Refresh());
  KERF_RETURN_IF_ERROR(BeginSession());
  for (const store::v1::Snapshot& snapshot : snapshots) {
    if (Cancelled()) return absl::CancelledError("the copying was interrupted");
    KERF_RETURN_IF_ERROR(CopyOne(snapshot));
  }
  KERF_RETURN_IF_ERROR(PublishAll());
  if (!untold_.empty()) Tell();
  return absl::OkStatus();
}

absl::Status CopyRun::Run(std::span<const store::v1::Snapshot> snapshots) {
  const absl::Status status = CopyAll(snapshots);
  report_.new_chunk_count = transfer_.new_chunk_count();
  report_.new_bytes = transfer_.new_bytes();
  report_.stored_bytes = transfer_.stored_bytes();
  return status;
}

}  // namespace

absl::Status CheckCopyable(const Store& from, const Store& to) {
  struct stat from_info{};
  struct stat to_info{};
  if (stat(from.packs_directory().c_str(), &from_info) == 0 &&
      stat(to.packs_directory().c_str(), &to_info) == 0 && from_info.st_dev == to_info.st_dev &&
      from_info.st_ino == to_info.st_ino) {
    return absl::FailedPreconditionError(Cat(from.directory(), " and ", to.directory(),
                                             " are the same store: name another one to copy to"));
  }
  if (from.digest_algorithm() != to.digest_algorithm()) {
    return absl::FailedPreconditionError(
        Cat(from.directory(), " names chunks by ", DigestAlgorithmName(from.digest_algorithm()),
            " and ", to.directory(), " by ", DigestAlgorithmName(to.digest_algorithm()),
            ": snapshots can only be copied where both use the same; make the other store with "
            "--digest ",
            DigestAlgorithmName(from.digest_algorithm())));
  }
  return absl::OkStatus();
}

absl::Status CopySnapshots(const Store& from, const Store& to,
                           std::span<const store::v1::Snapshot> snapshots,
                           const CopyOptions& options, CopyReport& report) {
  return CopyRun(from, to, options, report).Run(snapshots);
}

absl::StatusOr<CopyReport> CopySnapshots(const Store& from, const Store& to,
                                         std::span<const store::v1::Snapshot> snapshots,
                                         const CopyOptions& options) {
  CopyReport report;
  KERF_RETURN_IF_ERROR(CopySnapshots(from, to, snapshots, options, report));
  return report;
}

}  // namespace kerf::agent
