// What a chunk's entry remembers of the chunks that came after it (RapidCDC: Ni, Jiang, SoCC 2019,
// sections 3.1 and 3.3).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace kerf {

// A chunk that followed.
struct NextSize {
  // 1 .. kMaxMaxBytes.
  std::uint32_t length_bytes = 0;
  // Its last byte, which FF+MT compares (section 3.2).
  std::uint8_t marker = 0;

  friend bool operator==(const NextSize&, const NextSize&) = default;
};

// The sizes of chunks that followed one chunk, the most recent hit first. The last chunk of a file
// is never put in: the file's end cut it, and no other file need end there. A plain value.
class SizeList {
 public:
  static constexpr std::size_t kMaxSizes = 4;
  // The paper's default; longer lists gain little (section 4.3).
  static constexpr std::size_t kDefaultSizes = 2;

  SizeList() = default;

  std::span<const NextSize> sizes() const { return std::span(sizes_).first(count_); }
  bool empty() const { return count_ == 0; }

  // `next` has followed, whether it was predicted or not: it goes to the front, in the place of an
  // entry of its length or else in front of all, and what no longer fits into `max_sizes` (1 ..
  // kMaxSizes) falls off the end.
  void Hit(NextSize next, std::size_t max_sizes = kDefaultSizes);

  // A byte of version and count, then for each size its length as a varint and its marker: 7 bytes
  // for two chunks of 128 bytes to 16 KiB.
  std::vector<std::uint8_t> Pack() const;
  // DataLoss unless `bytes` is exactly what Pack makes of some list.
  static absl::StatusOr<SizeList> Unpack(std::span<const std::uint8_t> bytes);

  friend bool operator==(const SizeList& left, const SizeList& right);

 private:
  std::array<NextSize, kMaxSizes> sizes_{};
  std::size_t count_ = 0;
};

}  // namespace kerf
