#include "server/worker/cut_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace kerf {

CutBuffer::CutBuffer(const Chunker* chunker, std::size_t capacity_bytes, BufferPool* pool)
    : chunker_(chunker),
      max_chunk_bytes_(chunker->max_chunk_bytes()),
      capacity_bytes_(capacity_bytes),
      pool_(pool) {
  KERF_CHECK(capacity_bytes_ / 2 >= max_chunk_bytes_);
}

CutBuffer::~CutBuffer() {
  if (buffer_ != nullptr) pool_->Give(std::move(buffer_), capacity_bytes_);
}

void CutBuffer::BeginFile(std::uint64_t file_number, std::uint64_t start_offset) {
  KERF_CHECK(uncut_ == end_);
  file_number_ = file_number;
  uncut_offset_ = start_offset;
  unhashed_ = end_;
  hash_begun_ = false;
}

std::size_t CutBuffer::Append(Bytes bytes) {
  if (buffer_ == nullptr) TakeBuffer();
  const std::size_t count = std::min(bytes.size(), capacity_bytes_ - end_);
  if (count > 0) std::memcpy(buffer_.get() + end_, bytes.data(), count);
  end_ += count;
  return count;
}

void CutBuffer::CutOne(std::size_t window_bytes) {
  const Bytes window(base() + uncut_, window_bytes);
  const std::size_t length = chunker_->NextCut(window);
  KERF_CHECK(length > 0 && length <= window_bytes);
  uncut_ += length;
  uncut_offset_ += length;
  chunks_.push_back({file_number_, uncut_offset_, window.first(length)});
}

void CutBuffer::Cut() {
  while (end_ - uncut_ >= max_chunk_bytes_) CutOne(end_ - uncut_);
}

void CutBuffer::HashUpToEnd() {
  if (hash_ == nullptr) hash_ = std::make_unique<Xxh3Stream>();
  if (!std::exchange(hash_begun_, true)) hash_->Reset();
  if (end_ > unhashed_) hash_->Update({base() + unhashed_, end_ - unhashed_});
  unhashed_ = end_;
}

ContentHash CutBuffer::EndFile() {
  // A parked rest is cut where it is: the end of a file needs no buffer.
  while (uncut_ < end_) CutOne(end_ - uncut_);
  ContentHash result;
  if (hash_begun_) {
    HashUpToEnd();
    result = hash_->Digest();
  } else {
    result = Xxh3Of128(end_ == unhashed_ ? Bytes() : Bytes(base() + unhashed_, end_ - unhashed_));
  }
  unhashed_ = end_;
  return result;
}

void CutBuffer::AbandonFile() { uncut_ = unhashed_ = end_; }

void CutBuffer::ClearChunks() {
  chunks_.clear();
  if (buffer_ != nullptr) parked_.reset();
}

void CutBuffer::Compact() {
  KERF_CHECK(chunks_.empty());
  if (unhashed_ < end_) HashUpToEnd();
  const std::size_t rest = end_ - uncut_;
  if (uncut_ > 0 && rest > 0) std::memmove(base(), base() + uncut_, rest);
  uncut_ = 0;
  unhashed_ = end_ = rest;
  if (end_ == 0) parked_.reset();
}

void CutBuffer::Park() {
  Compact();
  if (buffer_ == nullptr) return;
  if (end_ > 0) {
    parked_ = std::make_unique_for_overwrite<std::uint8_t[]>(end_);
    std::memcpy(parked_.get(), buffer_.get(), end_);
  }
  pool_->Give(std::move(buffer_), capacity_bytes_);
}

// Chunks that were cut where they were parked stay there until they are answered.
void CutBuffer::TakeBuffer() {
  buffer_ = pool_->Take(capacity_bytes_);
  if (end_ > 0) std::memcpy(buffer_.get(), parked_.get(), end_);
  if (chunks_.empty()) parked_.reset();
}

}  // namespace kerf
