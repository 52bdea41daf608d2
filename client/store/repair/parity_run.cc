#include "client/store/repair/parity_run.h"

#include <memory>
#include <mutex>
#include <utility>

#include "base/parallel.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/pack_files.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/pack_check.h"
#include "client/store/parity/parity_file.h"
#include "client/store/parity/parity_layout.h"
#include "client/store/parity/parity_maker.h"
#include "client/store/parity/parity_setting.h"

namespace kerf::agent {
namespace {

constexpr char kInterrupted[] = "it was interrupted; what was made or removed stays so";

class ParityRun {
 public:
  ParityRun(const Store& store, const ParityRunOptions& options, ParityReport& report)
      : store_(store), options_(options), index_(store.packs_directory()), report_(report) {
    index_.EndWhen(options_.is_cancelled);
  }

  absl::Status Run();

 private:
  void Remove(const PackId& id);
  absl::Status RemoveAll();
  void LookAt(const PackId& id, std::uint64_t file_bytes);
  absl::Status Make(const PackId& id);
  bool IsCancelled() const { return options_.is_cancelled && options_.is_cancelled(); }

  const Store& store_;
  const ParityRunOptions& options_;
  ChunkIndex index_;
  std::mutex mutex_;
  ParityReport& report_;
  // What no other pack would fare better with.
  absl::Status failure_;
  std::uint64_t done_count_ = 0;
};

// What has rotted since it was read last may have nothing but its parity to come back from. Of a
// pack that is gone there is nothing to give back.
void ParityRun::Remove(const PackId& id) {
  const std::string path = index_.PackPath(id);
  absl::Status status = CheckPack(path, id);
  if (status.ok() || absl::IsNotFound(status)) {
    status = RemoveFile(ParityPathOf(path));
    const std::lock_guard lock(mutex_);
    if (status.ok()) ++report_.removed_count;
    if (!status.ok() && !absl::IsNotFound(status) && failure_.ok()) failure_ = std::move(status);
    return;
  }
  const std::lock_guard lock(mutex_);
  report_.failures.emplace_back(status.code(),
                                Cat(MessageOf(status), ": its parity may give back what is lost: ",
                                    "`kerf repair --packs --apply`, then this once more"));
}

absl::Status ParityRun::RemoveAll() {
  const absl::StatusOr<std::vector<PackId>> ids =
      ListPackFiles(ParityDirectory(store_.directory()), kParitySuffix);
  if (absl::IsNotFound(ids.status())) return absl::OkStatus();
  KERF_RETURN_IF_ERROR(ids.status());
  ForEachInParallel(ids->size(), options_.thread_count, [&](std::size_t index) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_.ok() || IsCancelled()) return;
    }
    Remove((*ids)[index]);
    const std::lock_guard lock(mutex_);
    if (options_.on_progress) options_.on_progress(++done_count_, ids->size());
  });
  return failure_;
}

// Damage of a pack must not become what its parity gives back.
absl::Status ParityRun::Make(const PackId& id) {
  const std::string path = index_.PackPath(id);
  KERF_ASSIGN_OR_RETURN(const PackSums sums, SumSoundPack(path, id));
  return MakeParity(path, id, sums, report_.percent, options_.is_cancelled);
}

void ParityRun::LookAt(const PackId& id, std::uint64_t file_bytes) {
  if (file_bytes > kMaxParityPackBytes) {
    const std::lock_guard lock(mutex_);
    report_.failures.push_back(
        absl::DataLossError(Cat(index_.PackPath(id), ": no pack has ", file_bytes, " bytes")));
    return;
  }
  const ParityShape shape = ShapeFor(file_bytes, report_.percent);
  const absl::StatusOr<ParityHead> there =
      ParityFile::ReadAnyHead(ParityPath(store_.directory(), id), id);
  const bool is_there = there.ok() && there->shape == shape;
  // What a newer kerf made is not ours to replace.
  const absl::Status status = is_there                                     ? absl::OkStatus()
                              : absl::IsFailedPrecondition(there.status()) ? there.status()
                                                                           : Make(id);
  const std::lock_guard lock(mutex_);
  if (options_.on_progress) options_.on_progress(++done_count_, report_.pack_count);
  if (status.ok()) {
    ++(is_there ? report_.present_count : report_.made_count);
    report_.parity_bytes += shape.file_bytes();
  } else if (absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
             absl::IsCancelled(status)) {
    if (failure_.ok()) failure_ = status;
  } else if (!absl::IsNotFound(status)) {
    // Else a collection has deleted it.
    report_.failures.push_back(status);
  }
}

absl::Status ParityRun::Run() {
  KERF_ASSIGN_OR_RETURN(report_.percent, ReadParityPercent(store_.directory()));
  KERF_RETURN_IF_ERROR(index_.Refresh());
  const auto packs = index_.packs();
  report_.pack_count = packs.size();
  if (report_.percent == 0) {
    const absl::Status removed = RemoveAll();
    return IsCancelled() ? absl::CancelledError(kInterrupted) : removed;
  }
  for (const DamagedPack& damaged : index_.damaged()) report_.failures.push_back(damaged.status);
  ForEachInParallel(packs.size(), options_.thread_count, [&](std::size_t index) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_.ok() || IsCancelled()) return;
    }
    LookAt(packs[index]->id, packs[index]->file_bytes);
  });
  return IsCancelled() ? absl::CancelledError(kInterrupted) : failure_;
}

}  // namespace

absl::Status FollowParitySetting(const Store& store, const ParityRunOptions& options,
                                 ParityReport& report) {
  return ParityRun(store, options, report).Run();
}

absl::StatusOr<ParityReport> FollowParitySetting(const Store& store,
                                                 const ParityRunOptions& options) {
  ParityReport report;
  KERF_RETURN_IF_ERROR(FollowParitySetting(store, options, report));
  return report;
}

}  // namespace kerf::agent
