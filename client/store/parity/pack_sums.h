// What the bytes of a pack are known to be, so that nothing is made of others.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// Checksums of a pack's bytes, of memory that they were written from, or that chunks' digests have
// proved. What a disk, or the way to it, gives later is held against them: reads may be wrong
// without an error. They are no defence against an enemy. Not thread-safe.
class PackSums {
 public:
  // The pack has these bytes at `offset`. In any order. Of what was added twice and differs nothing
  // matches.
  void Add(std::uint64_t offset, std::span<const std::uint8_t> bytes);
  void AddAll(const PackSums& others);

  // Behind the last byte that was added.
  std::uint64_t end() const { return end_; }

  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t size_bytes = 0;
  };
  // What was not added before end().
  std::vector<Range> Gaps() const;

  // True if all of these bytes are as they were added, which begin at `offset`, a multiple of
  // kDigestPieceBytes, and end kDigestPieceBytes behind it, or with the pack.
  bool Match(std::uint64_t offset, std::span<const std::uint8_t> bytes) const;

 private:
  struct Part {
    std::uint64_t size_bytes = 0;
    Digest sum;

    friend bool operator==(const Part&, const Part&) = default;
  };

  // By their offset. None lies in two pieces of kDigestPieceBytes.
  std::multimap<std::uint64_t, Part> parts_;
  std::uint64_t end_ = 0;
};

}  // namespace kerf::agent
