// Size lists of many chunks (kernels/rapid/size_list.h): what a worker knows of successors that no
// segment tells, as in files that are too short for segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernels/rapid/size_list.h"

namespace kerf {

// A table of fixed size, made when it is first written to: a chunk's place is overwritten by the
// next one that belongs there. Thread-safe.
class SizeTable {
 public:
  // Lists of up to `max_sizes` (0: none are kept; SizeList::kMaxSizes at most).
  SizeTable(std::size_t capacity_bytes, std::size_t max_sizes);

  // `next` has followed the chunk with this key.
  void Hit(std::uint64_t key, NextSize next);
  // Empty if nothing is known.
  SizeList Find(std::uint64_t key);
  std::size_t memory_bytes();

 private:
  struct Entry {
    std::uint64_t key = 0;
    SizeList list;
  };

  const std::size_t capacity_;
  const std::size_t max_sizes_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace kerf
