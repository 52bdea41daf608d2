#include "kernels/tttd_ahead.h"

#include <algorithm>

#include "kernels/reference/rabin.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

// What is looked at at once, if it is there.
constexpr std::size_t kStepBytes = 64 << 10;
// Of less a hash at a time is as quick as many.
constexpr std::size_t kFewBytes = 1024;
// Where chunks are short the next mark is not far.
constexpr std::size_t kNearBytes = 2048;

}  // namespace

Profile TttdAhead::RuleOf(std::uint32_t divisor) {
  Profile rabin;
  rabin.algorithm = Algorithm::kRabin;
  rabin.min_bytes = kHashWindowBytes;
  rabin.avg_bytes = divisor;
  rabin.max_bytes = kMaxMaxBytes;
  return rabin;
}

std::uint64_t TttdAhead::DigestAt(Bytes bytes, std::size_t place) const {
  const std::size_t begin =
      std::max<std::size_t>(profile_.min_bytes, place + 1 - kRabinWindowBytes);
  RabinRoll roll;
  for (std::size_t index = begin; index <= place; ++index) roll.Slide(bytes[index]);
  return roll.digest();
}

std::size_t TttdAhead::FirstMark(Bytes bytes, std::size_t from) const {
  const std::size_t to = std::min(bytes.size(), from + kStepBytes);
  const std::uint32_t divisor = profile_.avg_bytes / 2;
  if (to - from < kFewBytes) {
    RabinRoll roll;
    for (std::size_t index = from - kRabinWindowBytes; index < to; ++index) {
      roll.Slide(bytes[index]);
      if (index >= from && IsMarked(roll.digest(), divisor)) return index;
    }
    return to;
  }
  // rabin's cut is behind the byte that makes it.
  const std::size_t begin = from + 1 - kHashWindowBytes;
  const std::size_t end = begin + small_divisor_.NextCut(bytes.subspan(begin, to - begin));
  return end < to || IsMarked(DigestAt(bytes, to - 1), divisor) ? end - 1 : to;
}

bool TttdAhead::IsClear(Bytes bytes, std::size_t size) {
  if (!IsClearFromFirst()) return false;
  // What is short does not cost much.
  if (clear_end_ <= profile_.min_bytes + kHashWindowBytes || clear_end_ <= size / 2) return false;
  while (clear_end_ < size) {
    const std::size_t before = clear_end_;
    clear_end_ = FirstMark(bytes, before);
    // It stands at a mark, or at the end of what it has looked at.
    if (clear_end_ < std::min(bytes.size(), before + kStepBytes)) break;
  }
  return clear_end_ >= size;
}

std::size_t TttdAhead::CutByKnown(Bytes bytes, std::size_t size) {
  std::size_t backup = 0;
  RabinRoll roll;
  const std::size_t whole = std::min<std::size_t>(size, profile_.min_bytes + kRabinWindowBytes);
  for (std::size_t index = profile_.min_bytes; index < whole; ++index) {
    roll.Slide(bytes[index]);
    if (IsMarked(roll.digest(), profile_.avg_bytes)) return index;
    if (IsMarked(roll.digest(), profile_.avg_bytes / 2)) backup = index;
  }
  if (IsClear(bytes, size)) return backup != 0 ? backup : size;
  if (!near_.is_worth_it()) return 0;
  const std::size_t end = std::min(size, whole + kNearBytes);
  const std::size_t mark = near_.First(bytes, whole, end);
  if (mark < end) return mark;
  if (end < size) return 0;
  const std::size_t last = near_backups_.Last(bytes, whole, size);
  return last < size || backup == 0 ? last : backup;
}

std::size_t TttdAhead::NextCut(Bytes bytes) {
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile_.max_bytes);
  if (size <= profile_.min_bytes) return size;
  std::size_t cut = is_ahead() ? CutByKnown(bytes, size) : 0;
  if (cut == 0) {
    cut = chunker_.NextCut(bytes);
    const bool is_backup = cut < size / 2 && !IsMarked(DigestAt(bytes, cut), profile_.avg_bytes);
    clear_begin_ = is_backup ? cut + 1 : 0;
    clear_end_ = is_backup ? size : 0;
  }
  near_.Count(cut);
  return cut;
}

}  // namespace kerf
