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
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

absl::Status CheckPack(const std::string& path, const PackId& id) {
  KERF_ASSIGN_OR_RETURN(const KnownPack pack, ReadPackFooter(path, id));
  if (!pack.flaw.empty()) return absl::DataLossError(Cat(path, ": ", pack.flaw));
  KERF_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(path));
  std::optional<std::uint32_t> block_index;
  std::vector<std::uint8_t> raw;
  for (const PackChunk& chunk : pack.footer.chunks) {
    if (block_index != chunk.block_index) {
      block_index = chunk.block_index;
      KERF_ASSIGN_OR_RETURN(raw, ReadBlock(fd.get(), path, pack.footer.blocks[*block_index]));
    }
    const auto bytes = std::span(raw).subspan(chunk.offset_in_block, chunk.length_bytes);
    if (Fingerprint(pack.footer.digest_algorithm, bytes) == chunk.digest) continue;
    return absl::DataLossError(Cat(
        path, ": chunk ", DigestToHex(chunk.digest, DigestSizeBytes(pack.footer.digest_algorithm)),
        " in block ", chunk.block_index, " is damaged"));
  }
  return absl::OkStatus();
}

}  // namespace kerf::agent
