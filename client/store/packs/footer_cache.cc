#include "client/store/packs/footer_cache.h"

#include <utility>

namespace kerf::agent {

absl::StatusOr<std::shared_ptr<const KnownPack>> FooterCache::Get(const PackId& id) {
  if (Pack pack = Find(id); pack != nullptr) return pack;
  const std::lock_guard reading(read_mutex_);
  // Another thread may have read it.
  if (Pack pack = Find(id); pack != nullptr) return pack;
  if (const auto damage = damaged_.find(id); damage != damaged_.end()) return damage->second;
  absl::StatusOr<KnownPack> read = ReadPackFooterAnyhow(PackPathIn(packs_directory_, id), id);
  {
    const std::lock_guard lock(mutex_);
    ++read_count_;
  }
  if (!read.ok()) {
    // One that is not there now may come.
    if (!absl::IsNotFound(read.status()) && damaged_.size() < kMaxDamaged) {
      damaged_.emplace(id, read.status());
    }
    return read.status();
  }
  Pack pack = std::make_shared<const KnownPack>(*std::move(read));
  Keep(pack);
  return pack;
}

FooterCache::Pack FooterCache::Find(const PackId& id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found->second);
  return *found->second;
}

void FooterCache::Keep(const Pack& pack) {
  const std::lock_guard lock(mutex_);
  recent_.push_front(pack);
  by_id_.emplace(pack->id, recent_.begin());
  size_bytes_ += pack->memory_bytes();
  // Also the one that came, if it alone is too much.
  while (size_bytes_ > max_bytes_) {
    size_bytes_ -= recent_.back()->memory_bytes();
    by_id_.erase(recent_.back()->id);
    recent_.pop_back();
  }
}

std::uint64_t FooterCache::size_bytes() const {
  const std::lock_guard lock(mutex_);
  return size_bytes_;
}

std::uint64_t FooterCache::read_count() const {
  const std::lock_guard lock(mutex_);
  return read_count_;
}

}  // namespace kerf::agent
