#include "server/hints/size_table.h"

#include "base/check.h"

namespace kerf {

SizeTable::SizeTable(std::size_t capacity_bytes, std::size_t max_sizes)
    : capacity_(max_sizes == 0 ? 0 : capacity_bytes / sizeof(Entry)), max_sizes_(max_sizes) {
  KERF_CHECK(max_sizes <= SizeList::kMaxSizes);
}

void SizeTable::Hit(std::uint64_t key, NextSize next) {
  if (capacity_ == 0) return;
  const std::lock_guard lock(mutex_);
  if (entries_.empty()) entries_.resize(capacity_);
  Entry& entry = entries_[key % capacity_];
  if (entry.key != key) entry = {key, {}};
  entry.list.Hit(next, max_sizes_);
}

SizeList SizeTable::Find(std::uint64_t key) {
  const std::lock_guard lock(mutex_);
  if (entries_.empty()) return {};
  const Entry& entry = entries_[key % capacity_];
  return entry.key == key ? entry.list : SizeList();
}

std::size_t SizeTable::memory_bytes() {
  const std::lock_guard lock(mutex_);
  return entries_.size() * sizeof(Entry);
}

}  // namespace kerf
