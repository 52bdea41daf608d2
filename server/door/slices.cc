#include "server/door/slices.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace kerf::door {
namespace {

// Of each size.
constexpr std::size_t kMaxSpareBlocks = 16;

}  // namespace

BlockRef::~BlockRef() {
  if (block_ != nullptr && --block_->user_count == 0) block_->pool->TakeBack(block_);
}

BlockRef BlockPool::New(std::size_t capacity_bytes) {
  KERF_CHECK(capacity_bytes == kReadBytes || capacity_bytes == kCopyBytes);
  std::vector<std::unique_ptr<Block>>& spare = SpareOf(capacity_bytes);
  std::unique_ptr<Block> block;
  if (spare.empty()) {
    block = std::make_unique<Block>();
    block->bytes = std::make_unique_for_overwrite<std::uint8_t[]>(capacity_bytes);
    block->capacity_bytes = capacity_bytes;
    block->pool = this;
  } else {
    block = std::move(spare.back());
    spare.pop_back();
    block->used_bytes = 0;
  }
  used_bytes_ += capacity_bytes;
  return BlockRef(block.release());
}

void BlockPool::TakeBack(Block* block) {
  std::unique_ptr<Block> owned(block);
  used_bytes_ -= owned->capacity_bytes;
  std::vector<std::unique_ptr<Block>>& spare = SpareOf(owned->capacity_bytes);
  if (spare.size() < kMaxSpareBlocks) spare.push_back(std::move(owned));
}

void SliceQueue::Append(Slice slice) {
  if (slice.size_bytes == 0) return;
  size_bytes_ += slice.size_bytes;
  if (!slices_.empty()) {
    Slice& last = slices_.back();
    if (last.block.get() == slice.block.get() && last.at + last.size_bytes == slice.at) {
      last.size_bytes += slice.size_bytes;
      return;
    }
  }
  slices_.push_back(std::move(slice));
}

void SliceQueue::AppendCopy(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    if (copies_.get() == nullptr || copies_->used_bytes == copies_->capacity_bytes) {
      copies_ = pool_->New(BlockPool::kCopyBytes);
    }
    const std::size_t size = std::min(bytes.size(), copies_->capacity_bytes - copies_->used_bytes);
    std::memcpy(copies_->bytes.get() + copies_->used_bytes, bytes.data(), size);
    Append({.block = copies_, .at = copies_->used_bytes, .size_bytes = size});
    copies_->used_bytes += size;
    bytes = bytes.subspan(size);
  }
}

void SliceQueue::MoveTo(SliceQueue& to, std::size_t size_bytes) {
  KERF_CHECK(size_bytes <= size_bytes_);
  size_bytes_ -= size_bytes;
  while (size_bytes > 0) {
    Slice& first = slices_.front();
    if (first.size_bytes <= size_bytes) {
      size_bytes -= first.size_bytes;
      to.Append(std::move(first));
      slices_.pop_front();
    } else {
      to.Append({.block = first.block, .at = first.at, .size_bytes = size_bytes});
      first.at += size_bytes;
      first.size_bytes -= size_bytes;
      size_bytes = 0;
    }
  }
  if (slices_.empty()) copies_ = BlockRef();
}

void SliceQueue::DropFront(std::size_t size_bytes) {
  KERF_CHECK(size_bytes <= size_bytes_);
  size_bytes_ -= size_bytes;
  while (size_bytes > 0) {
    Slice& first = slices_.front();
    const std::size_t size = std::min(size_bytes, first.size_bytes);
    first.at += size;
    first.size_bytes -= size;
    size_bytes -= size;
    if (first.size_bytes == 0) slices_.pop_front();
  }
  if (slices_.empty()) copies_ = BlockRef();
}

void SliceQueue::Clear() {
  slices_.clear();
  size_bytes_ = 0;
  copies_ = BlockRef();
}

std::span<iovec> SliceQueue::Front(std::span<iovec> vectors) {
  std::size_t count = 0;
  for (Slice& slice : slices_) {
    if (count == vectors.size()) break;
    vectors[count++] = {.iov_base = slice.data(), .iov_len = slice.size_bytes};
  }
  return vectors.first(count);
}

}  // namespace kerf::door
