#include "client/store/packs/chunk_index.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <mutex>
#include <span>
#include <utility>

#include "base/parallel.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/pack_files.h"
#include "client/store/parity/mender.h"

namespace kerf::agent {
namespace {

constexpr std::string_view kPackSuffix = ".pack";
// Fewer footers are read before a thread has started.
constexpr std::size_t kMinPacksForThreads = 32;

// Fills the bytes from an offset on.
using RangeReader = std::function<absl::Status(std::span<std::uint8_t>, std::uint64_t)>;

absl::StatusOr<KnownPack> ReadFooterWith(const RangeReader& read, std::uint64_t file_bytes,
                                         const std::string& path, const PackId& id) {
  if (file_bytes < kPackHeaderBytes + kPackTrailerBytes) {
    return absl::DataLossError(Cat(path, ": it is too short for a pack: it was cut short"));
  }
  std::array<std::uint8_t, kPackHeaderBytes> header;
  KERF_RETURN_IF_ERROR(read(header, 0));
  if (const absl::Status status = CheckPackHeader(header, id); !status.ok()) {
    return Annotate(status, path);
  }
  std::array<std::uint8_t, kPackTrailerBytes> end;
  KERF_RETURN_IF_ERROR(read(end, file_bytes - kPackTrailerBytes));
  if (const absl::Status status = CheckPackVersion(header, end); !status.ok()) {
    return Annotate(status, path);
  }
  const absl::StatusOr<PackTrailer> trailer = DecodePackTrailer(end, file_bytes);
  if (!trailer.ok()) return Annotate(trailer.status(), path);
  std::vector<std::uint8_t> bytes(trailer->footer_bytes);
  KERF_RETURN_IF_ERROR(read(bytes, trailer->footer_offset));
  absl::StatusOr<PackFooter> footer = DecodePackFooter(bytes, *trailer);
  if (!footer.ok()) return Annotate(footer.status(), path);
  return KnownPack{id, *std::move(footer), file_bytes,
                   std::string(MessageOf(CheckReservedBytes(header, end)))};
}

// Of a pack whose footer cannot be read as it is, and why.
absl::StatusOr<KnownPack> ReadFooterWithParity(const std::string& path, const PackId& id,
                                               const absl::Status& failure) {
  KERF_ASSIGN_OR_RETURN(const Mender mender, Mender::Open(path, id));
  const auto read = [&](std::span<std::uint8_t> bytes, std::uint64_t offset) -> absl::Status {
    KERF_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> mended,
                          mender.Read(offset, bytes.size()));
    std::copy(mended.begin(), mended.end(), bytes.begin());
    return absl::OkStatus();
  };
  KERF_ASSIGN_OR_RETURN(KnownPack pack,
                        ReadFooterWith(read, mender.parity().shape().pack_bytes, path, id));
  std::string_view why = MessageOf(failure);
  if (const std::string prefix = Cat(path, ": "); why.starts_with(prefix)) {
    why.remove_prefix(prefix.size());
  }
  pack.flaw = Cat(why, "; it is read with its parity");
  pack.needs_parity = true;
  return pack;
}

// With its parity where that is needed.
absl::StatusOr<KnownPack> ReadFooterAnyhow(const std::string& path, const PackId& id) {
  absl::StatusOr<KnownPack> pack = ReadPackFooter(path, id);
  // A flipped bit may look like a later version.
  if (pack.ok() || absl::IsNotFound(pack.status())) return pack;
  absl::StatusOr<KnownPack> mended = ReadFooterWithParity(path, id, pack.status());
  if (mended.ok()) return mended;
  if (absl::IsNotFound(mended.status()) || mended.status() == pack.status()) return pack;
  const absl::Status& status = pack.status();
  return absl::Status(status.code(),
                      ToAbsl(Cat(MessageOf(status), "; ", MessageOf(mended.status()))));
}

}  // namespace

absl::Status CheckPacksAreListed(const std::string& packs_directory) {
  return ListPackFiles(packs_directory, kPackSuffix).status();
}

absl::StatusOr<KnownPack> ReadPackFooter(const std::string& path, const PackId& id,
                                         PackSums* sums) {
  KERF_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path));
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, path);
  const auto read = [&](std::span<std::uint8_t> bytes, std::uint64_t offset) {
    absl::Status status = PReadExactly(fd.get(), bytes, offset, path);
    if (status.ok() && sums != nullptr) sums->Add(offset, bytes);
    return status;
  };
  return ReadFooterWith(read, static_cast<std::uint64_t>(info.st_size), path, id);
}

std::uint64_t MaxIndexedChunks() {
  const auto memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return memory_bytes / 4 * 3 / kIndexBytesPerChunk;
}

ChunkIndex::ChunkIndex(std::string packs_directory, SeenPacks seen, std::uint64_t max_chunk_count)
    : packs_directory_(std::move(packs_directory)),
      seen_(seen),
      max_chunk_count_(max_chunk_count),
      rows_(0, RowHash{this}, RowEqual{this}) {}

std::string ChunkIndex::PackPath(const PackId& id) const {
  return PackFilePath(packs_directory_, id, kPackSuffix);
}

absl::Status ChunkIndex::Refresh() {
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
  if (seen_ == SeenPacks::kAreDurable) KERF_RETURN_IF_ERROR(MakeNamesDurable(unknown));
  std::vector<absl::StatusOr<KnownPack>> read(unknown.size(), absl::UnknownError(""));
  const unsigned thread_count = unknown.size() < kMinPacksForThreads ? 1 : 0;
  std::atomic<std::uint64_t> chunk_count = 0;
  for (const auto& pack : packs()) chunk_count += pack->footer.chunks.size();
  ForEachInParallel(unknown.size(), thread_count, [&](std::size_t index) {
    if (chunk_count > max_chunk_count_) return;
    read[index] = ReadFooterAnyhow(PackPath(unknown[index]), unknown[index]);
    if (read[index].ok()) chunk_count += read[index]->footer.chunks.size();
  });
  if (chunk_count > max_chunk_count_) {
    return absl::ResourceExhaustedError(
        Cat(packs_directory_, ": it holds more than the ", max_chunk_count_,
            " chunks that three quarters of this machine's memory can list (", kIndexBytesPerChunk,
            " bytes each): use a machine with more memory, and for what is "
            "to come a second store, or one with larger chunks"));
  }
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
  return absl::OkStatus();
}

absl::Status ChunkIndex::MakeNamesDurable(const std::vector<PackId>& ids) const {
  std::string synced;
  // Their order is that of the directories.
  for (const PackId& id : ids) {
    std::string directory = DirectoryOf(PackPath(id));
    if (directory == synced) continue;
    KERF_RETURN_IF_ERROR(SyncDirectory(directory));
    synced = std::move(directory);
  }
  return ids.empty() ? absl::OkStatus() : SyncDirectory(packs_directory_);
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
