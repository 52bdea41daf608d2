#include "kernels/twostage/select.h"

#include <algorithm>
#include <bit>

namespace kerf {
namespace {

// The first mark in [from, to), or `to`.
std::size_t FindMark(std::span<const std::uint64_t> words, std::size_t from, std::size_t to) {
  if (from >= to) return to;
  std::size_t start = from / kWordPositions * kWordPositions;
  std::size_t index = start / kWordPositions % words.size();
  std::uint64_t word = words[index] & ~std::uint64_t{0} << from % kWordPositions;
  while (word == 0) {
    start += kWordPositions;
    if (start >= to) return to;
    if (++index == words.size()) index = 0;
    word = words[index];
  }
  return std::min(to, start + static_cast<std::size_t>(std::countr_zero(word)));
}

}  // namespace

std::size_t Selector::ChunkLength(const GearRule& rule, const MarkWords& marks,
                                  std::size_t size) const {
  if (size <= rule.min_bytes) return size;
  const std::uint8_t* const chunk = bytes_.data() + start_;
  // From the position at which the hash has seen all that the masks look at, marks hold.
  const std::size_t marked = std::min(size, rule.min_bytes + rule.window_bytes - 1);
  std::uint32_t hash = 0;
  for (std::size_t index = rule.min_bytes; index < marked; ++index) {
    hash = (hash << 1) + rule.table[chunk[index]];
    const std::uint32_t mask = index < rule.avg_bytes ? rule.strict_mask : rule.loose_mask;
    if ((hash & mask) == 0) return index;
  }
  const std::size_t middle = std::clamp(rule.avg_bytes, marked, size);
  const std::size_t cut = FindMark(marks.strict, start_ + marked, start_ + middle);
  if (cut != start_ + middle) return cut - start_;
  return FindMark(marks.loose, cut, start_ + size) - start_;
}

std::size_t Selector::ChunkLength(const LocalRule& rule, const MarkWords& marks,
                                  std::size_t size) const {
  if (size <= rule.first_bytes + rule.behind_bytes) return size;
  const std::size_t to = start_ + size - rule.behind_bytes;
  const std::size_t mark = FindMark(marks.loose, start_ + rule.first_bytes, to);
  return mark == to ? size : mark + rule.after_bytes - start_;
}

void Selector::Select(const MarkWords& marks, std::size_t marked,
                      std::vector<std::uint64_t>& ends) {
  std::visit(
      [&](const auto& rule) {
        while (start_ < bytes_.size()) {
          const std::size_t size = std::min(bytes_.size() - start_, rule.max_bytes);
          if (start_ + size > marked) return;
          start_ += ChunkLength(rule, marks, size);
          ends.push_back(start_);
        }
      },
      rule_);
}

}  // namespace kerf
