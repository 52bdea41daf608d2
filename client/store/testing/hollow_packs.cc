#include "client/store/testing/hollow_packs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/unique_fd.h"
#include "client/store/format/durable_file.h"
#include "client/store/packs/known_pack.h"

namespace kerf::agent {
namespace {

constexpr std::uint32_t kBlockChunks = 128;

void Write(int fd, std::span<const std::uint8_t> bytes, std::uint64_t offset) {
  KERF_CHECK(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
             static_cast<ssize_t>(bytes.size()));
}

}  // namespace

ChunkRef HollowChunk(std::uint64_t number) {
  ChunkRef chunk;
  Random(number).Fill(chunk.digest.bytes);
  chunk.length_bytes = kHollowChunkBytes;
  return chunk;
}

void WriteHollowPack(const std::string& packs_directory, const PackId& id,
                     std::uint64_t first_number, std::uint32_t chunk_count) {
  PackFooter footer;
  std::uint64_t offset = kPackHeaderBytes;
  for (std::uint32_t index = 0; index < chunk_count; ++index) {
    if (index % kBlockChunks == 0) {
      const std::uint32_t count = std::min(kBlockChunks, chunk_count - index);
      const std::uint32_t bytes = count * kHollowChunkBytes;
      footer.blocks.push_back({offset, bytes, bytes, false});
      offset += bytes;
    }
    footer.chunks.push_back({HollowChunk(first_number + index).digest, index / kBlockChunks,
                             index % kBlockChunks * kHollowChunkBytes, kHollowChunkBytes});
  }
  const std::string path = PackPathIn(packs_directory, id);
  std::filesystem::create_directories(DirectoryOf(path));
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  KERF_CHECK(fd.valid());
  Write(fd.get(), EncodePackHeader(id), 0);
  Write(fd.get(), EncodePackEnd(footer, offset), offset);
}

void WriteHollowPacks(const std::string& packs_directory, std::uint64_t seed,
                      std::uint64_t chunk_count) {
  Random random(seed);
  for (std::uint64_t number = 0; number < chunk_count; number += kHollowPackChunks) {
    PackId id;
    random.Fill(id.bytes);
    const std::uint64_t left = chunk_count - number;
    WriteHollowPack(packs_directory, id, number,
                    static_cast<std::uint32_t>(std::min<std::uint64_t>(left, kHollowPackChunks)));
  }
}

}  // namespace kerf::agent
