// What the warps of a GPU would issue for a launch: threads run one after another here, and what
// they have done between two barriers is put side by side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "kernels/cuda/ptx/kernels.h"

namespace kerf::cuda::ptx {

inline constexpr std::uint32_t kWarpThreads = 32;

struct WarpCounts {
  // Instructions of PTX that warps have issued: once for all lanes that are at the same place, also
  // where a predicate keeps a lane from it.
  std::uint64_t issued = 0;
  // Of these, how many lanes were there: 32 each at most.
  std::uint64_t lanes = 0;
  // What lanes have loaded from the device's memory and stored there; an atomic does both.
  std::uint64_t loaded_bytes = 0;
  std::uint64_t stored_bytes = 0;
};

// Of kernels that were translated with --counts. Not thread-safe.
//
// A warp is taken to run its lanes as far behind as they are first: of the blocks of instructions
// at which its lanes are, the one that stands first in the text is issued for all lanes that are
// there. So lanes that have parted meet where their ways do, and who leaves a loop early waits.
class WarpCounter {
 public:
  // What follows is of this kernel.
  void Begin(const Kernel& kernel, std::uint32_t thread_count);
  // A thread has come to that block of instructions.
  void Enter(std::uint32_t thread, std::uint32_t block) {
    ways_[thread].push_back(static_cast<std::uint16_t>(block));
  }
  void Loads(std::uint32_t size_bytes) { current_->loaded_bytes += size_bytes; }
  void Stores(std::uint32_t size_bytes) { current_->stored_bytes += size_bytes; }
  // All threads wait at a barrier, or have ended.
  void EndInterval();

  // By kernel, of all launches.
  const std::map<const Kernel*, WarpCounts>& counts() const { return counts_; }

 private:
  using Way = std::vector<std::uint16_t>;

  void CountWarp(std::span<const Way> ways);

  std::map<const Kernel*, WarpCounts> counts_;
  const Kernel* kernel_ = nullptr;
  WarpCounts* current_ = nullptr;
  // By thread: the blocks of instructions since the last barrier.
  std::vector<Way> ways_;
};

}  // namespace kerf::cuda::ptx
