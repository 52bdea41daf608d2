// Blocks of memory that file content is read into and sent from: one UploadRequest each.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/page_bytes.h"

namespace kerf::client {

// One message under construction, then in flight. It is shared by the transport, which sends from
// it, and by the agent, which keeps it until the chunks in it have been answered.
class MessageBlock {
 public:
  explicit MessageBlock(std::size_t capacity_bytes)
      : own_(NewPageBytes(capacity_bytes)), bytes_(own_.get()), capacity_bytes_(capacity_bytes) {}
  // Of memory that it keeps alive by `owner`.
  MessageBlock(std::span<std::uint8_t> bytes, std::shared_ptr<const void> owner)
      : owner_(std::move(owner)), bytes_(bytes.data()), capacity_bytes_(bytes.size()) {}

  std::uint8_t* data() { return bytes_; }
  const std::uint8_t* data() const { return bytes_; }
  std::size_t size_bytes() const { return size_bytes_; }
  std::size_t free_bytes() const { return capacity_bytes_ - size_bytes_; }
  std::uint8_t* end() { return bytes_ + size_bytes_; }
  // The caller has written `count` bytes at end().
  void Grow(std::size_t count) { size_bytes_ += count; }
  void Clear() { size_bytes_ = 0; }

 private:
  PageBytes own_;
  std::shared_ptr<const void> owner_;
  std::uint8_t* bytes_;
  std::size_t capacity_bytes_;
  std::size_t size_bytes_ = 0;
};

using BlockRef = std::shared_ptr<MessageBlock>;

// Hands out at most a fixed number of blocks: the bound on what one stream keeps in memory.
// Thread-safe. Blocks may outlive the pool.
class BlockPool {
 public:
  BlockPool(std::size_t block_bytes, std::size_t max_blocks);

  // As if it had been made so. Only before the first block is handed out.
  void Resize(std::size_t block_bytes, std::size_t max_blocks);
  // The same, with blocks of `block_bytes` of this memory, which they keep alive by `owner`.
  void Resize(std::size_t block_bytes, std::span<std::uint8_t> memory,
              const std::shared_ptr<const void>& owner);

  // An empty block; waits until one is free. Null once Close() was called.
  BlockRef Acquire();
  // The same, or null where it would wait.
  BlockRef TryAcquire();

  // Ends all waiting; for a stream that has failed.
  void Close();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable freed;
    std::vector<std::unique_ptr<MessageBlock>> idle;
    std::size_t block_bytes = 0;
    std::size_t max_blocks = 0;
    std::size_t available = 0;
    bool closed = false;
  };

  BlockRef AcquireLocked(std::unique_lock<std::mutex>& lock);

  std::shared_ptr<State> state_;
};

}  // namespace kerf::client
