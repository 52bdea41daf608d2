// Where a chunk ends: the one question that every algorithm answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/profile.h"

namespace kerf {

// An algorithm with its parameters: a pure function from the bytes after a cut to the next cut. It
// has no state between calls, so every cut is a place to resume. Thread-safe.
class Chunker {
 public:
  virtual ~Chunker() = default;

  // `bytes` begins at the last cut (or the start of the file) and holds at least
  // max_chunk_bytes() bytes or all bytes up to the end of the file; it is not empty. Returns the
  // length of the chunk: at least 1, at most min(bytes.size(), max_chunk_bytes()). What lies behind
  // max_chunk_bytes() has no influence.
  virtual std::size_t NextCut(std::span<const std::uint8_t> bytes) const = 0;

  // The window that a caller must show.
  virtual std::size_t max_chunk_bytes() const = 0;
};

// The fastest implementation of a valid profile that this machine has, or the one that it was told
// to take (kernels/registry.h). All give the same cuts. Thread-safe.
std::unique_ptr<Chunker> MakeChunker(const Profile& profile);

}  // namespace kerf
