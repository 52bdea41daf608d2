#include "client/store/packs/known_pack.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/pack_files.h"
#include "client/store/parity/mender.h"

namespace kerf::agent {
namespace {

constexpr std::string_view kPackSuffix = ".pack";
// Of who looks through all packs, behind the last one that was gone.
constexpr int kLists = 2;

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

}  // namespace

std::uint64_t KnownPack::memory_bytes() const {
  return sizeof *this + footer.blocks.capacity() * sizeof(PackBlock) +
         footer.chunks.capacity() * sizeof(PackChunk) + flaw.capacity();
}

std::string PackPathIn(const std::string& packs_directory, const PackId& id) {
  return PackFilePath(packs_directory, id, kPackSuffix);
}

absl::StatusOr<std::vector<PackId>> ListPacks(const std::string& packs_directory) {
  return ListPackFiles(packs_directory, kPackSuffix);
}

absl::Status MakePackNamesDurable(const std::string& packs_directory,
                                  const std::vector<PackId>& ids) {
  std::string synced;
  // Their order is that of the directories.
  for (const PackId& id : ids) {
    std::string directory = DirectoryOf(PackPathIn(packs_directory, id));
    if (directory == synced) continue;
    KERF_RETURN_IF_ERROR(SyncDirectory(directory));
    synced = std::move(directory);
  }
  return ids.empty() ? absl::OkStatus() : SyncDirectory(packs_directory);
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

absl::StatusOr<KnownPack> ReadPackFooterAnyhow(const std::string& path, const PackId& id) {
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

absl::Status VisitDurablePacks(const std::string& packs_directory,
                               const std::function<void(const KnownPack&)>& visit,
                               const std::function<bool()>& is_ended) {
  absl::flat_hash_set<PackId> listed;
  // What was moved out of a pack that has gone was in another before. And a list takes its time: a
  // pack that came into a folder that it had passed is not in it, nor the one that went for it.
  int left_lists = kLists;
  while (left_lists > 0) {
    --left_lists;
    KERF_ASSIGN_OR_RETURN(std::vector<PackId> ids, ListPacks(packs_directory));
    std::erase_if(ids, [&](const PackId& id) { return !listed.insert(id).second; });
    KERF_RETURN_IF_ERROR(MakePackNamesDurable(packs_directory, ids));
    for (const PackId& id : ids) {
      if (is_ended && is_ended())
        return absl::CancelledError("interrupted while it read which chunks the store has");
      const absl::StatusOr<KnownPack> pack =
          ReadPackFooterAnyhow(PackPathIn(packs_directory, id), id);
      if (pack.ok()) visit(*pack);
      if (absl::IsNotFound(pack.status())) left_lists = kLists;
    }
  }
  return absl::OkStatus();
}

}  // namespace kerf::agent
