#include "client/store/packs/block.h"

#include <zstd.h>

#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/parity/mender.h"

namespace kerf::agent {

absl::StatusOr<std::vector<std::uint8_t>> DecodeBlock(const PackBlock& block,
                                                      std::vector<std::uint8_t> stored) {
  if (!block.compressed) {
    if (stored.size() == block.raw_bytes) return stored;
    return absl::DataLossError("it has another length than the footer says");
  }
  // Before memory is taken for what a damaged footer may claim.
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != block.raw_bytes) {
    return absl::DataLossError("it is no zstd frame of the length that the footer says");
  }
  std::vector<std::uint8_t> raw(block.raw_bytes);
  const std::size_t count = ZSTD_decompress(raw.data(), raw.size(), stored.data(), stored.size());
  if (ZSTD_isError(count) != 0) return absl::DataLossError(ZSTD_getErrorName(count));
  if (count != raw.size()) return absl::DataLossError("it is shorter than the footer says");
  return raw;
}

absl::StatusOr<std::vector<std::uint8_t>> ReadBlock(int fd, const std::string& path,
                                                    const PackBlock& block, PackSums* sums) {
  std::vector<std::uint8_t> stored(block.stored_bytes);
  KERF_RETURN_IF_ERROR(PReadExactly(fd, stored, block.offset, path));
  if (sums != nullptr) sums->Add(block.offset, stored);
  absl::StatusOr<std::vector<std::uint8_t>> raw = DecodeBlock(block, std::move(stored));
  if (!raw.ok()) {
    return Annotate(raw.status(), Cat(path, ": the block at ", block.offset, " is damaged"));
  }
  return raw;
}

absl::StatusOr<std::vector<std::uint8_t>> ReadBlockWithParity(const std::string& path,
                                                              const PackId& id,
                                                              const PackBlock& block) {
  KERF_ASSIGN_OR_RETURN(const Mender mender, Mender::Open(path, id));
  KERF_ASSIGN_OR_RETURN(std::vector<std::uint8_t> stored,
                        mender.Read(block.offset, block.stored_bytes));
  absl::StatusOr<std::vector<std::uint8_t>> raw = DecodeBlock(block, std::move(stored));
  if (raw.ok()) return raw;
  return Annotate(raw.status(), Cat(path, ": the block at ", block.offset,
                                    " was damaged before its parity was made"));
}

}  // namespace kerf::agent
