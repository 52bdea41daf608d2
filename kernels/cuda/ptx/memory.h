// The device's memory as the machine knows it: which arrays there are, and who has touched what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/device/memory_watcher.h"
#include "kernels/cuda/ptx/findings.h"

namespace kerf::cuda::ptx {

// Counts what separates accesses: launches, blocks, barriers, copies. 0 is before all of them.
struct Clock {
  std::uint32_t now = 0;
  std::uint32_t Next();
};

// Who has touched a unit of memory last. All zero: nobody.
struct Cell {
  // By Clock.
  std::uint32_t write_time;
  std::uint32_t read_time;
  // Of the block that ran then.
  std::uint16_t write_thread;
  std::uint16_t read_thread;
  // Of the kernel that ran then.
  std::uint16_t write_site;
  // kSeveralReaders and so on, of machine.cc.
  std::uint8_t flags;
};
static_assert(sizeof(Cell) == 16);

// A unit is a word of 4 bytes, which most arrays are made of, or a byte.
inline constexpr unsigned kWordShift = 2;
inline constexpr unsigned kByteShift = 0;

// A cell for each unit; the system makes what is touched.
class Cells {
 public:
  Cells() = default;
  Cells(std::size_t size_bytes, unsigned unit_shift);

  unsigned unit_shift() const { return unit_shift_; }
  Cell* Of(std::uint64_t offset) const { return cells_.get() + (offset >> unit_shift_); }
  // How many the bytes at `offset` have, which do not reach over a word's end unless they are
  // words.
  std::size_t CountOf(std::size_t size_bytes) const {
    return size_bytes >> unit_shift_ == 0 ? 1 : size_bytes >> unit_shift_;
  }

 private:
  struct Free {
    void operator()(Cell* cells) const { std::free(cells); }
  };
  std::unique_ptr<Cell[], Free> cells_;
  unsigned unit_shift_ = kWordShift;
};

struct Array {
  std::uint64_t begin;
  std::uint64_t end;
  Cells cells;
  // Its first bytes that the host has copied, last.
  std::uint64_t copied_bytes = 0;
  // What kernels have written before the last copy into its group is of the batch before.
  std::uint32_t group;
  // The first one that was taken is 0.
  std::uint32_t number;
};

// Not thread-safe.
class Memory final : public MemoryWatcher {
 public:
  explicit Memory(Findings& findings) : findings_(findings) {}

  // Arrays that were allocated together, whose contents belong together.
  void Taken(std::span<const std::span<std::uint8_t>> arrays) override;
  void CopiedIn(std::span<const std::uint8_t> bytes) override;
  void CopiedOut(std::span<const std::uint8_t> bytes) override;

  Clock& clock() { return clock_; }
  // The array that has all of these bytes; null: none has.
  Array* Find(std::uint64_t address, std::size_t size_bytes) const;
  // When the group's memory came to be of the batch that it is of.
  std::uint32_t BatchTime(const Array& array) const { return batch_times_[array.group]; }
  // Calls visit(array, offset, bytes), by the array's number, for each word, or byte where bytes
  // are written, that kernels have left there for the batch that it is of.
  using VisitWritten = std::function<void(std::uint32_t array, std::uint64_t offset,
                                          std::span<const std::uint8_t> bytes)>;
  void ForEachWritten(const VisitWritten& visit) const;
  // Of all that: the same in each process, for the same launches in the same order.
  std::uint64_t HashOfWritten() const;
  // Before the first store of less than a word. Who has read it in this launch is forgotten.
  static void CountBytes(Array& array);

 private:
  Findings& findings_;
  Clock clock_;
  // In ascending order.
  std::vector<std::unique_ptr<Array>> arrays_;
  // By group.
  std::vector<std::uint32_t> batch_times_;
};

}  // namespace kerf::cuda::ptx
