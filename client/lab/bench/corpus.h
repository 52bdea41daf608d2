// The bytes that a benchmark sends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kerf::bench {

// Pseudo-random bytes in segments, of which a given share is the same in every filling of one seed.
// Not thread-safe.
class Corpus {
 public:
  Corpus(std::uint64_t seed, std::uint64_t size_bytes);

  // New content. `duplicate_percent` of the segments, evenly spread, are those of every filling;
  // the others occur in no other one with another `filling` number.
  void Fill(std::uint64_t filling, std::uint32_t duplicate_percent);

  // The index-th of `count` parts that differ by one byte at most.
  std::span<const std::uint8_t> Part(std::size_t index, std::size_t count) const;

  static constexpr std::size_t kSegmentBytes = std::size_t{1} << 20;

 private:
  const std::uint64_t seed_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace kerf::bench
