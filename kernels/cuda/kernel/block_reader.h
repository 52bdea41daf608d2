// Reads a message that begins at any byte of a batch, 64 bytes at a time.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

enum class ByteOrder { kLittleEndian, kBigEndian };

// Every thread reads another message, so that a load of a warp touches 32 cache lines however wide
// it is: the loads are of 16 aligned bytes, and what they bring is moved into place in registers,
// first by words, then by bytes. No vector is loaded that holds no byte of the message: nothing
// outside a buffer is read whose beginning and size are multiples of 16.
template <ByteOrder kOrder>
class BlockReader {
 public:
  // Of no message.
  BlockReader() = default;

  // The message is bytes[offset, offset + size_bytes); `bytes` is a multiple of 16.
  KERF_DEVICE_CODE BlockReader(const std::uint8_t* bytes, std::uint32_t offset,
                               std::uint32_t size_bytes)
      : head_address_(bytes + (offset & ~15u)),
        vectors_behind_head_(size_bytes == 0 ? 0 : ((offset & 15) + size_bytes - 1) / 16),
        has_odd_word_((offset & 4) != 0),
        has_odd_pair_((offset & 8) != 0),
        // In a word's own order the bytes of (high:low) from the message's first on.
        selector_((kOrder == ByteOrder::kBigEndian ? 0x0123 : 0x3210) + 0x1111 * (offset & 3)),
        head_{} {
    if (size_bytes > 0) head_ = LoadReadOnly16(head_address_);
  }

  // What the next block needs beside what the one before had. Load and Place come by turns, so that
  // there is something else to do while it loads.
  KERF_DEVICE_CODE void Load(Vector16 (&vectors)[4]) {
    if (vectors_behind_head_ >= 4) {
      KERF_UNROLL
      for (unsigned index = 0; index < 4; ++index) {
        vectors[index] = LoadReadOnly16(head_address_ + 16 * (index + 1));
      }
      vectors_behind_head_ -= 4;
    } else {
      KERF_UNROLL
      for (unsigned index = 0; index < 4; ++index) {
        vectors[index] = head_;
        if (index < vectors_behind_head_) {
          vectors[index] = LoadReadOnly16(head_address_ + 16 * (index + 1));
        }
      }
      vectors_behind_head_ = 0;
    }
    head_address_ += 64;
  }

  // The next 64 bytes; those behind the message's end are of no meaning.
  KERF_DEVICE_CODE void Place(const Vector16 (&vectors)[4], std::uint32_t (&words)[16]) {
    std::uint32_t loaded[20];
    Put(head_, &loaded[0]);
    KERF_UNROLL
    for (unsigned index = 0; index < 4; ++index) Put(vectors[index], &loaded[4 * (index + 1)]);
    head_ = vectors[3];
    KERF_UNROLL
    for (unsigned index = 0; index < 18; ++index) {
      loaded[index] = has_odd_pair_ ? loaded[index + 2] : loaded[index];
    }
    KERF_UNROLL
    for (unsigned index = 0; index < 17; ++index) {
      loaded[index] = has_odd_word_ ? loaded[index + 1] : loaded[index];
    }
    KERF_UNROLL
    for (unsigned index = 0; index < 16; ++index) {
      words[index] = PermuteBytes(loaded[index], loaded[index + 1], selector_);
    }
  }

 private:
  KERF_DEVICE_CODE static void Put(const Vector16& vector, std::uint32_t* words) {
    KERF_UNROLL
    for (unsigned index = 0; index < 4; ++index) words[index] = vector.words[index];
  }

  // Where the vector in front of those to be loaded next comes from: `head_`, if all that was
  // loaded has been placed.
  const std::uint8_t* head_address_;
  std::uint32_t vectors_behind_head_;
  bool has_odd_word_;
  bool has_odd_pair_;
  std::uint32_t selector_;
  // What the block before had of this one.
  Vector16 head_;
};

}  // namespace kerf::cuda
