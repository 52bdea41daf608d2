// Many chunks for the server's index, in calls of a size that it takes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/index/readable_index.h"
#include "client/store/packs/chunk_index.h"

namespace kerf::agent {

// Collects chunks for one kind of call on the index.
class IndexBatch {
 public:
  using Send = std::function<absl::Status(std::span<const StoredChunk>)>;
  explicit IndexBatch(Send send) : send_(std::move(send)) {}

  absl::Status Add(StoredChunk chunk) {
    chunks_.push_back(std::move(chunk));
    return chunks_.size() < kMaxIndexBatch ? absl::OkStatus() : Flush();
  }
  // All chunks of the pack, where it has them.
  absl::Status AddPack(const KnownPack& pack) {
    const std::vector<PackChunk>& chunks = pack.footer.chunks;
    for (std::uint32_t index = 0; index < chunks.size(); ++index) {
      KERF_RETURN_IF_ERROR(
          Add({chunks[index].digest, chunks[index].length_bytes, EncodeLocator(pack.id, index)}));
    }
    return absl::OkStatus();
  }
  absl::Status Flush() {
    if (chunks_.empty()) return absl::OkStatus();
    KERF_RETURN_IF_ERROR(send_(chunks_));
    chunks_.clear();
    return absl::OkStatus();
  }

 private:
  Send send_;
  std::vector<StoredChunk> chunks_;
};

}  // namespace kerf::agent
