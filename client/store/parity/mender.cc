#include "client/store/parity/mender.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/read_pieces.h"
#include "client/store/parity/parity_setting.h"

namespace kerf::agent {

absl::StatusOr<Mender> Mender::Open(const std::string& pack_path, const PackId& id) {
  KERF_ASSIGN_OR_RETURN(ParityFile parity, ParityFile::Open(ParityPathOf(pack_path), id));
  KERF_ASSIGN_OR_RETURN(UniqueFd pack, OpenRegularFile(pack_path));
  KERF_ASSIGN_OR_RETURN(ParityCode code,
                        ParityCode::Make(parity.shape().data_count, parity.shape().parity_count));
  return Mender(pack_path, std::move(pack), std::move(parity), std::move(code));
}

// False if it is lost. Behind the end of the pack there are zeros.
bool Mender::ReadDataSector(std::uint64_t sector, std::span<std::uint8_t> bytes) const {
  const std::uint64_t offset = sector * kSectorBytes;
  const std::uint64_t left_bytes = parity_.shape().pack_bytes - offset;
  const auto stored = bytes.first(std::min<std::uint64_t>(bytes.size(), left_bytes));
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(stored.size()), bytes.end(),
            std::uint8_t{0});
  return PReadExactly(pack_.get(), stored, offset, pack_path_).ok() &&
         parity_.IsSector(sector, bytes);
}

absl::Status Mender::RecoverGroup(std::uint32_t group, Recovered& recovered) const {
  const ParityShape& shape = parity_.shape();
  std::vector<std::uint8_t> known(std::size_t{shape.data_count} * kSectorBytes);
  std::vector<std::uint32_t> sources;
  std::vector<std::uint8_t*> source_bytes;
  std::vector<std::uint32_t> lost;
  // The place where the next source is read to.
  const auto next = [&] {
    return std::span<std::uint8_t>(known).subspan(sources.size() * kSectorBytes, kSectorBytes);
  };
  const auto take = [&](std::uint32_t row) {
    source_bytes.push_back(next().data());
    sources.push_back(row);
  };
  for (std::uint32_t row = 0; row < shape.data_count; ++row) {
    const std::uint64_t sector = std::uint64_t{row} * shape.group_count + group;
    if (sector >= shape.sector_count()) {
      std::fill(next().begin(), next().end(), std::uint8_t{0});
      take(row);
    } else if (ReadDataSector(sector, next())) {
      take(row);
    } else {
      lost.push_back(row);
    }
  }
  for (std::uint32_t row = 0; row < shape.parity_count && sources.size() < shape.data_count;
       ++row) {
    const std::uint64_t index = std::uint64_t{row} * shape.group_count + group;
    if (parity_.ReadParitySector(index, next())) take(shape.data_count + row);
  }
  const auto too_much = [&] {
    return absl::DataLossError(Cat(pack_path_, ": of the ", shape.data_count,
                                   " sectors of a group ", lost.size(),
                                   " are lost, more than its parity can give back"));
  };
  if (sources.size() < shape.data_count) return too_much();
  std::vector<std::uint8_t*> out;
  for (const std::uint32_t row : lost) {
    std::vector<std::uint8_t>& bytes = recovered[std::uint64_t{row} * shape.group_count + group];
    bytes.resize(kSectorBytes);
    out.push_back(bytes.data());
  }
  return code_.Recover(sources, source_bytes, lost, out, kSectorBytes) ? absl::OkStatus()
                                                                       : too_much();
}

absl::StatusOr<std::vector<std::uint8_t>> Mender::Read(std::uint64_t offset,
                                                       std::uint64_t size_bytes) const {
  const ParityShape& shape = parity_.shape();
  if (offset > shape.pack_bytes || size_bytes > shape.pack_bytes - offset) {
    return absl::DataLossError(Cat(pack_path_, ": it had ", shape.pack_bytes,
                                   " bytes when its parity was made, and more are asked for"));
  }
  const std::uint64_t first = offset / kSectorBytes;
  const std::uint64_t end = (offset + size_bytes + kSectorBytes - 1) / kSectorBytes;
  // With zeros behind the pack's end.
  std::vector<std::uint8_t> sectors((end - first) * kSectorBytes);
  const std::uint64_t stored_bytes =
      std::min<std::uint64_t>(sectors.size(), shape.pack_bytes - first * kSectorBytes);
  // What cannot be read does not have its checksum.
  ReadPieces(pack_.get(), std::span(sectors).first(stored_bytes), first * kSectorBytes, pack_path_)
      .IgnoreError();
  const auto bytes_of = [&](std::uint64_t sector) {
    return std::span<std::uint8_t>(sectors).subspan((sector - first) * kSectorBytes, kSectorBytes);
  };
  Recovered recovered;
  std::vector<std::uint64_t> lost;
  for (std::uint64_t sector = first; sector < end; ++sector) {
    if (!parity_.IsSector(sector, bytes_of(sector))) lost.push_back(sector);
  }
  for (const std::uint64_t sector : lost) {
    if (!recovered.contains(sector)) {
      KERF_RETURN_IF_ERROR(
          RecoverGroup(static_cast<std::uint32_t>(sector % shape.group_count), recovered));
    }
    const auto found = recovered.find(sector);
    // It could be read the second time.
    if (found == recovered.end()) {
      if (ReadDataSector(sector, bytes_of(sector))) continue;
      return absl::DataLossError(Cat(pack_path_, ": it changes while it is read"));
    }
    std::copy(found->second.begin(), found->second.end(), bytes_of(sector).begin());
  }
  const std::uint64_t skipped_bytes = offset - first * kSectorBytes;
  sectors.erase(sectors.begin(), sectors.begin() + static_cast<std::ptrdiff_t>(skipped_bytes));
  sectors.resize(size_bytes);
  return sectors;
}

absl::Status Mender::ReadAll(
    const std::function<absl::Status(std::uint64_t offset, std::span<const std::uint8_t> bytes)>&
        sink) const {
  PackDigest digest;
  const std::uint64_t pack_bytes = parity_.shape().pack_bytes;
  for (std::uint64_t at = 0; at < pack_bytes; at += kDigestPieceBytes) {
    KERF_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> piece,
                          Read(at, std::min<std::uint64_t>(kDigestPieceBytes, pack_bytes - at)));
    digest.Add(piece);
    if (sink) KERF_RETURN_IF_ERROR(sink(at, piece));
  }
  if (digest.value() == parity_.head().pack_digest) return absl::OkStatus();
  return absl::DataLossError(
      Cat(pack_path_, ": its parity does not make of it what it was: it is damaged as well"));
}

absl::Status CheckMendable(const std::string& pack_path, const PackId& id) {
  KERF_ASSIGN_OR_RETURN(const Mender mender, Mender::Open(pack_path, id));
  return mender.ReadAll(nullptr);
}

}  // namespace kerf::agent
