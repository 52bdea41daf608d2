#include "kernels/stream_cutter.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace kerf {
namespace {

// The tail is moved when less than this share of the buffer is free: reads stay large, and a byte
// is moved at most once for each fifteen sixteenths of a buffer.
constexpr std::size_t kLeastFreeShare = 16;

}  // namespace

std::size_t StreamCutter::BufferBytes(const Chunker& chunker) {
  return std::max(kMinBufferBytes, kChunksPerBuffer * chunker.max_chunk_bytes());
}

StreamCutter::StreamCutter(const Chunker& chunker) : StreamCutter(chunker, BufferBytes(chunker)) {}

StreamCutter::StreamCutter(const Chunker& chunker, std::size_t buffer_bytes)
    : chunker_(chunker),
      max_chunk_bytes_(chunker.max_chunk_bytes()),
      capacity_(buffer_bytes),
      buffer_(new std::uint8_t[buffer_bytes]) {
  KERF_CHECK(buffer_bytes >= 2 * max_chunk_bytes_);
}

std::span<std::uint8_t> StreamCutter::WritableSpan(std::size_t min_bytes) {
  KERF_CHECK(!finished_);
  KERF_CHECK(0 < min_bytes && min_bytes <= max_chunk_bytes_);
  // Next has given every chunk that it can: what is left fits in front of max_chunk_bytes_ more.
  KERF_CHECK(pending_bytes() < max_chunk_bytes_);
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (capacity_ - end_ < std::max(min_bytes, capacity_ / kLeastFreeShare)) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return {buffer_.get() + end_, capacity_ - end_};
}

void StreamCutter::Commit(std::size_t count) {
  KERF_CHECK(!finished_ && count <= capacity_ - end_);
  end_ += count;
}

std::size_t StreamCutter::Append(std::span<const std::uint8_t> bytes) {
  if (bytes.empty()) return 0;
  const std::span<std::uint8_t> room = WritableSpan();
  const std::size_t count = std::min(room.size(), bytes.size());
  std::memcpy(room.data(), bytes.data(), count);
  Commit(count);
  return count;
}

std::optional<StreamChunk> StreamCutter::Next() {
  const std::size_t pending = pending_bytes();
  if (pending == 0 || (pending < max_chunk_bytes_ && !finished_)) return std::nullopt;
  const std::span<const std::uint8_t> visible(buffer_.get() + begin_, pending);
  const std::size_t length = chunker_.NextCut(visible);
  KERF_CHECK(0 < length && length <= std::min(pending, max_chunk_bytes_));
  const StreamChunk chunk{.offset_bytes = offset_bytes_, .bytes = visible.first(length)};
  begin_ += length;
  offset_bytes_ += length;
  return chunk;
}

void StreamCutter::Reset(std::uint64_t offset_bytes) {
  begin_ = end_ = 0;
  offset_bytes_ = offset_bytes;
  finished_ = false;
}

}  // namespace kerf
