#include "server/worker/buffer_pool.h"

#include <cstdint>
#include <memory>
#include <utility>

namespace kerf {

BufferPool::Buffer BufferPool::Take(std::size_t bytes) {
  if (bytes == buffer_bytes_) {
    const std::lock_guard lock(mutex_);
    if (!kept_.empty()) {
      Buffer buffer = std::move(kept_.back());
      kept_.pop_back();
      return buffer;
    }
  }
  return std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
}

void BufferPool::Give(Buffer buffer, std::size_t bytes) {
  if (bytes != buffer_bytes_) return;
  const std::lock_guard lock(mutex_);
  if (kept_.size() < kept_count_) kept_.push_back(std::move(buffer));
}

}  // namespace kerf
