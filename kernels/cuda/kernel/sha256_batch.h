// The SHA-256 digests of a batch's chunks: which kernels run, in which order, and the memory that
// they need.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/digest_words.h"
#include "kernels/cuda/kernel/sha256_chunks.h"
#include "kernels/cuda/kernel/sha256_order.h"

namespace kerf::cuda {

// What the kernels work in, for so many chunks: as many as the batch has, or as it may have, if
// the host does not know the number.
struct Sha256WorkspaceSize {
  std::size_t count_count;
  std::size_t order_count;
  // The number of the next group of chunks.
  static constexpr std::size_t kNextGroupCount = 1;

  constexpr explicit Sha256WorkspaceSize(std::size_t chunk_count)
      : count_count(OrderCountCount(chunk_count)), order_count(chunk_count) {}

  constexpr std::size_t Bytes() const {
    return (count_count + order_count + kNextGroupCount) * sizeof(std::uint32_t);
  }
};

struct Sha256Workspace {
  std::uint32_t* counts;
  std::uint32_t* order;
  std::uint32_t* next_group;
};

// take.operator()<T>(count) is called for each array, in one order. No array needs to be set to
// anything.
template <class Take>
constexpr Sha256Workspace TakeSha256Workspace(const Sha256WorkspaceSize& size, Take& take) {
  Sha256Workspace workspace{};
  workspace.counts = take.template operator()<std::uint32_t>(size.count_count);
  workspace.order = take.template operator()<std::uint32_t>(size.order_count);
  workspace.next_group =
      take.template operator()<std::uint32_t>(Sha256WorkspaceSize::kNextGroupCount);
  return workspace;
}

struct Sha256Batch {
  // The batch, as batch.h has it.
  const std::uint8_t* bytes;
  // Device memory: the number of chunks may be the result of the kernel before. They may overlap.
  const Chunk* chunks;
  const std::uint32_t* chunk_count;
  Sha256Workspace workspace;
  // One a chunk, in the order of the chunks.
  DigestWords* digests;
};

// Queues the kernels: launcher.Launch<Kernel>(args) for each, in order.
template <class Launcher>
void LaunchSha256(const Sha256Batch& batch, Launcher& launcher) {
  const Sha256Workspace& workspace = batch.workspace;
  launcher.template Launch<OrderCounts>({batch.chunks, batch.chunk_count, workspace.counts});
  launcher.template Launch<OrderPlaces>(
      {batch.chunks, batch.chunk_count, workspace.counts, workspace.order, workspace.next_group});
  launcher.template Launch<Sha256Chunks>({batch.bytes, batch.chunks, batch.chunk_count,
                                          workspace.order, workspace.next_group, batch.digests});
}

}  // namespace kerf::cuda
