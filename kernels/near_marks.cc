#include "kernels/near_marks.h"

#include <algorithm>
#include <bit>

#include "kernels/profile.h"

namespace kerf {
namespace {

// What a mark looks at, rounded up.
constexpr std::size_t kLeadBytes = 256;
static_assert(kCrcWindowBytes <= kLeadBytes && kRabinWindowBytes <= kLeadBytes);
static_assert(kLeadBytes % kWordPositions == 0);
// Marked at once.
constexpr std::size_t kNearBytes = 16 << 10;
constexpr std::size_t kWords = (kLeadBytes + kNearBytes) / kWordPositions;
// By so much chunks must be too short, one after the other.
constexpr std::size_t kBeginBytes = 4096;
constexpr std::size_t kMostBytes = 8192;

}  // namespace

void NearMarks::Forget() {
  is_worth_it_ = false;
  short_by_bytes_ = 0;
  start_ = begin_ = end_ = 0;
  marks_ = {};
  unused_ = {};
}

void NearMarks::Count(std::size_t cut_bytes) {
  if (marker_ == nullptr) return;
  short_by_bytes_ = std::min(short_by_bytes_ + kShortBytes, kMostBytes);
  short_by_bytes_ -= std::min(short_by_bytes_, cut_bytes);
  if (short_by_bytes_ >= kBeginBytes) is_worth_it_ = true;
  if (short_by_bytes_ == 0) is_worth_it_ = false;
}

void NearMarks::Mark(std::span<const std::uint8_t> bytes, std::size_t from) {
  marks_.resize(kWords);
  unused_.resize(kWords);
  const std::size_t lead = std::min(from, kLeadBytes);
  const std::span<const std::uint8_t> marked = bytes.subspan(from - lead);
  const std::size_t first = lead - lead % kWordPositions;
  const std::size_t behind = std::min(marked.size(), first + kNearBytes);
  marker_->Mark(marked, first, behind, {marks_, unused_});
  begin_ = start_ + from;
  origin_ = begin_ - lead;
  end_ = origin_ + behind;
}

std::size_t NearMarks::First(std::span<const std::uint8_t> bytes, std::size_t from,
                             std::size_t to) {
  while (from < to) {
    if (start_ + from < begin_ || start_ + from >= end_) Mark(bytes, from);
    const auto end = static_cast<std::size_t>(std::min<std::uint64_t>(start_ + to, end_) - origin_);
    auto position = static_cast<std::size_t>(start_ + from - origin_);
    while (position < end) {
      const std::uint64_t word = marks_[position / kWordPositions] >> position % kWordPositions;
      if (word != 0) {
        position += static_cast<std::size_t>(std::countr_zero(word));
        if (position < end) return static_cast<std::size_t>(origin_ + position - start_);
        break;
      }
      position += kWordPositions - position % kWordPositions;
    }
    from = static_cast<std::size_t>(origin_ + end - start_);
  }
  return to;
}

std::size_t NearMarks::Last(std::span<const std::uint8_t> bytes, std::size_t from, std::size_t to) {
  std::size_t last = to;
  for (std::size_t mark = First(bytes, from, to); mark < to; mark = First(bytes, mark + 1, to)) {
    last = mark;
  }
  return last;
}

}  // namespace kerf
