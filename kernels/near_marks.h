// The marks of a rule around where chunks end, made many at a time: for chunks that are much
// shorter than what vector registers mark at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/chunker.h"
#include "kernels/twostage/mark.h"

namespace kerf {

// Not thread-safe.
class NearMarks {
 public:
  // Without a marker it is never worth it.
  explicit NearMarks(std::unique_ptr<Marker> marker) : marker_(std::move(marker)) {}

  // As of CutAhead. Positions are those of `bytes`.
  void Pass(std::size_t length_bytes) { start_ += length_bytes; }
  void Forget();
  std::size_t memory_bytes() const { return 2 * marks_.capacity() * sizeof(std::uint64_t); }

  // The first mark in [from, to), or `to`. All that a mark looks at lies in `bytes`.
  std::size_t First(std::span<const std::uint8_t> bytes, std::size_t from, std::size_t to);

  // The last one, or `to`.
  std::size_t Last(std::span<const std::uint8_t> bytes, std::size_t from, std::size_t to);

  // To be told of each cut. Whether chunks are so short now that it is worth it.
  void Count(std::size_t cut_bytes);
  bool is_worth_it() const { return is_worth_it_; }
  // Of profiles.
  static bool MayBeWorthIt(std::size_t min_bytes) { return min_bytes < kShortBytes; }

 private:
  static constexpr std::size_t kShortBytes = 512;

  void Mark(std::span<const std::uint8_t> bytes, std::size_t from);

  const std::unique_ptr<Marker> marker_;
  bool is_worth_it_ = false;
  std::size_t short_by_bytes_ = 0;
  // From here on positions are counted from where the bytes begin that were not forgotten.
  std::uint64_t start_ = 0;
  // Bit p mod 64 of word p / 64 is origin_ + p; right in [begin_, end_).
  std::vector<std::uint64_t> marks_;
  std::vector<std::uint64_t> unused_;
  std::uint64_t origin_ = 0;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace kerf
