#include "client/store/packs/pack_check.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/packs/block.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/parity/parity_layout.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {
namespace {

// `sums` gets all that is read.
absl::Status Check(const std::string& path, const PackId& id, PackSums* sums) {
  KERF_ASSIGN_OR_RETURN(const KnownPack pack, ReadPackFooter(path, id, sums));
  if (!pack.flaw.empty()) return absl::DataLossError(Cat(path, ": ", pack.flaw));
  KERF_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path));
  std::optional<std::uint32_t> block_index;
  std::vector<std::uint8_t> raw;
  for (const PackChunk& chunk : pack.footer.chunks) {
    if (block_index != chunk.block_index) {
      block_index = chunk.block_index;
      KERF_ASSIGN_OR_RETURN(raw, ReadBlock(fd.get(), path, pack.footer.blocks[*block_index], sums));
    }
    const auto bytes = std::span(raw).subspan(chunk.offset_in_block, chunk.length_bytes);
    if (Fingerprint(pack.footer.digest_algorithm, bytes) == chunk.digest) continue;
    return absl::DataLossError(Cat(
        path, ": chunk ", DigestToHex(chunk.digest, DigestSizeBytes(pack.footer.digest_algorithm)),
        " in block ", chunk.block_index, " is damaged"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPack(const std::string& path, const PackId& id) {
  return Check(path, id, nullptr);
}

absl::StatusOr<PackSums> SumSoundPack(const std::string& path, const PackId& id) {
  PackSums sums;
  KERF_RETURN_IF_ERROR(Check(path, id, &sums));
  if (sums.end() > kMaxParityPackBytes) {
    return absl::DataLossError(Cat(path, ": no pack has ", sums.end(), " bytes"));
  }
  // Between blocks. Kerf leaves nothing there, readers do not mind it, and nothing can prove it.
  KERF_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path));
  std::vector<std::uint8_t> bytes;
  for (const PackSums::Range& gap : sums.Gaps()) {
    bytes.resize(gap.size_bytes);
    KERF_RETURN_IF_ERROR(PReadExactly(fd.get(), bytes, gap.offset, path));
    sums.Add(gap.offset, bytes);
  }
  return sums;
}

}  // namespace kerf::agent
