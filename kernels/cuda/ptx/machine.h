// Runs kernels that were translated from PTX (kernels.h), thread by thread to the next barrier, and
// looks at every access: what a GPU would do in silence is a finding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/ptx/findings.h"
#include "kernels/cuda/ptx/kernels.h"
#include "kernels/cuda/ptx/memory.h"
#include "kernels/cuda/ptx/warp_counter.h"

namespace kerf::cuda::ptx {

// Where a kernel's argument, and a block's shared memory, have their addresses; 0 is neither's.
inline constexpr std::uint64_t kParameterBase = 4096;
inline constexpr std::uint32_t kSharedBase = 4096;

struct Thread {
  std::uint32_t index = 0;
  // The barrier that it waits at, counted from 1, and the line of the PTX; 0: none.
  std::uint32_t resume_at = 0;
  std::uint32_t line = 0;
  // By Clock, when it fenced last, and when it was atomic in global memory, and where.
  std::uint32_t fence_time = 0;
  std::uint32_t atomic_time = 0;
  std::uint64_t atomic_place = 0;
  // What it needs again behind the barrier.
  std::uint64_t* kept = nullptr;
};

struct LaunchShape {
  std::uint32_t thread_count = 1;
  std::uint32_t block_count = 1;
  std::size_t shared_bytes = 0;
  // Of the order in which blocks, and threads between two barriers, run.
  std::uint64_t seed = 0;
};

enum class Atomic : std::uint8_t { kAdd, kMin, kMax, kInc, kOr };

// Not thread-safe. Blocks run one after another, so that an access is unordered only to those of
// its own barrier interval and to those of other blocks, unless an atomic between two fences hands
// on what another block has done (launch.cuh, IsLastBlock).
class Machine {
 public:
  Machine(Memory& memory, Findings& findings) : memory_(memory), findings_(findings) {}

  // `args` is the kernel's argument.
  void Run(const ModuleKernels& module, const Kernel& kernel, std::span<const std::uint8_t> args,
           const LaunchShape& shape);

  // Of kernels that were translated with mutants: which one is; 0: none. Numbers are by module.
  void set_mutant(const ModuleKernels* module, std::uint32_t number) {
    mutated_ = module;
    mutated_number_ = number;
  }

  // Of kernels that were translated with counts: what counts; null: nothing does.
  void set_counter(WarpCounter* counter) { counter_ = counter; }

  // How often the blocks of all launches so far have gone from one barrier to the next: what a
  // kernel that needs more rounds for the same answer has more of.
  std::uint64_t interval_count() const { return interval_count_; }

  // What follows is for kernels.
  std::uint32_t block() const { return block_; }
  std::uint32_t block_count() const { return shape_.block_count; }
  std::uint32_t thread_count() const { return shape_.thread_count; }
  std::uint32_t mutant() const { return mutant_; }
  // The address of a variable in shared memory that has a name.
  std::uint32_t StaticShared(std::uint32_t number) const { return 16 * (number + 1); }
  // To be asked in front of each jump back.
  bool IsEndless() { return --jumps_left_ == 0; }
  // Of kernels with counts: at each run of instructions, and of each access to the device's memory.
  void Enter(const Thread& thread, std::uint32_t block) {
    if (counter_ != nullptr) counter_->Enter(thread.index, block);
  }
  void Loads(std::uint32_t size_bytes) {
    if (counter_ != nullptr) counter_->Loads(size_bytes);
  }
  void Stores(std::uint32_t size_bytes) {
    if (counter_ != nullptr) counter_->Stores(size_bytes);
  }

  template <class T, std::size_t kCount>
  std::array<T, kCount> LoadParameter(Thread& thread, std::uint64_t address, std::uint32_t site) {
    return Bytes<T, kCount>(Parameter(thread, address, sizeof(T) * kCount, site));
  }
  template <class T, std::size_t kCount>
  std::array<T, kCount> LoadGlobal(Thread& thread, std::uint64_t address, std::uint32_t site) {
    return Bytes<T, kCount>(
        ReadGlobal(thread, address, sizeof(T) * kCount, site, false, kCount == 1 ? 0 : sizeof(T)));
  }
  template <class T, std::size_t kCount>
  std::array<T, kCount> LoadReadOnly(Thread& thread, std::uint64_t address, std::uint32_t site) {
    return Bytes<T, kCount>(ReadGlobal(thread, address, sizeof(T) * kCount, site, true, 0));
  }
  template <class T, std::size_t kCount>
  std::array<T, kCount> LoadShared(Thread& thread, std::uint32_t address, std::uint32_t site) {
    return Bytes<T, kCount>(
        ReadShared(thread, address, sizeof(T) * kCount, site, kCount == 1 ? 0 : sizeof(T)));
  }
  // Of the vector that LoadGlobal or LoadShared has loaded last: whether nobody has written that
  // part, which is a finding where it is used.
  bool IsUnwritten(unsigned part) const { return (unwritten_parts_ >> part & 1) != 0; }
  void UseUnwritten(const Thread& thread, std::uint32_t site);
  template <class T, std::size_t kCount>
  void StoreGlobal(Thread& thread, std::uint64_t address, const std::array<T, kCount>& values,
                   std::uint32_t site) {
    std::memcpy(WriteGlobal(thread, address, sizeof values, site), &values, sizeof values);
  }
  template <class T, std::size_t kCount>
  void StoreShared(Thread& thread, std::uint32_t address, const std::array<T, kCount>& values,
                   std::uint32_t site) {
    std::memcpy(WriteShared(thread, address, sizeof values, site), &values, sizeof values);
  }
  std::uint32_t AtomicGlobal(Thread& thread, std::uint64_t address, Atomic operation,
                             std::uint32_t value, std::uint32_t site);
  std::uint32_t AtomicShared(Thread& thread, std::uint32_t address, Atomic operation,
                             std::uint32_t value, std::uint32_t site);
  void Fence(Thread& thread);
  std::uint32_t Divide(const Thread& thread, std::uint32_t value, std::uint32_t by,
                       std::uint32_t site);

 private:
  enum class Access : std::uint8_t { kRead, kReadOnly, kWrite, kAtomic };
  // A block of the launch that has begun.
  struct Block {
    std::uint32_t number;
    std::uint32_t begin_time;
    // Up to when the one that runs now is known to be behind it; 0: not at all.
    std::uint32_t ordered_until;
  };
  // What a block that was atomic at a place behind a fence hands to who is next there.
  struct Release {
    std::size_t block;
    std::uint32_t until;
  };
  // What an access is about, for a finding.
  struct Place {
    const char* space;
    std::uint64_t offset;
    std::uint64_t array_bytes;
    // What was before has no part in it: the launch began then, or the block.
    std::uint32_t since;
  };

  template <class T, std::size_t kCount>
  static std::array<T, kCount> Bytes(const std::uint8_t* bytes) {
    std::array<T, kCount> values;
    std::memcpy(&values, bytes, sizeof values);
    return values;
  }

  const std::uint8_t* Parameter(const Thread& thread, std::uint64_t address, std::size_t size_bytes,
                                std::uint32_t site);
  const std::uint8_t* ReadGlobal(Thread& thread, std::uint64_t address, std::size_t size_bytes,
                                 std::uint32_t site, bool is_read_only, std::size_t part_bytes);
  const std::uint8_t* ReadShared(Thread& thread, std::uint32_t address, std::size_t size_bytes,
                                 std::uint32_t site, std::size_t part_bytes);
  std::uint8_t* WriteGlobal(Thread& thread, std::uint64_t address, std::size_t size_bytes,
                            std::uint32_t site);
  std::uint8_t* WriteShared(Thread& thread, std::uint32_t address, std::size_t size_bytes,
                            std::uint32_t site);

  // The array that an access is within; null: none, which is a finding.
  Array* ArrayOf(const Thread& thread, std::uint64_t address, std::size_t size_bytes,
                 std::uint32_t site);
  // So of shared memory: where its bytes and cells begin; kNowhere: nowhere.
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  std::size_t SharedOffset(const Thread& thread, std::uint32_t address, std::size_t size_bytes,
                           std::uint32_t site);
  Place SharedPlace(std::size_t offset) const {
    return {"shared memory", offset, shape_.shared_bytes, block_time_};
  }
  Place PlaceIn(const Array& array, std::uint64_t offset) const {
    return {"an array", offset, array.end - array.begin, launch_time_};
  }
  std::size_t FindShared(std::uint32_t address, std::size_t size_bytes) const;

  std::uint8_t* Elsewhere() {
    elsewhere_.fill(0);
    return elsewhere_.data();
  }
  // Of a cell that nobody has written. Of a vector, whose parts are not 0 bytes, it is noted.
  void FindUnwritten(const Thread& thread, std::uint32_t site, const Place& place,
                     std::size_t offset, std::size_t part_bytes);
  // Of each cell of an access.
  void Reads(Cell& cell, const Thread& thread, std::uint32_t site, Access access,
             const Place& place);
  void Writes(Cell& cell, const Thread& thread, std::uint32_t site, Access access,
              const Place& place);
  bool IsBehindWrite(const Cell& cell, const Thread& thread, const Place& place,
                     bool is_atomic) const;
  bool IsBehindRead(const Cell& cell, const Thread& thread, const Place& place) const;
  bool IsBehindBlockAt(std::uint32_t time) const;
  bool IsBehindAllBlocks() const;

  // Of Run.
  void RunBlock();
  Stop RunInterval(std::vector<Thread*>& waiting);
  void LookAtBarrier(const std::vector<Thread*>& waiting, std::size_t before);
  void Order(std::vector<Thread*>& threads);
  void TakeWhatOthersReleased();

  void Report(FindingKind kind, const Thread& thread, std::uint32_t site, const std::string& what);
  void ReportPlace(FindingKind kind, const Thread& thread, std::uint32_t site, const Place& place,
                   const std::string& what);
  std::string NameOfKernel() const;

  Memory& memory_;
  Findings& findings_;
  const ModuleKernels* mutated_ = nullptr;
  std::uint32_t mutated_number_ = 0;
  std::uint64_t interval_count_ = 0;
  WarpCounter* counter_ = nullptr;

  // Of the launch.
  const ModuleKernels* module_ = nullptr;
  const Kernel* kernel_ = nullptr;
  LaunchShape shape_;
  std::uint32_t mutant_ = 0;
  std::vector<std::uint64_t> parameter_;
  std::uint32_t launch_time_ = 0;
  std::vector<Block> blocks_;
  std::unordered_map<std::uint64_t, std::vector<Release>> releases_;
  Random random_{0};
  // By site: where its last access was.
  std::vector<Array*> array_of_site_;

  // Of the block.
  std::uint32_t block_ = 0;
  std::uint32_t block_time_ = 0;
  std::uint32_t now_ = 0;
  std::uint32_t jumps_left_ = 0;
  // A bit for each part of a vector.
  std::uint32_t unwritten_parts_ = 0;
  std::vector<std::uint8_t> shared_;
  Cells shared_cells_;
  std::size_t shared_cells_bytes_ = 0;
  std::vector<Thread> threads_;
  std::vector<std::uint64_t> kept_;
  // What threads have taken since the last barrier.
  std::vector<Release> taken_;
  // Where what is out of bounds is read from and written to.
  std::array<std::uint8_t, 16> elsewhere_{};
};

}  // namespace kerf::cuda::ptx
