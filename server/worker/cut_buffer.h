// Where the bytes of a stream's files lie while they are cut and hashed: one buffer for all files,
// so that a file of a few bytes costs a few bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/chunker.h"
#include "kernels/fingerprint/xxh3.h"
#include "server/session/frame.h"
#include "server/session/session.h"
#include "server/worker/memory_budget.h"

namespace kerf {

// A chunk that was cut and not yet answered.
struct CutChunk {
  std::uint64_t file_number = 0;
  std::uint64_t end_offset = 0;
  // Valid until the next CutBuffer::Compact or Park.
  Bytes bytes;
};

// Not thread-safe. The buffer comes with Append and goes with Park.
class CutBuffer {
 public:
  // `capacity_bytes` is at least twice the chunker's longest chunk.
  CutBuffer(const Chunker* chunker, std::size_t capacity_bytes, BufferPool* pool);
  CutBuffer(const CutBuffer&) = delete;
  CutBuffer& operator=(const CutBuffer&) = delete;
  ~CutBuffer();

  void BeginFile(std::uint64_t file_number, std::uint64_t start_offset);

  // Copies a prefix of `bytes` behind the file's data and returns its length, 0 if the buffer is
  // full: then Cut, answer the chunks, and Compact. This is the one copy between the transport's
  // slices and the kernels.
  std::size_t Append(Bytes bytes);

  // Cuts what is certain: as long as the longest chunk fits before the end of what has arrived.
  void Cut();

  // Cuts the rest of the file. Returns the hash of all that was appended since BeginFile.
  ContentHash EndFile();

  // Forgets the rest of the file.
  void AbandonFile();

  std::span<const CutChunk> chunks() const { return chunks_; }
  // The chunks are answered.
  void ClearChunks();

  // Moves the uncut rest to the front. Only without unanswered chunks.
  void Compact();

  // Gives the buffer back and keeps only the uncut rest, which is shorter than one chunk; only
  // without unanswered chunks. The next Append takes a buffer again.
  void Park();

  std::size_t capacity_bytes() const { return capacity_bytes_; }
  // Held now; while it is cut, that is capacity_bytes.
  std::size_t memory_bytes() const { return buffer_ != nullptr ? capacity_bytes_ : end_; }
  std::size_t uncut_bytes() const { return end_ - uncut_; }

 private:
  void CutOne(std::size_t window_bytes);
  void HashUpToEnd();
  void TakeBuffer();
  std::uint8_t* base() const { return buffer_ != nullptr ? buffer_.get() : parked_.get(); }

  const Chunker* const chunker_;
  const std::size_t max_chunk_bytes_;
  const std::size_t capacity_bytes_;
  BufferPool* const pool_;
  BufferPool::Buffer buffer_;
  // The uncut rest while there is no buffer; end_ bytes.
  std::unique_ptr<std::uint8_t[]> parked_;
  // Positions in the buffer: cut and hashed up to here, filled up to there.
  std::size_t uncut_ = 0;
  std::size_t unhashed_ = 0;
  std::size_t end_ = 0;

  std::uint64_t file_number_ = 0;
  // In the file, of the byte at uncut_.
  std::uint64_t uncut_offset_ = 0;
  // Whether hash_ holds a part of the file; a file that lies whole in the buffer needs no state.
  bool hash_begun_ = false;
  std::unique_ptr<Xxh3Stream> hash_;
  std::vector<CutChunk> chunks_;
};

}  // namespace kerf
