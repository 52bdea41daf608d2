#include "server/door/cancel_bound.h"

#include <algorithm>

namespace kerf::door {
namespace {

// Between two looks at all addresses.
constexpr std::chrono::seconds kSweepInterval{1};
// At addresses, one of which is forgotten.
constexpr int kLooks = 16;

}  // namespace

double CancelBound::TokensAt(const Bucket& bucket, Time now) const {
  const double seconds = std::chrono::duration<double>(now - bucket.at).count();
  return std::min(options_.burst, bucket.tokens + std::max(0.0, seconds) * options_.per_second);
}

void CancelBound::MakeRoomLocked(const ClientAddress::Key& near, Time now) {
  if (buckets_.size() < options_.max_addresses) return;
  if (now - swept_at_ >= kSweepInterval) {
    swept_at_ = now;
    std::erase_if(buckets_,
                  [&](const auto& entry) { return TokensAt(entry.second, now) >= options_.burst; });
    if (buckets_.size() < options_.max_addresses) return;
  }
  // Of some, the one that says least.
  auto fullest = buckets_.end();
  auto at = buckets_.lower_bound(near);
  for (int looked = 0; looked < kLooks; ++looked, ++at) {
    if (at == buckets_.end()) at = buckets_.begin();
    if (fullest == buckets_.end() || TokensAt(at->second, now) > TokensAt(fullest->second, now)) {
      fullest = at;
    }
  }
  buckets_.erase(fullest);
}

bool CancelBound::Take(const ClientAddress::Key& address, std::size_t count, Time now) {
  const std::lock_guard lock(mutex_);
  auto found = buckets_.find(address);
  if (found == buckets_.end()) {
    MakeRoomLocked(address, now);
    found = buckets_.emplace(address, Bucket{.tokens = options_.burst, .at = now}).first;
  }
  Bucket& bucket = found->second;
  // However many there were: it is not kept out for longer than a whole bucket takes to fill.
  bucket.tokens = std::max(-options_.burst, TokensAt(bucket, now) - static_cast<double>(count));
  bucket.at = now;
  return bucket.tokens >= 0;
}

bool CancelBound::Has(const ClientAddress::Key& address, Time now) {
  const std::lock_guard lock(mutex_);
  const auto found = buckets_.find(address);
  return found == buckets_.end() || TokensAt(found->second, now) >= 0;
}

std::size_t CancelBound::address_count() {
  const std::lock_guard lock(mutex_);
  return buckets_.size();
}

}  // namespace kerf::door
