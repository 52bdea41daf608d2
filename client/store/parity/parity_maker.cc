#include "client/store/parity/parity_maker.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <vector>

#include "base/little_endian.h"
#include "base/page_bytes.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/store/format/durable_file.h"
#include "client/store/parity/parity_code.h"
#include "client/store/parity/parity_layout.h"
#include "client/store/parity/parity_setting.h"

namespace kerf::agent {
namespace {

// Of data sectors that are encoded together: what a processor has near.
constexpr std::uint64_t kStripBytes = std::uint64_t{4} << 20;

absl::Status OtherBytes(const std::string& pack_path, std::uint64_t offset) {
  return absl::DataLossError(Cat(pack_path, ": other bytes are read behind ", offset,
                                 " than it is known to have: it is damaged, or it is read wrong; ",
                                 "`kerf verify --read-data` looks again"));
}

class ParityMaker {
 public:
  ParityMaker(const std::string& pack_path, int pack_fd, const PackSums& pack_sums,
              const ParityHead& head, const ParityCode& code, const std::string& path, int fd,
              const std::function<bool()>& is_cancelled)
      : pack_path_(pack_path),
        pack_fd_(pack_fd),
        pack_sums_(pack_sums),
        head_(head),
        shape_(head_.shape),
        code_(code),
        path_(path),
        fd_(fd),
        is_cancelled_(is_cancelled),
        sums_(shape_.row_count()) {}

  absl::Status Make() {
    KERF_RETURN_IF_ERROR(ReadAll());
    const std::uint64_t row_sectors = std::uint64_t{kStripBytes} / shape_.data_count / kSectorBytes;
    const auto strip_groups =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(row_sectors, 1, shape_.group_count));
    for (std::uint32_t group = 0; group < shape_.group_count; group += strip_groups) {
      KERF_RETURN_IF_ERROR(CheckGoesOn());
      KERF_RETURN_IF_ERROR(EncodeGroups(group, std::min(strip_groups, shape_.group_count - group)));
    }
    return WriteRest();
  }

 private:
  absl::Status CheckGoesOn() const {
    return is_cancelled_ && is_cancelled_()
               ? absl::CancelledError(Cat(path_, ": it was interrupted"))
               : absl::OkStatus();
  }

  // In the order of the file, so that a disk need not seek.
  absl::Status ReadAll() {
    PackDigest digest;
    PageVector piece(kDigestPieceBytes);
    for (std::uint64_t at = 0; at < shape_.pack_bytes; at += kDigestPieceBytes) {
      KERF_RETURN_IF_ERROR(CheckGoesOn());
      const std::uint64_t size_bytes =
          std::min<std::uint64_t>(kDigestPieceBytes, shape_.pack_bytes - at);
      const std::span<std::uint8_t> bytes = std::span(piece).first(size_bytes);
      KERF_RETURN_IF_ERROR(PReadExactly(pack_fd_, bytes, at, pack_path_));
      if (!pack_sums_.Match(at, bytes)) return OtherBytes(pack_path_, at);
      digest.Add(bytes);
      // The last sector may be part of one: zeros behind it.
      std::fill(piece.begin() + static_cast<std::ptrdiff_t>(size_bytes), piece.end(),
                std::uint8_t{0});
      for (std::uint64_t offset = 0; offset < size_bytes; offset += kSectorBytes) {
        sums_[(at + offset) / kSectorBytes] =
            SectorSum(std::span(piece).subspan(offset, kSectorBytes));
      }
    }
    head_.pack_digest = digest.value();
    return absl::OkStatus();
  }

  // The sectors of groups one behind the other, in one row of the pack; zeros behind its end.
  absl::Status ReadRow(std::uint64_t first_sector, std::span<std::uint8_t> row) const {
    const std::uint64_t offset = first_sector * kSectorBytes;
    const std::uint64_t left_bytes = shape_.pack_bytes - std::min(shape_.pack_bytes, offset);
    const std::span<std::uint8_t> bytes =
        row.first(std::min<std::uint64_t>(row.size(), left_bytes));
    std::fill(row.begin() + static_cast<std::ptrdiff_t>(bytes.size()), row.end(), std::uint8_t{0});
    if (bytes.empty()) return absl::OkStatus();
    KERF_RETURN_IF_ERROR(PReadExactly(pack_fd_, bytes, offset, pack_path_));
    for (std::uint64_t at = 0; at < bytes.size(); at += kSectorBytes) {
      if (SectorSum(row.subspan(at, kSectorBytes)) == sums_[first_sector + at / kSectorBytes]) {
        continue;
      }
      return absl::DataLossError(Cat(pack_path_, ": it was not the same when it was read again"));
    }
    return absl::OkStatus();
  }

  absl::Status EncodeGroups(std::uint32_t first_group, std::uint32_t count) {
    const std::size_t row_bytes = count * kSectorBytes;
    const std::uint32_t sector_count = shape_.data_count + shape_.parity_count;
    strip_.resize(sector_count * row_bytes);
    std::vector<std::uint8_t*> rows;
    rows.reserve(sector_count);
    for (std::uint32_t row = 0; row < sector_count; ++row) {
      rows.push_back(strip_.data() + row * row_bytes);
    }
    const auto first_of = [&](std::uint32_t row) {
      return std::uint64_t{row} * shape_.group_count + first_group;
    };
    for (std::uint32_t row = 0; row < shape_.data_count; ++row) {
      KERF_RETURN_IF_ERROR(ReadRow(first_of(row), {rows[row], row_bytes}));
    }
    const std::span<std::uint8_t* const> all(rows);
    code_.Encode(all.first(shape_.data_count), all.last(shape_.parity_count), row_bytes);
    for (std::uint32_t row = 0; row < shape_.parity_count; ++row) {
      const std::span<const std::uint8_t> parity(rows[shape_.data_count + row], row_bytes);
      const std::uint64_t index = first_of(row);
      for (std::uint32_t sector = 0; sector < count; ++sector) {
        sums_[shape_.sector_count() + index + sector] =
            SectorSum(parity.subspan(sector * kSectorBytes, kSectorBytes));
      }
      KERF_RETURN_IF_ERROR(PWriteExactly(fd_, parity, shape_.parity_sector_offset(index), path_));
    }
    return absl::OkStatus();
  }

  std::vector<std::uint8_t> EncodeTable() const {
    std::vector<std::uint8_t> table;
    table.reserve(shape_.table_bytes());
    for (std::uint64_t first = 0; first < sums_.size(); first += kPageRows) {
      const std::size_t page_begin = table.size();
      const std::uint64_t end = std::min<std::uint64_t>(first + kPageRows, sums_.size());
      for (std::uint64_t row = first; row < end; ++row) AppendLittleEndian(table, sums_[row]);
      AppendLittleEndian(table, SectorSum(std::span(table).subspan(page_begin)));
    }
    return table;
  }

  absl::Status WriteRest() const {
    const auto head = EncodeParityHead(head_);
    std::vector<std::uint8_t> front(head.begin(), head.end());
    std::vector<std::uint8_t> back = EncodeTable();
    front.insert(front.end(), back.begin(), back.end());
    front.resize(shape_.parity_offset());
    back.insert(back.end(), head.begin(), head.end());
    KERF_RETURN_IF_ERROR(PWriteExactly(fd_, front, 0, path_));
    return PWriteExactly(fd_, back, shape_.second_table_offset(), path_);
  }

  const std::string& pack_path_;
  const int pack_fd_;
  const PackSums& pack_sums_;
  ParityHead head_;
  const ParityShape shape_;
  const ParityCode& code_;
  const std::string& path_;
  const int fd_;
  const std::function<bool()>& is_cancelled_;
  // The table's rows.
  std::vector<std::uint64_t> sums_;
  // Of the groups that are encoded; the same memory for all.
  PageVector strip_;
};

absl::Status Publish(const std::string& temporary, const std::string& path) {
  const std::string folder = DirectoryOf(path);
  KERF_RETURN_IF_ERROR(MakeDirectory(folder));
  // Also if it was there: whoever made it may not have come to this yet.
  KERF_RETURN_IF_ERROR(SyncDirectory(DirectoryOf(folder)));
  return PublishFile(temporary, path);
}

}  // namespace

absl::Status MakeParity(const std::string& pack_path, const PackId& id, const PackSums& sums,
                        unsigned percent, const std::function<bool()>& is_cancelled) {
  KERF_ASSIGN_OR_RETURN(const UniqueFd pack, OpenRegularFile(pack_path));
  struct stat info{};
  if (fstat(pack.get(), &info) != 0) return ErrnoStatus(errno, pack_path);
  const auto pack_bytes = static_cast<std::uint64_t>(info.st_size);
  if (pack_bytes == 0 || pack_bytes > kMaxParityPackBytes) {
    return absl::DataLossError(Cat(pack_path, ": no pack has ", pack_bytes, " bytes"));
  }
  if (pack_bytes < sums.end()) return OtherBytes(pack_path, pack_bytes);
  ParityHead head;
  head.pack = id;
  head.shape = ShapeFor(pack_bytes, percent);
  KERF_ASSIGN_OR_RETURN(const ParityCode code,
                        ParityCode::Make(head.shape.data_count, head.shape.parity_count));
  const std::string path = ParityPathOf(pack_path);
  const std::string store_directory = DirectoryOf(DirectoryOf(DirectoryOf(path)));
  const std::string temporary = Cat(store_directory, "/tmp/", RandomHex(), kParitySuffix);
  KERF_ASSIGN_OR_RETURN(const UniqueFd fd, CreateNewFile(temporary));
  absl::Status status =
      ParityMaker(pack_path, pack.get(), sums, head, code, temporary, fd.get(), is_cancelled)
          .Make();
  if (status.ok()) status = SyncFile(fd.get(), temporary);
  if (status.ok()) status = Publish(temporary, path);
  if (!status.ok()) RemoveFile(temporary).IgnoreError();
  return status;
}

}  // namespace kerf::agent
