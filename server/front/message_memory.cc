#include "server/front/message_memory.h"

namespace kerf {

bool HeldMessages::Set(std::size_t bytes, std::size_t ahead_bytes) {
  all_.Force(bytes);
  const std::size_t beyond_bytes = BeyondShare(bytes + ahead_bytes);
  if (beyond_share_.Set(beyond_bytes)) return true;
  beyond_share_.Force(beyond_bytes);
  return false;
}

bool HeldMessages::TryKeepAhead(std::size_t ahead_bytes) {
  const std::size_t beyond_bytes = BeyondShare(all_.bytes() + ahead_bytes);
  const MemoryBudget& pool = memory_->pool_;
  const std::size_t others_bytes = pool.used_bytes() - beyond_share_.bytes();
  if (others_bytes + beyond_bytes > pool.limit_bytes() / 2) return false;
  return beyond_share_.Set(beyond_bytes);
}

}  // namespace kerf
