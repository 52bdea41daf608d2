// Cuts streams that arrive in slices of any size: the cuts are those of each whole stream.
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

// Where cutters have their buffers from.
class BufferSource {
 public:
  using Buffer = std::unique_ptr<std::uint8_t[]>;

  virtual ~BufferSource() = default;

  // `bytes` of uninitialised memory.
  virtual Buffer Take(std::size_t bytes) = 0;
  virtual void Give(Buffer buffer, std::size_t bytes) = 0;
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
// and hashed at once. Who gathers them longer, over many slices and streams, as the server does for
// small files, uses AppendBehind, and when it is done with the chunks Release and Compact; one that
// waits for its next slice for long parks what is left (Park). Not thread-safe; one stream at a
// time.
class StreamCutter {
 public:
  // The buffer holds at least this and at least kChunksPerBuffer chunks of the largest size.
  static constexpr std::size_t kMinBufferBytes = 1u << 20;
  static constexpr std::size_t kChunksPerBuffer = 4;

  // What a cutter of that chunker takes, for a memory budget.
  static std::size_t BufferBytes(const Chunker& chunker);

  // `chunker` outlives the cutter. `buffer_bytes` is for who needs a larger or, in a test, a
  // smaller buffer than BufferBytes(chunker): at least 2 * max_chunk_bytes. It comes from
  // `buffers`, which outlives the cutter, with the first byte; null: from the heap.
  explicit StreamCutter(const Chunker& chunker);
  StreamCutter(const Chunker& chunker, std::size_t buffer_bytes, BufferSource* buffers = nullptr);

  StreamCutter(const StreamCutter&) = delete;
  StreamCutter& operator=(const StreamCutter&) = delete;
  ~StreamCutter();

  // Room for the next bytes of the stream: at least `min_bytes`, which is at most max_chunk_bytes,
  // usually far more. Invalidates chunks. Every chunk that Next has to give must have been taken,
  // and Finish not been called.
  std::span<std::uint8_t> WritableSpan(std::size_t min_bytes = 1);

  // The first `count` bytes of the last WritableSpan are now the stream's.
  void Commit(std::size_t count);

  // Copies as much of `bytes` as there is room for (at least one byte unless it is empty) and
  // returns how much that is. As WritableSpan and Commit.
  std::size_t Append(std::span<const std::uint8_t> bytes);

  // The same for who gathers chunks: copies behind what is there, and moves nothing. Returns 0 if
  // the buffer is full: Release and Compact make room once all is cut.
  std::size_t AppendBehind(std::span<const std::uint8_t> bytes);
  // As WritableSpan, for who appends behind: all the room that is left, which moves nothing. Commit
  // says how much of it is used.
  std::span<std::uint8_t> SpanBehind();

  // The stream ends here: what is left becomes the last chunks.
  void Finish() { finished_ = true; }

  // The next chunk whose end is certain; none when more bytes are needed, or after the last.
  std::optional<StreamChunk> Next();

  // The next chunk, of which somebody else knows the length: at most pending_bytes().
  StreamChunk Take(std::size_t length_bytes);

  // Where the next chunk begins.
  std::uint64_t offset_bytes() const { return offset_bytes_; }

  // Committed and not yet given out.
  std::size_t pending_bytes() const { return end_ - begin_; }
  std::span<const std::uint8_t> pending() const { return {base() + begin_, pending_bytes()}; }
  // Forgets it.
  void Abandon();

  // Forgets everything: a new stream whose first byte has this offset.
  void Reset(std::uint64_t offset_bytes = 0);
  // A new stream, with that offset, behind one of which nothing is pending; its chunks stay valid.
  void Begin(std::uint64_t offset_bytes);

  // Positions in the buffer, which stand for the same bytes until the next Compact, Park or
  // WritableSpan.
  std::size_t end_position() const { return end_; }
  std::span<const std::uint8_t> BytesFrom(std::size_t position) const {
    return {base() + position, end_ - position};
  }

  // The chunks given out so far are used no more.
  void Release();
  // Moves what is pending to the front. Only behind Release.
  void Compact();
  // The same, and gives the buffer back and keeps no more than what is pending and ahead_bytes().
  // It comes back with the next byte; to Finish needs none.
  void Park();

  std::size_t capacity_bytes() const { return capacity_; }
  // By what was seen behind the cuts; stays where the buffer is given back.
  std::size_t ahead_bytes() const { return ahead_ != nullptr ? ahead_->memory_bytes() : 0; }
  // Held now.
  std::size_t memory_bytes() const {
    return (buffer_ != nullptr ? capacity_ : 0) + parked_bytes_ + ahead_bytes();
  }
  // The same once it has a buffer: chunks that were cut where they were parked stay beside it until
  // they are released.
  std::size_t bytes_with_buffer() const {
    return capacity_ + (has_lent_ ? parked_bytes_ : 0) + ahead_bytes();
  }

 private:
  std::uint8_t* base() const { return buffer_ != nullptr ? buffer_.get() : parked_.get(); }
  void TakeBuffer();
  void GiveBuffer();
  void DropParked();
  void MovePending();

  const Chunker& chunker_;
  const std::size_t max_chunk_bytes_;
  const std::size_t capacity_;
  BufferSource* const buffers_;
  // Null where the chunker has none.
  const std::unique_ptr<CutAhead> ahead_;
  // Null until it is needed.
  BufferSource::Buffer buffer_;
  // What was pending while there was no buffer.
  std::unique_ptr<std::uint8_t[]> parked_;
  std::size_t parked_bytes_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_bytes_ = 0;
  bool finished_ = false;
  // Chunks were given out and not released.
  bool has_lent_ = false;
};

}  // namespace kerf
