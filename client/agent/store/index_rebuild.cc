#include "client/agent/store/index_rebuild.h"

#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/agent/store/chunk_index.h"

namespace kerf::agent {
namespace {

class Rebuild {
 public:
  Rebuild(const Store& store, CollectionIndex& server, const RebuildOptions& options)
      : server_(server),
        options_(options),
        packs_(store.packs_directory(), SeenPacks::kAreDurable),
        // Nothing is condemned: nothing is forgotten but what is older than all of it.
        round_(store, server, {[this](std::uint64_t epoch) { return CommitAll(epoch); }, {}},
               &report_.findings) {}

  absl::StatusOr<RebuildReport> Run();

 private:
  absl::Status ReadPacks();
  absl::Status CommitAll(std::uint64_t epoch);
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
  report_.pack_count = packs_.packs().size();
  for (const auto& pack : packs_.packs()) {
    progress_.total_count += pack->footer.chunks.size();
    for (const PackChunk& chunk : pack->footer.chunks) progress_.total_bytes += chunk.length_bytes;
  }
  report_.chunk_count = progress_.total_count;
  return absl::OkStatus();
}

absl::Status Rebuild::CommitAll(std::uint64_t epoch) {
  progress_.done_count = 0;
  progress_.done_bytes = 0;
  KERF_RETURN_IF_ERROR(Report());
  IndexBatch batch([this, epoch](std::span<const StoredChunk> chunks) {
    KERF_RETURN_IF_ERROR(server_.Commit(epoch, chunks));
    progress_.done_count += chunks.size();
    for (const StoredChunk& chunk : chunks) progress_.done_bytes += chunk.length_bytes;
    return Report();
  });
  for (const auto& pack : packs_.packs()) KERF_RETURN_IF_ERROR(batch.AddPack(*pack));
  return batch.Flush();
}

absl::StatusOr<RebuildReport> Rebuild::Run() {
  KERF_RETURN_IF_ERROR(round_.Lock());
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kLocked));
  KERF_RETURN_IF_ERROR(round_.ReadEpochs(/*with_index=*/true));
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
        "store's chunks, but may name others that are gone, and is not believed in those; run "
        "`kerf "
        "index rebuild` again");
  }
  report_.epoch = round_.epoch();
  report_.removed_entry_count = round_.removed_entry_count();
  return std::move(report_);
}

}  // namespace

absl::StatusOr<RebuildReport> RebuildIndex(const Store& store, CollectionIndex& server,
                                           const RebuildOptions& options) {
  return Rebuild(store, server, options).Run();
}

}  // namespace kerf::agent
