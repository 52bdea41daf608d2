// A buffer between two pages that cannot be read: a kernel that reads one byte in front of its
// bytes or behind them ends the test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kerf {

// Not thread-safe.
class GuardedBytes {
 public:
  // Stops the process if the system gives no memory.
  explicit GuardedBytes(std::size_t capacity_bytes);
  ~GuardedBytes();
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  // A copy of `bytes`, at most the capacity, whose last byte is the last one in front of the page
  // behind. Valid until the next copy.
  std::span<const std::uint8_t> CopyToEnd(std::span<const std::uint8_t> bytes);
  // The same, with the first byte behind the page in front.
  std::span<const std::uint8_t> CopyToStart(std::span<const std::uint8_t> bytes);

 private:
  std::uint8_t* pages_;
  std::size_t page_bytes_;
  std::size_t inner_bytes_;
};

}  // namespace kerf
