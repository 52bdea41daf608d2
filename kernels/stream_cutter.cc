#include "kernels/stream_cutter.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

StreamCutter::StreamCutter(const Chunker& chunker, std::size_t buffer_bytes, BufferSource* buffers)
    : chunker_(chunker),
      max_chunk_bytes_(chunker.max_chunk_bytes()),
      capacity_(buffer_bytes),
      buffers_(buffers),
      ahead_(chunker.MakeAhead()) {
  KERF_CHECK(buffer_bytes >= 2 * max_chunk_bytes_);
}

StreamCutter::~StreamCutter() { GiveBuffer(); }

std::span<std::uint8_t> StreamCutter::WritableSpan(std::size_t min_bytes) {
  KERF_CHECK(!finished_);
  KERF_CHECK(0 < min_bytes && min_bytes <= max_chunk_bytes_);
  // Next has given every chunk that it can: what is left fits in front of max_chunk_bytes_ more.
  KERF_CHECK(pending_bytes() < max_chunk_bytes_);
  Release();
  if (buffer_ == nullptr) TakeBuffer();
  if (begin_ == end_ || capacity_ - end_ < std::max(min_bytes, capacity_ / kLeastFreeShare)) {
    MovePending();
  }
  return {buffer_.get() + end_, capacity_ - end_};
}

void StreamCutter::Commit(std::size_t count) {
  KERF_CHECK(!finished_ && buffer_ != nullptr && count <= capacity_ - end_);
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

std::size_t StreamCutter::AppendBehind(std::span<const std::uint8_t> bytes) {
  const std::span<std::uint8_t> room = SpanBehind();
  const std::size_t count = std::min(bytes.size(), room.size());
  if (count > 0) std::memcpy(room.data(), bytes.data(), count);
  end_ += count;
  return count;
}

std::span<std::uint8_t> StreamCutter::SpanBehind() {
  KERF_CHECK(!finished_);
  if (buffer_ == nullptr) TakeBuffer();
  return {buffer_.get() + end_, capacity_ - end_};
}

std::optional<StreamChunk> StreamCutter::Next() {
  const std::size_t pending_count = pending_bytes();
  if (pending_count == 0 || (pending_count < max_chunk_bytes_ && !finished_)) return std::nullopt;
  const std::size_t length =
      ahead_ != nullptr ? ahead_->NextCut(pending()) : chunker_.NextCut(pending());
  KERF_CHECK(length <= max_chunk_bytes_);
  return Take(length);
}

StreamChunk StreamCutter::Take(std::size_t length_bytes) {
  KERF_CHECK(0 < length_bytes && length_bytes <= pending_bytes());
  const StreamChunk chunk{.offset_bytes = offset_bytes_, .bytes = pending().first(length_bytes)};
  begin_ += length_bytes;
  offset_bytes_ += length_bytes;
  if (ahead_ != nullptr) ahead_->Pass(length_bytes);
  has_lent_ = true;
  return chunk;
}

void StreamCutter::Abandon() {
  begin_ = end_;
  if (ahead_ != nullptr) ahead_->Forget();
}

void StreamCutter::Reset(std::uint64_t offset_bytes) {
  Release();
  Abandon();
  MovePending();
  Begin(offset_bytes);
}

void StreamCutter::Begin(std::uint64_t offset_bytes) {
  KERF_CHECK(begin_ == end_);
  offset_bytes_ = offset_bytes;
  finished_ = false;
  if (ahead_ != nullptr) ahead_->Forget();
}

void StreamCutter::Release() {
  has_lent_ = false;
  if (buffer_ != nullptr) DropParked();
}

void StreamCutter::Compact() {
  KERF_CHECK(!has_lent_);
  MovePending();
}

void StreamCutter::MovePending() {
  const std::size_t pending_count = pending_bytes();
  if (begin_ > 0 && pending_count > 0) std::memmove(base(), base() + begin_, pending_count);
  begin_ = 0;
  end_ = pending_count;
  if (end_ == 0) DropParked();
}

void StreamCutter::Park() {
  Compact();
  if (buffer_ == nullptr) return;
  if (end_ > 0) {
    parked_ = std::make_unique_for_overwrite<std::uint8_t[]>(end_);
    parked_bytes_ = end_;
    std::memcpy(parked_.get(), buffer_.get(), end_);
  }
  GiveBuffer();
}

// Chunks that were cut where they were parked stay there until they are released.
void StreamCutter::TakeBuffer() {
  buffer_ = buffers_ != nullptr ? buffers_->Take(capacity_)
                                // Nobody reads bytes that nobody wrote.
                                : std::make_unique_for_overwrite<std::uint8_t[]>(capacity_);
  if (end_ > 0) std::memcpy(buffer_.get(), parked_.get(), end_);
  if (!has_lent_) DropParked();
}

void StreamCutter::GiveBuffer() {
  if (buffer_ == nullptr) return;
  BufferSource::Buffer buffer = std::move(buffer_);
  if (buffers_ != nullptr) buffers_->Give(std::move(buffer), capacity_);
}

void StreamCutter::DropParked() {
  parked_.reset();
  parked_bytes_ = 0;
}

}  // namespace kerf
