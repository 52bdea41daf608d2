#include "client/store/parity/parity_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/little_endian.h"
#include "base/page_bytes.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/read_pieces.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kSumBytes = sizeof(std::uint64_t);

}  // namespace

absl::StatusOr<ParityHead> ParityFile::ReadHead(std::uint64_t offset, const PackId& pack) const {
  std::array<std::uint8_t, kParityHeadBytes> bytes;
  KERF_RETURN_IF_ERROR(PReadExactly(fd_.get(), bytes, offset, path_));
  absl::StatusOr<ParityHead> head = DecodeParityHead(bytes);
  if (!head.ok()) return Annotate(head.status(), path_);
  if (head->pack == pack) return head;
  return absl::DataLossError(
      Cat(path_, ": it is the parity of pack ", PackIdToHex(head->pack), " under another name"));
}

absl::StatusOr<ParityFile> ParityFile::OpenHead(const std::string& path, const PackId& pack) {
  KERF_ASSIGN_OR_RETURN(UniqueFd fd, OpenRegularFile(path));
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, path);
  ParityFile file(path, std::move(fd));
  file.file_bytes_ = static_cast<std::uint64_t>(info.st_size);
  absl::StatusOr<ParityHead> head = file.ReadHead(0, pack);
  if (!head.ok() && file.file_bytes_ >= kParityHeadBytes) {
    absl::StatusOr<ParityHead> second = file.ReadHead(file.file_bytes_ - kParityHeadBytes, pack);
    if (second.ok() || absl::IsFailedPrecondition(second.status())) head = std::move(second);
  }
  if (!head.ok()) return head.status();
  file.head_ = *head;
  return file;
}

absl::StatusOr<ParityHead> ParityFile::ReadAnyHead(const std::string& path, const PackId& pack) {
  KERF_ASSIGN_OR_RETURN(const ParityFile file, OpenHead(path, pack));
  return file.head_;
}

absl::StatusOr<ParityFile> ParityFile::Open(const std::string& path, const PackId& pack) {
  KERF_ASSIGN_OR_RETURN(ParityFile file, OpenHead(path, pack));
  file.LoadTable();
  return file;
}

template <typename Page>
bool ParityFile::VisitPages(std::uint64_t offset, const Page& page) const {
  const ParityShape& shape = head_.shape;
  std::vector<std::uint8_t> table(shape.table_bytes());
  // What cannot be read does not have its checksum.
  ReadPieces(fd_.get(), table, offset, path_).IgnoreError();
  bool are_all_sound = true;
  for (std::uint64_t index = 0; index < shape.page_count(); ++index) {
    const std::span<const std::uint8_t> rest = std::span(table).subspan(index * kPageBytes);
    const auto bytes = rest.first(std::min(rest.size(), kPageBytes));
    const auto rows = bytes.first(bytes.size() - kSumBytes);
    if (SectorSum(rows) == LoadLittleEndian<std::uint64_t>(bytes.last(kSumBytes).data())) {
      page(index, rows);
    } else {
      are_all_sound = false;
    }
  }
  return are_all_sound;
}

void ParityFile::LoadTable() {
  const ParityShape& shape = head_.shape;
  sums_.assign(shape.row_count(), std::nullopt);
  const auto take = [this](std::uint64_t index, std::span<const std::uint8_t> rows) {
    for (std::size_t row = 0; row < rows.size() / kSumBytes; ++row) {
      sums_[index * kPageRows + row] =
          LoadLittleEndian<std::uint64_t>(rows.data() + row * kSumBytes);
    }
  };
  if (!VisitPages(kParityHeadBytes, take)) VisitPages(shape.second_table_offset(), take);
}

bool ParityFile::IsSector(std::uint64_t row, std::span<const std::uint8_t> bytes) const {
  return sums_[row].has_value() && *sums_[row] == SectorSum(bytes);
}

bool ParityFile::ReadParitySector(std::uint64_t index, std::span<std::uint8_t> sector) const {
  return PReadExactly(fd_.get(), sector, head_.shape.parity_sector_offset(index), path_).ok() &&
         IsSector(head_.shape.sector_count() + index, sector);
}

absl::Status ParityFile::Check() const {
  DropFromPageCache(fd_.get());
  const ParityShape& shape = head_.shape;
  if (file_bytes_ != shape.file_bytes()) {
    return absl::DataLossError(
        Cat(path_, ": it has ", file_bytes_, " bytes instead of ", shape.file_bytes()));
  }
  KERF_RETURN_IF_ERROR(ReadHead(0, head_.pack).status());
  KERF_RETURN_IF_ERROR(ReadHead(file_bytes_ - kParityHeadBytes, head_.pack).status());
  for (const std::uint64_t offset :
       {std::uint64_t{kParityHeadBytes}, shape.second_table_offset()}) {
    bool is_same = true;
    const bool is_sound =
        VisitPages(offset, [&](std::uint64_t index, std::span<const std::uint8_t> rows) {
          for (std::size_t row = 0; row < rows.size() / kSumBytes; ++row) {
            is_same &= sums_[index * kPageRows + row] ==
                       LoadLittleEndian<std::uint64_t>(rows.data() + row * kSumBytes);
          }
        });
    if (is_sound && is_same) continue;
    return absl::DataLossError(Cat(path_, ": its table of checksums at ", offset, " is damaged"));
  }
  std::vector<std::uint8_t> sector(kSectorBytes);
  for (std::uint64_t index = 0; index < shape.parity_sector_count(); ++index) {
    if (ReadParitySector(index, sector)) continue;
    return absl::DataLossError(Cat(path_, ": parity sector ", index, " is damaged"));
  }
  // Between the table and the parity sectors; a checksum has all else.
  std::vector<std::uint8_t> padding(shape.parity_offset() - kParityHeadBytes - shape.table_bytes());
  KERF_RETURN_IF_ERROR(
      PReadExactly(fd_.get(), padding, kParityHeadBytes + shape.table_bytes(), path_));
  DropFromPageCache(fd_.get());
  if (std::all_of(padding.begin(), padding.end(), [](std::uint8_t byte) { return byte == 0; })) {
    return absl::OkStatus();
  }
  return absl::DataLossError(Cat(path_, ": bytes are set in it that are zero in every parity"));
}

absl::Status ParityFile::CheckFits(const std::string& pack_path) const {
  KERF_ASSIGN_OR_RETURN(const UniqueFd pack, OpenRegularFile(pack_path));
  const absl::Status other =
      absl::DataLossError(Cat(path_, ": it was not made of the pack as it is"));
  struct stat info{};
  if (fstat(pack.get(), &info) != 0) return ErrnoStatus(errno, pack_path);
  const std::uint64_t pack_bytes = head_.shape.pack_bytes;
  if (static_cast<std::uint64_t>(info.st_size) != pack_bytes) return other;
  PageVector piece(kDigestPieceBytes);
  for (std::uint64_t at = 0; at < pack_bytes; at += kDigestPieceBytes) {
    const std::uint64_t size_bytes = std::min<std::uint64_t>(kDigestPieceBytes, pack_bytes - at);
    std::fill(piece.begin(), piece.end(), std::uint8_t{0});
    KERF_RETURN_IF_ERROR(
        PReadExactly(pack.get(), std::span(piece).first(size_bytes), at, pack_path));
    for (std::uint64_t offset = 0; offset < size_bytes; offset += kSectorBytes) {
      const auto sector = std::span(piece).subspan(offset, kSectorBytes);
      if (!IsSector((at + offset) / kSectorBytes, sector)) return other;
    }
  }
  return absl::OkStatus();
}

}  // namespace kerf::agent
