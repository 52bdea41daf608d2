// The buffers that streams cut in.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "kernels/stream_cutter.h"

namespace kerf {

// Keeps a few buffers of one size warm: allocating and faulting in a fresh one for each burst of
// small files would cost more than cutting them. Thread-safe.
class BufferPool final : public BufferSource {
 public:
  // At most `kept_count` unused buffers of buffer_bytes stay allocated.
  BufferPool(std::size_t buffer_bytes, std::size_t kept_count)
      : buffer_bytes_(buffer_bytes), kept_count_(kept_count) {}

  // `bytes` of uninitialised memory; from the pool if it is the pool's size.
  Buffer Take(std::size_t bytes) override;
  void Give(Buffer buffer, std::size_t bytes) override;

  std::size_t buffer_bytes() const { return buffer_bytes_; }

 private:
  const std::size_t buffer_bytes_;
  const std::size_t kept_count_;
  std::mutex mutex_;
  std::vector<Buffer> kept_;
};

}  // namespace kerf
