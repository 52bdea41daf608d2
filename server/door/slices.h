// Bytes on their way from one socket to another: in blocks that several slices share, so that what
// was read is what is written, without a copy.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace kerf::door {

class BlockPool;

// Some memory with a count of those who use it. All of it is of one thread.
struct Block {
  std::unique_ptr<std::uint8_t[]> bytes;
  std::size_t capacity_bytes = 0;
  // From the beginning; what is behind nobody has seen yet.
  std::size_t used_bytes = 0;
  std::size_t user_count = 0;
  BlockPool* pool = nullptr;
};

// One of those who use a block.
class BlockRef {
 public:
  BlockRef() = default;
  explicit BlockRef(Block* block) : block_(block) { ++block_->user_count; }
  BlockRef(const BlockRef& other) : block_(other.block_) {
    if (block_ != nullptr) ++block_->user_count;
  }
  BlockRef(BlockRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BlockRef& operator=(BlockRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockRef();

  Block* get() const { return block_; }
  Block* operator->() const { return block_; }
  bool is_alone() const { return block_ != nullptr && block_->user_count == 1; }

 private:
  Block* block_ = nullptr;
};

// Where blocks come from and go back to; keeps a few of each size. Not thread-safe; outlives all
// its blocks.
class BlockPool {
 public:
  // What is read at once, at most.
  static constexpr std::size_t kReadBytes = std::size_t{128} << 10;
  // For what is copied.
  static constexpr std::size_t kCopyBytes = 4096;

  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // `capacity_bytes` is one of the two above.
  BlockRef New(std::size_t capacity_bytes);

  // Of all blocks that are used.
  std::size_t used_bytes() const { return used_bytes_; }

 private:
  friend class BlockRef;
  void TakeBack(Block* block);

  std::vector<std::unique_ptr<Block>>& SpareOf(std::size_t capacity_bytes) {
    return capacity_bytes == kReadBytes ? spare_read_ : spare_copy_;
  }

  std::size_t used_bytes_ = 0;
  std::vector<std::unique_ptr<Block>> spare_read_;
  std::vector<std::unique_ptr<Block>> spare_copy_;
};

// Bytes in a block.
struct Slice {
  BlockRef block;
  std::size_t at = 0;
  std::size_t size_bytes = 0;

  const std::uint8_t* data() const { return block->bytes.get() + at; }
  std::uint8_t* data() { return block->bytes.get() + at; }
};

// Bytes in order: put in at the end, taken out at the front. Not thread-safe.
class SliceQueue {
 public:
  // `pool`, where copies are put, outlives it.
  explicit SliceQueue(BlockPool* pool) : pool_(pool) {}

  // Shares the slice's block.
  void Append(Slice slice);
  void AppendCopy(std::span<const std::uint8_t> bytes);
  // The first `size_bytes`, which are there, go to the end of `to`.
  void MoveTo(SliceQueue& to, std::size_t size_bytes);
  void DropFront(std::size_t size_bytes);
  void Clear();

  bool empty() const { return slices_.empty(); }
  std::size_t size_bytes() const { return size_bytes_; }
  // Fills `vectors` from the front; returns those that were filled.
  std::span<iovec> Front(std::span<iovec> vectors);

 private:
  BlockPool* const pool_;
  std::deque<Slice> slices_;
  std::size_t size_bytes_ = 0;
  // Where the next copy goes.
  BlockRef copies_;
};

}  // namespace kerf::door
