// Cuts a stream that arrives in slices of any size: the cuts are those of the whole stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernels/chunker.h"

namespace kerf {

// One chunk of the stream.
struct StreamChunk {
  // Of the first byte, counted from the start of the stream.
  std::uint64_t offset_bytes = 0;
  std::span<const std::uint8_t> bytes;
};

// A contiguous buffer between who reads and who cuts. Bytes are written in place and move at most
// once more, and only when the buffer is full: the tail behind the last cut, always shorter than
// one chunk, goes to its front. Use:
//
//   while (a read into cutter.WritableSpan() gives n > 0 bytes) {
//     cutter.Commit(n);
//     while (std::optional<StreamChunk> chunk = cutter.Next()) Use(*chunk);
//   }
//   cutter.Finish();
//   while (std::optional<StreamChunk> chunk = cutter.Next()) Use(*chunk);
//
// Chunks stay valid until the next WritableSpan, Append or Reset, so that several may be gathered
// and hashed at once. Not thread-safe; one stream at a time.
class StreamCutter {
 public:
  // The buffer holds at least this and at least kChunksPerBuffer chunks of the largest size.
  static constexpr std::size_t kMinBufferBytes = 1u << 20;
  static constexpr std::size_t kChunksPerBuffer = 4;

  // What a cutter of that chunker takes, for a memory budget.
  static std::size_t BufferBytes(const Chunker& chunker);

  // `chunker` outlives the cutter. `buffer_bytes` is for who needs a larger or, in a test, a
  // smaller buffer than BufferBytes(chunker): at least 2 * max_chunk_bytes.
  explicit StreamCutter(const Chunker& chunker);
  StreamCutter(const Chunker& chunker, std::size_t buffer_bytes);

  StreamCutter(const StreamCutter&) = delete;
  StreamCutter& operator=(const StreamCutter&) = delete;

  // Room for the next bytes of the stream: at least `min_bytes`, which is at most max_chunk_bytes,
  // usually far more. Invalidates chunks. Every chunk that Next has to give must have been taken,
  // and Finish not been called.
  std::span<std::uint8_t> WritableSpan(std::size_t min_bytes = 1);

  // The first `count` bytes of the last WritableSpan are now the stream's.
  void Commit(std::size_t count);

  // Copies as much of `bytes` as there is room for (at least one byte unless it is empty) and
  // returns how much that is. As WritableSpan and Commit.
  std::size_t Append(std::span<const std::uint8_t> bytes);

  // The stream ends here: what is left becomes the last chunks.
  void Finish() { finished_ = true; }

  // The next chunk whose end is certain; none when more bytes are needed, or after the last.
  std::optional<StreamChunk> Next();

  // Where the next chunk begins.
  std::uint64_t offset_bytes() const { return offset_bytes_; }

  // Committed and not yet given out.
  std::size_t pending_bytes() const { return end_ - begin_; }

  // Forgets everything: a new stream whose first byte has this offset.
  void Reset(std::uint64_t offset_bytes = 0);

 private:
  const Chunker& chunker_;
  const std::size_t max_chunk_bytes_;
  const std::size_t capacity_;
  // Not a vector: nobody reads bytes that nobody wrote, so they are not set to zero.
  std::unique_ptr<std::uint8_t[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_bytes_ = 0;
  bool finished_ = false;
};

}  // namespace kerf
