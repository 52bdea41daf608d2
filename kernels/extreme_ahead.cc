#include "kernels/extreme_ahead.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/reference/gear.h"
#include "kernels/reference/rules.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::uint64_t kBlockPlaces = 512;
// With less the worst data costs not much more than the usual.
constexpr std::uint32_t kWorthFactor = 16;
static_assert((kWorthFactor - 1) * kHashWindowBytes > kBlockPlaces);
// So many times the chunk is usual to be looked at; and so many windows may be lost, which on
// random bytes happens once in some hundred windows.
constexpr std::uint64_t kUsualFactor = 3;
constexpr std::uint64_t kLostWindows = 6;
// Of a part of a block it is likely that the best is among the first.
constexpr std::uint64_t kFirstPlaces = 128;

std::uint64_t BlockOf(std::uint64_t place) { return place - place % kBlockPlaces; }

}  // namespace

bool ExtremeAhead::IsWorthIt(const Profile& profile) {
  return profile.max_bytes / profile.min_bytes >= kWorthFactor;
}

ExtremeAhead::ExtremeAhead(const Chunker& chunker, const Profile& profile)
    : chunker_(chunker), profile_(profile) {
  KERF_CHECK(IsWorthIt(profile));
}

void ExtremeAhead::Forget() {
  is_ahead_ = false;
  debt_bytes_ = 0;
  start_ = 0;
  best_ = {};
  front_ = count_ = 0;
  last_block_.reset();
  block_ = covered_ = 0;
  passed_.reset();
}

void ExtremeAhead::Charge(std::size_t seen_bytes, std::size_t cut_bytes) {
  const std::uint64_t usual_bytes = kUsualFactor * cut_bytes;
  debt_bytes_ += seen_bytes;
  debt_bytes_ = debt_bytes_ > usual_bytes ? debt_bytes_ - usual_bytes : 0;
  if (!is_ahead_) {
    is_ahead_ = debt_bytes_ > kLostWindows * seen_bytes;
  } else if (debt_bytes_ == 0) {
    is_ahead_ = false;
    count_ = 0;
    last_block_.reset();
    passed_.reset();
    covered_ = 0;
  }
}

std::size_t ExtremeAhead::NextCut(Bytes bytes) {
  const std::size_t size = std::min<std::size_t>(bytes.size(), profile_.max_bytes);
  if (size <= profile_.min_bytes) return bytes.size();
  const std::uint64_t first = start_ + profile_.min_bytes;
  const std::uint64_t last = start_ + size;
  if (!is_ahead_) {
    const std::size_t cut = chunker_.NextCut(bytes);
    Charge(size, cut);
    return cut;
  }
  if (first >= covered_) BeginAt(first);
  PassFront(first);
  Extend(bytes, last);
  const auto cut = static_cast<std::size_t>(BestWithin(bytes, first, last).place - start_);
  Charge(size, cut);
  return cut;
}

std::uint32_t ExtremeAhead::RankAt(Bytes bytes, std::uint64_t place) const {
  const std::uint8_t* const end = bytes.data() + (place - start_);
  if (profile_.algorithm == Algorithm::kMinCdc) {
    return MinCdcHash(end[-4] | std::uint32_t{end[-3]} << 8 | std::uint32_t{end[-2]} << 16 |
                      std::uint32_t{end[-1]} << 24);
  }
  std::uint32_t hash = 0;
  for (const std::uint8_t* byte = end - kMaxCdcWindowBytes; byte != end; ++byte) {
    hash = (hash << 1) + kGearTable[*byte];
  }
  return ~hash;
}

// A chunk that begins min in front of `first` may end at any of these places.
ExtremeAhead::Best ExtremeAhead::Query(Bytes bytes, std::uint64_t first, std::uint64_t last) const {
  const std::uint64_t begin = first - profile_.min_bytes;
  const std::size_t cut = chunker_.NextCut(bytes.subspan(static_cast<std::size_t>(begin - start_),
                                                         static_cast<std::size_t>(last - begin)));
  return {begin + cut, RankAt(bytes, begin + cut)};
}

void ExtremeAhead::BeginAt(std::uint64_t place) {
  // Blocks of a window, and the one that is begun.
  if (best_.empty()) best_.resize(profile_.max_bytes / kBlockPlaces + 3);
  front_ = count_ = 0;
  last_block_.reset();
  block_ = BlockOf(place);
  covered_ = place;
  passed_.reset();
}

void ExtremeAhead::AddBlock(const Best& best) {
  while (count_ > 0 && BestAt(count_ - 1).rank > best.rank) --count_;
  KERF_CHECK(count_ < best_.size());
  BestAt(count_++) = best;
}

void ExtremeAhead::Extend(Bytes bytes, std::uint64_t last) {
  const std::uint64_t behind = start_ + bytes.size() + 1;
  while (true) {
    const std::uint64_t block_end = block_ + kBlockPlaces;
    if (covered_ == block_end && block_end <= last + 1) {
      AddBlock(*last_block_);
      last_block_.reset();
      block_ = block_end;
    } else if (covered_ <= last) {
      const std::uint64_t end = std::min(block_end, behind);
      const Best found = Query(bytes, covered_, end - 1);
      if (!last_block_ || found.rank < last_block_->rank) last_block_ = found;
      covered_ = end;
    } else {
      return;
    }
  }
}

void ExtremeAhead::PassFront(std::uint64_t first) {
  while (count_ > 0 && BestAt(0).place < first) {
    passed_ = BestAt(0);
    front_ = (front_ + 1) % best_.size();
    --count_;
  }
}

ExtremeAhead::Best ExtremeAhead::BestOfPart(Bytes bytes, std::uint64_t first, std::uint64_t last,
                                            const Best& of_block) const {
  // Of a run all are equal.
  if (const std::uint32_t rank = RankAt(bytes, first); rank == of_block.rank) return {first, rank};
  if (last - first < kFirstPlaces) return Query(bytes, first, last);
  const Best begin = Query(bytes, first, first + kFirstPlaces - 1);
  if (begin.rank == of_block.rank) return begin;
  const Best rest = Query(bytes, first + kFirstPlaces, last);
  return rest.rank < begin.rank ? rest : begin;
}

ExtremeAhead::Best ExtremeAhead::BestWithin(Bytes bytes, std::uint64_t first, std::uint64_t last) {
  if (block_ <= first) return Query(bytes, first, last);
  // The block that was begun may have its best before the window, too.
  PassFront(first);
  std::optional<Best> best;
  if (count_ > 0) best = BestAt(0);
  // A block of which nothing is left here has a better one behind it.
  if (passed_ && BlockOf(passed_->place) == BlockOf(first) &&
      (!best || passed_->rank <= best->rank)) {
    const std::uint64_t end = std::min(BlockOf(first) + kBlockPlaces - 1, last);
    const Best head = BestOfPart(bytes, first, end, *passed_);
    if (!best || head.rank <= best->rank) best = head;
  }
  // The last block begins within the window, and may go on behind it.
  if (last_block_ && block_ <= last && (!best || last_block_->rank < best->rank)) {
    const Best tail = last_block_->place <= last ? *last_block_ : Query(bytes, block_, last);
    if (!best || tail.rank < best->rank) best = tail;
  }
  KERF_CHECK(best.has_value() && first <= best->place && best->place <= last);
  return *best;
}

}  // namespace kerf
