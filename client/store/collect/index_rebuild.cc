#include "client/store/collect/index_rebuild.h"

#include <optional>
#include <span>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/collect/index_batch.h"
#include "client/store/packs/chunk_index.h"

namespace kerf::agent {
namespace {

// More entries are removed than a tenth of the chunks: that is worth a warning.
constexpr std::uint64_t kManyRemovedDivisor = 10;

class Rebuild {
 public:
  Rebuild(const Store& store, CollectionIndex& server, const RebuildOptions& options)
      : server_(server),
        options_(options),
        packs_(store.packs_directory(), SeenPacks::kAreDurable),
        // Nothing is condemned: nothing is forgotten but what no pack holds.
        round_(store, server,
               {[this](std::uint64_t epoch) { return CommitAll(epoch); },
                {},
                [this](std::uint64_t epoch) { return ForgetGone(epoch); }},
               &report_.findings) {
    packs_.EndWhen(options_.is_cancelled);
  }

  absl::StatusOr<RebuildReport> Run();

 private:
  absl::Status ReadPacks();
  absl::Status CommitAll(std::uint64_t epoch);
  absl::StatusOr<std::uint64_t> ForgetGone(std::uint64_t epoch);
  absl::Status KeepWhatCame(std::uint64_t epoch, std::span<const StoredChunk> forgotten);
  std::vector<StoredChunk> NotInPacks(std::span<const StoredChunk> entries) const;
  absl::Status Step(CollectionStep step) const {
    return options_.on_step ? options_.on_step(step) : absl::OkStatus();
  }
  absl::Status Report() const {
    return options_.on_progress ? options_.on_progress(progress_) : absl::OkStatus();
  }

  CollectionIndex& server_;
  const RebuildOptions& options_;
  ChunkIndex packs_;
  RebuildProgress progress_;
  RebuildReport report_;
  EpochRound round_;
};

absl::Status Rebuild::ReadPacks() {
  KERF_RETURN_IF_ERROR(packs_.Refresh());
  for (const DamagedPack& damaged : packs_.damaged()) {
    report_.findings.push_back(
        Cat(MessageOf(damaged.status), " (the index knows nothing of this pack: run kerf verify)"));
  }
  report_.damaged_pack_count = packs_.damaged().size();
  return absl::OkStatus();
}

absl::Status Rebuild::CommitAll(std::uint64_t epoch) {
  const auto packs = packs_.packs();
  progress_ = {};
  for (const auto& pack : packs) {
    progress_.total_count += pack->footer.chunks.size();
    for (const PackChunk& chunk : pack->footer.chunks) progress_.total_bytes += chunk.length_bytes;
  }
  report_.pack_count = packs.size();
  report_.chunk_count = progress_.total_count;
  KERF_RETURN_IF_ERROR(Report());
  IndexBatch batch([this, epoch](std::span<const StoredChunk> chunks) {
    KERF_RETURN_IF_ERROR(server_.Commit(epoch, chunks));
    progress_.done_count += chunks.size();
    for (const StoredChunk& chunk : chunks) progress_.done_bytes += chunk.length_bytes;
    return Report();
  });
  for (const auto& pack : packs) KERF_RETURN_IF_ERROR(batch.AddPack(*pack));
  return batch.Flush();
}

std::vector<StoredChunk> Rebuild::NotInPacks(std::span<const StoredChunk> entries) const {
  std::vector<StoredChunk> missing;
  for (const StoredChunk& entry : entries) {
    // Without its place: whatever place the index names when it is forgotten.
    if (!packs_.Contains(entry.digest)) missing.push_back({entry.digest, entry.length_bytes, ""});
  }
  return missing;
}

// An agent publishes a pack before it commits what is in it, and nobody deletes packs while the
// collector's lock is held: what no pack holds behind the answer that names it, the store does not
// hold. It is the decision of index_check.cc, which has no lock and so has to look at epochs, too.
absl::StatusOr<std::uint64_t> Rebuild::ForgetGone(std::uint64_t epoch) {
  std::uint64_t gone_count = 0;
  std::optional<Digest> after;
  while (true) {
    KERF_RETURN_IF_ERROR(Report());
    KERF_ASSIGN_OR_RETURN(const std::vector<StoredChunk> page, server_.ScanPage(after));
    if (page.empty()) return gone_count;
    after = page.back().digest;
    std::vector<StoredChunk> gone = NotInPacks(page);
    if (gone.empty()) continue;
    KERF_RETURN_IF_ERROR(packs_.Refresh());
    gone = NotInPacks(gone);
    if (gone.empty()) continue;
    KERF_ASSIGN_OR_RETURN(const ForgottenChunks forgotten, server_.Forget(gone));
    gone_count += forgotten.count;
    KERF_RETURN_IF_ERROR(KeepWhatCame(epoch, gone));
  }
}

// Of what was forgotten, an upload may have stored and committed some just before.
absl::Status Rebuild::KeepWhatCame(std::uint64_t epoch, std::span<const StoredChunk> forgotten) {
  KERF_RETURN_IF_ERROR(packs_.Refresh());
  std::vector<StoredChunk> came;
  for (const StoredChunk& chunk : forgotten) {
    const std::optional<ChunkPlace> place = packs_.Locate(chunk.digest);
    if (place.has_value()) {
      came.push_back({chunk.digest, place->chunk().length_bytes, place->locator()});
    }
  }
  return came.empty() ? absl::OkStatus() : server_.Commit(epoch, came);
}

absl::StatusOr<RebuildReport> Rebuild::Run() {
  KERF_RETURN_IF_ERROR(round_.Lock());
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kLocked));
  KERF_RETURN_IF_ERROR(round_.ReadEpochs(/*with_index=*/true));
  KERF_RETURN_IF_ERROR(round_.PayWhatIsOwed());
  round_.Distrust();
  KERF_RETURN_IF_ERROR(round_.PublishPlan({}));
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kPlanned));
  KERF_RETURN_IF_ERROR(round_.RaiseStoreToFence());
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kEpochRaised));
  KERF_RETURN_IF_ERROR(round_.Fence());
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kFenced));
  // Behind the fence: every pack of which an earlier session has committed chunks is seen. What
  // later ones commit is theirs, and stays.
  KERF_RETURN_IF_ERROR(ReadPacks());
  KERF_RETURN_IF_ERROR(round_.RaiseStoreAgain());
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kEpochRaisedAgain));
  KERF_RETURN_IF_ERROR(round_.MakeIndexWhole());
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kAdvanced));
  KERF_RETURN_IF_ERROR(round_.RemovePlan());
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kPlanRemoved));
  if (round_.index_is_behind()) {
    return absl::UnavailableError(
        "the server's index went back in time while it was rebuilt (a failover?): it knows the "
        "store's chunks, but may name others that are gone, and is not believed in those; run kerf "
        "index rebuild again");
  }
  report_.epoch = round_.epoch();
  report_.removed_entry_count = round_.removed_entry_count();
  // Else the pack is named already.
  const bool is_unexplained = report_.damaged_pack_count == 0;
  if (is_unexplained && report_.removed_entry_count * kManyRemovedDivisor > report_.chunk_count) {
    report_.findings.push_back(
        Cat("the index had ", report_.removed_entry_count,
            " entries of chunks that the store does not hold: if it was not set back to an older "
            "copy, and the server is not new to it, a pack may be lost: run kerf verify"));
  }
  return std::move(report_);
}

}  // namespace

absl::StatusOr<RebuildReport> RebuildIndex(const Store& store, CollectionIndex& server,
                                           const RebuildOptions& options) {
  return Rebuild(store, server, options).Run();
}

}  // namespace kerf::agent
