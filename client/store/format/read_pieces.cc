#include "client/store/format/read_pieces.h"

#include <algorithm>

#include "client/store/format/durable_file.h"

namespace kerf::agent {

absl::Status ReadPieces(int fd, std::span<std::uint8_t> bytes, std::uint64_t offset,
                        const std::string& path) {
  if (PReadExactly(fd, bytes, offset, path).ok()) return absl::OkStatus();
  absl::Status failure;
  for (std::uint64_t at = 0; at < bytes.size(); at += kPieceBytes) {
    const std::span<std::uint8_t> piece =
        bytes.subspan(at, std::min<std::uint64_t>(kPieceBytes, bytes.size() - at));
    const absl::Status status = PReadExactly(fd, piece, offset + at, path);
    if (status.ok()) continue;
    std::fill(piece.begin(), piece.end(), std::uint8_t{0});
    if (failure.ok()) failure = status;
  }
  return failure;
}

}  // namespace kerf::agent
