// What a GPU has done, for whoever shows it.
#pragma once

#include <cstdint>

namespace kerf::cuda {

// Since it was opened.
struct GpuCounters {
  // That came back.
  std::uint64_t batch_count = 0;
  // Pieces of streams that it took, and their bytes.
  std::uint64_t piece_count = 0;
  std::uint64_t byte_count = 0;
  // Of those pieces: handed back to the CPU because the GPU gives them up, or because it was lost.
  std::uint64_t given_up_piece_count = 0;
  std::uint64_t lost_piece_count = 0;
  // Not taken: all batches were on their way.
  std::uint64_t refused_piece_count = 0;
  // Of the batches: cut by the CPU as well, and found to differ.
  std::uint64_t audited_batch_count = 0;
  std::uint64_t mismatch_count = 0;

  friend bool operator==(const GpuCounters&, const GpuCounters&) = default;
};

}  // namespace kerf::cuda
