// Where a chunk ends: the one question that every algorithm answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/profile.h"

namespace kerf {

// What a scan has seen behind the cut that it gave, so that the next ones read it at most a few
// times, whatever the data. For one who cuts a stream from its start to its end. Not thread-safe.
class CutAhead {
 public:
  virtual ~CutAhead() = default;

  // Chunker::NextCut of the same bytes. They are those of the last call, less what was passed, with
  // more behind them or not.
  virtual std::size_t NextCut(std::span<const std::uint8_t> bytes) = 0;

  // So many bytes at the front were cut off; it need not be what NextCut said.
  virtual void Pass(std::size_t length_bytes) = 0;

  // Other bytes follow.
  virtual void Forget() = 0;

  // It reads for several cuts at once now: nothing is cheaper than to ask it.
  virtual bool is_ahead() const = 0;

  // As much was read as for a cut after `cut_bytes` with so many bytes in sight, by another way.
  virtual void Charge(std::size_t seen_bytes, std::size_t cut_bytes) = 0;

  // Beside the object.
  virtual std::size_t memory_bytes() const = 0;
};

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

  // Null where NextCut after NextCut reads no byte many times. The chunker outlives it.
  virtual std::unique_ptr<CutAhead> MakeAhead() const { return nullptr; }
};

// The fastest implementation of a valid profile that this machine has, or the one that it was told
// to take (kernels/registry.h). All give the same cuts. Thread-safe.
std::unique_ptr<Chunker> MakeChunker(const Profile& profile);

}  // namespace kerf
