// Memory of one process whose bytes another one of the same machine can copy: a memfd of a fixed
// size. docs/adr/0034-shared-memory.md says what for, and why it is made and looked at so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace kerf {

// What comes over a unix socket with the descriptor, in place of a client's first bytes: no other
// protocol that is spoken there begins with its first byte.
inline constexpr std::string_view kSharedMemoryHello = "kerf shares memory, v. 1";

// By which the other side names it from then on, which is the answer: drawn by that side, so that
// nobody else can name it.
inline constexpr std::size_t kSharedMemoryTokenBytes = 24;

// Of one memory; its size is whole pages.
inline constexpr std::size_t kMinSharedBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxSharedBytes = std::size_t{64} << 20;

// The side that writes, and the only one: who is given it reads it. Not thread-safe; its bytes are
// as any memory is.
class SharedMemory {
 public:
  // `size_bytes` as above, or InvalidArgument. ResourceExhausted: there is no memory for it, or no
  // descriptor. Unimplemented: the system lets nobody make such memory.
  static absl::StatusOr<SharedMemory> Make(std::size_t size_bytes);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) = delete;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  // Of zeros in the beginning. Valid as long as this lives.
  std::span<std::uint8_t> bytes() const { return bytes_; }
  // What the other side is given.
  int fd() const { return fd_.get(); }

 private:
  SharedMemory(UniqueFd fd, std::span<std::uint8_t> bytes);

  UniqueFd fd_;
  std::span<std::uint8_t> bytes_;
};

// The side that reads, which believes nothing of the other one: it may change the bytes whenever it
// likes, also while they are copied. So whatever is decided is decided on the copy. Thread-safe.
class ForeignMemory {
 public:
  // InvalidArgument for what is not proven to be memory that SharedMemory has made, or somebody
  // else in the same way: reading anything else may wait for ever. Closes what it does not take.
  static absl::StatusOr<ForeignMemory> Take(UniqueFd fd);

  std::size_t size_bytes() const { return size_bytes_; }

  bool Holds(std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
    return offset_bytes <= size_bytes_ && length_bytes <= size_bytes_ - offset_bytes;
  }

  // Copies what is at `offset_bytes` now. It is not mapped: whatever the other side does, this
  // process is not ended for it, and no memory becomes its own. OutOfRange, and nothing is written,
  // for what is not all within; DataLoss for what cannot be read.
  absl::Status Read(std::uint64_t offset_bytes, std::span<std::uint8_t> out) const;

 private:
  ForeignMemory(UniqueFd fd, std::size_t size_bytes)
      : fd_(std::move(fd)), size_bytes_(size_bytes) {}

  UniqueFd fd_;
  std::size_t size_bytes_;
};

}  // namespace kerf
