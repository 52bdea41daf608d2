#include "client/store/packs/chunk_index.h"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "absl/strings/cord.h"
#include "base/parallel.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/pack_files.h"

namespace kerf::agent {
namespace {

constexpr std::string_view kPackSuffix = ".pack";
// Fewer footers are read before a thread has started.
constexpr std::size_t kMinPacksForThreads = 32;
constexpr char kTooManyChunks[] = "kerf/too-many-chunks";

}  // namespace

absl::Status CheckPacksAreListed(const std::string& packs_directory) {
  return ListPackFiles(packs_directory, kPackSuffix).status();
}

std::uint64_t MaxIndexedChunks() {
  const auto memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return memory_bytes / 4 * 3 / kIndexBytesPerChunk;
}

bool IsTooManyChunks(const absl::Status& status) {
  return status.GetPayload(kTooManyChunks).has_value();
}

ChunkIndex::ChunkIndex(std::string packs_directory, SeenPacks seen, std::uint64_t max_chunk_count)
    : packs_directory_(std::move(packs_directory)),
      seen_(seen),
      max_chunk_count_(max_chunk_count),
      rows_(0, RowHash{this}, RowEqual{this}) {}

absl::Status ChunkIndex::Refresh() {
  KERF_ASSIGN_OR_RETURN(const bool fits, Learn(Sampling::kReadsAll));
  if (fits) return absl::OkStatus();
  // No disk is full, and no quota used up: that is what ResourceExhausted means to who is told.
  absl::Status status = absl::FailedPreconditionError(
      Cat(packs_directory_, ": it holds more than the ", max_chunk_count_,
          " chunks that three quarters of this machine's memory can list (", kIndexBytesPerChunk,
          " bytes each): use a machine with more memory, and for what is "
          "to come a second store, or one with larger chunks"));
  status.SetPayload(kTooManyChunks, absl::Cord());
  return status;
}

absl::StatusOr<bool> ChunkIndex::LookAgain() {
  const auto before = packs();
  KERF_RETURN_IF_ERROR(Refresh());
  return before != packs();
}

absl::StatusOr<bool> ChunkIndex::Learn(Sampling sampling) {
  // Known before the directory is listed: what AddPack brings meanwhile is not missed in the list.
  absl::flat_hash_set<std::string> gone;
  for (const auto& pack : packs()) gone.insert(PackIdToHex(pack->id));
  std::vector<UnlistedFolder> unlisted;
  KERF_ASSIGN_OR_RETURN(const std::vector<PackId> ids,
                        ListPackFiles(packs_directory_, kPackSuffix,
                                      seen_ == SeenPacks::kAsFarAsListed ? &unlisted : nullptr));
  std::vector<PackId> unknown;
  for (const PackId& id : ids) {
    if (gone.erase(PackIdToHex(id)) == 0) unknown.push_back(id);
  }
  // What was seen in one before is there, for all that is known.
  for (const UnlistedFolder& folder : unlisted) {
    const std::string prefix = folder.path.substr(folder.path.size() - kPackFolderDigits);
    absl::erase_if(gone, [&](const std::string& name) { return name.starts_with(prefix); });
  }
  if (seen_ == SeenPacks::kAreDurable)
    KERF_RETURN_IF_ERROR(MakePackNamesDurable(packs_directory_, unknown));
  std::vector<absl::StatusOr<KnownPack>> read(unknown.size(), absl::UnknownError(""));
  const unsigned thread_count = unknown.size() < kMinPacksForThreads ? 1 : 0;
  std::atomic<std::uint64_t> chunk_count = 0;
  for (const auto& pack : packs()) chunk_count += pack->footer.chunks.size();
  // The names of packs are random, so that the first ones are a sample of all.
  const bool may_guess = sampling == Sampling::kMayGuess && chunk_count == 0;
  std::atomic<std::size_t> read_count = 0;
  std::atomic<bool> fits = chunk_count <= max_chunk_count_;
  std::atomic<bool> is_ended = is_ended_ && is_ended_();
  ForEachInParallel(unknown.size(), thread_count, [&](std::size_t index) {
    if (is_ended_ && is_ended_()) is_ended = true;
    if (!fits || is_ended) return;
    read[index] = ReadPackFooterAnyhow(PackPath(unknown[index]), unknown[index]);
    if (!read[index].ok()) return;
    const std::uint64_t count = chunk_count += read[index]->footer.chunks.size();
    const bool is_sample = ++read_count == kSamplePacks && may_guess;
    const std::uint64_t guess = is_sample ? count / kSamplePacks * unknown.size() / 2 : 0;
    if (count > max_chunk_count_ || guess > max_chunk_count_) fits = false;
  });
  if (is_ended) return absl::CancelledError("interrupted while it read which chunks the store has");
  if (!fits) return false;
  std::vector<std::shared_ptr<const KnownPack>> added;
  std::vector<DamagedPack> damaged;
  for (std::size_t index = 0; index < read.size(); ++index) {
    if (read[index].ok()) {
      added.push_back(std::make_shared<const KnownPack>(*std::move(read[index])));
    } else if (!absl::IsNotFound(read[index].status())) {
      damaged.push_back({PackPath(unknown[index]), read[index].status()});
    }
  }
  std::unique_lock lock(mutex_);
  damaged_ = std::move(damaged);
  unlisted_ = std::move(unlisted);
  if (!gone.empty()) Remove(gone);
  for (auto& pack : added) Insert(std::move(pack));
  return true;
}

void ChunkIndex::Remove(const absl::flat_hash_set<std::string>& names) {
  const std::vector<std::shared_ptr<const KnownPack>> packs = std::move(slots_);
  rows_.clear();
  earlier_.clear();
  slots_.clear();
  slot_of_.clear();
  for (const auto& pack : packs) {
    if (!names.contains(PackIdToHex(pack->id))) Insert(pack);
  }
}

void ChunkIndex::Insert(std::shared_ptr<const KnownPack> pack) {
  const auto slot = static_cast<std::uint32_t>(slots_.size());
  if (!slot_of_.emplace(PackIdToHex(pack->id), slot).second) return;
  const auto count = static_cast<std::uint32_t>(pack->footer.chunks.size());
  slots_.push_back(std::move(pack));
  rows_.reserve(rows_.size() + count);
  for (std::uint32_t index = 0; index < count; ++index) {
    const auto [row, inserted] = rows_.insert({slot, index});
    if (inserted) continue;
    earlier_.emplace(KeyOf({slot, index}), *row);
    rows_.erase(row);
    rows_.insert({slot, index});
  }
}

void ChunkIndex::AddPack(SealedPack sealed) {
  auto pack = std::make_shared<const KnownPack>(
      KnownPack{sealed.id, std::move(sealed.footer), sealed.file_bytes});
  std::unique_lock lock(mutex_);
  Insert(std::move(pack));
}

std::optional<ChunkPlace> ChunkIndex::Locate(const Digest& digest) const {
  std::shared_lock lock(mutex_);
  const auto row = rows_.find(digest);
  if (row == rows_.end()) return std::nullopt;
  return PlaceOf(*row);
}

std::vector<ChunkPlace> ChunkIndex::LocateAll(const Digest& digest) const {
  std::shared_lock lock(mutex_);
  std::vector<ChunkPlace> places;
  const auto last = rows_.find(digest);
  if (last == rows_.end()) return places;
  places.push_back(PlaceOf(*last));
  for (auto row = earlier_.find(KeyOf(*last)); row != earlier_.end();
       row = earlier_.find(KeyOf(row->second))) {
    places.push_back(PlaceOf(row->second));
  }
  return places;
}

std::vector<std::shared_ptr<const KnownPack>> ChunkIndex::packs() const {
  std::shared_lock lock(mutex_);
  return slots_;
}

std::vector<DamagedPack> ChunkIndex::damaged() const {
  std::shared_lock lock(mutex_);
  return damaged_;
}

std::vector<UnlistedFolder> ChunkIndex::unlisted() const {
  std::shared_lock lock(mutex_);
  return unlisted_;
}

}  // namespace kerf::agent
