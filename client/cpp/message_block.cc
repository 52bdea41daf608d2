#include "client/cpp/message_block.h"

#include <utility>

#include "base/check.h"

namespace kerf::client {

BlockPool::BlockPool(std::size_t block_bytes, std::size_t max_blocks)
    : state_(std::make_shared<State>()) {
  state_->block_bytes = block_bytes;
  state_->max_blocks = max_blocks;
  state_->available = max_blocks;
  // Blocks come back where nothing may be thrown.
  state_->idle.reserve(max_blocks);
}

void BlockPool::Resize(std::size_t block_bytes, std::size_t max_blocks) {
  std::lock_guard lock(state_->mutex);
  KERF_CHECK(state_->available == state_->max_blocks && state_->idle.empty());
  state_->block_bytes = block_bytes;
  state_->max_blocks = max_blocks;
  state_->available = max_blocks;
  state_->idle.reserve(max_blocks);
}

void BlockPool::Resize(std::size_t block_bytes, std::span<std::uint8_t> memory,
                       const std::shared_ptr<const void>& owner) {
  Resize(block_bytes, memory.size() / block_bytes);
  std::lock_guard lock(state_->mutex);
  for (std::size_t index = state_->max_blocks; index > 0; --index) {
    state_->idle.push_back(std::make_unique<MessageBlock>(
        memory.subspan((index - 1) * block_bytes, block_bytes), owner));
  }
}

BlockRef BlockPool::Acquire() {
  std::unique_lock lock(state_->mutex);
  state_->freed.wait(lock, [this] { return state_->closed || state_->available > 0; });
  return state_->closed ? nullptr : AcquireLocked(lock);
}

BlockRef BlockPool::TryAcquire() {
  std::unique_lock lock(state_->mutex);
  return state_->closed || state_->available == 0 ? nullptr : AcquireLocked(lock);
}

BlockRef BlockPool::AcquireLocked(std::unique_lock<std::mutex>& lock) {
  std::unique_ptr<MessageBlock> block;
  --state_->available;
  if (!state_->idle.empty()) {
    block = std::move(state_->idle.back());
    state_->idle.pop_back();
  }
  lock.unlock();
  if (block == nullptr) block = std::make_unique<MessageBlock>(state_->block_bytes);
  block->Clear();
  return {block.release(), [state = state_](MessageBlock* raw) {
            std::unique_ptr<MessageBlock> returned(raw);
            std::lock_guard returning(state->mutex);
            ++state->available;
            state->idle.push_back(std::move(returned));
            state->freed.notify_one();
          }};
}

void BlockPool::Close() {
  std::lock_guard lock(state_->mutex);
  state_->closed = true;
  state_->freed.notify_all();
}

}  // namespace kerf::client
