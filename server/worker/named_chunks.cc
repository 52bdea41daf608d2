#include "server/worker/named_chunks.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kerf {

void NamedChunks::BeginFile(std::uint64_t file_number, std::uint64_t start_offset) {
  file_number_ = file_number;
  end_offset_ = start_offset;
  hash_.Reset();
}

std::size_t NamedChunks::Append(const v1::ChunkDigests& named, std::size_t first,
                                std::size_t max_count) {
  const std::size_t end =
      std::min(first + max_count, static_cast<std::size_t>(named.lengths_bytes_size()));
  for (std::size_t index = first; index < end; ++index) {
    Digest& digest = digests_.emplace_back();
    std::memcpy(digest.bytes.data(), named.digests().data() + index * digest_bytes_, digest_bytes_);
    const std::uint32_t length_bytes = named.lengths_bytes(static_cast<int>(index));
    hash_.Add(digest, digest_bytes_, length_bytes);
    end_offset_ += length_bytes;
    chunks_.push_back({file_number_, end_offset_, length_bytes});
  }
  return end - first;
}

std::vector<Digest> NamedChunks::TakeDigests() { return std::exchange(digests_, {}); }

void NamedChunks::Park() {
  chunks_ = {};
  digests_ = {};
}

}  // namespace kerf
