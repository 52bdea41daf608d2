// The list of all repositories, as it was read of Redis for a page of it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "server/index/index.h"
#include "server/net/clock.h"

namespace kerf {

// Redis has the list in no order, and can only be asked for all of it: what was read for one page
// has the next ones, too. Thread-safe.
class ListedRepositories {
 public:
  // Of one reading. More are read again when it is their turn.
  static constexpr std::size_t kMaxKept = 65'536;
  // For so long pages are taken of it: who asks for the first one gets what is there now.
  static constexpr std::chrono::seconds kLife{30};

  using Ids = std::vector<RepositoryId>;

  // Those behind `after`, in order and `limit` at most. Nothing: it has to be read.
  std::optional<Ids> Find(const std::optional<RepositoryId>& after, std::size_t limit,
                          TimePoint now) const {
    if (!after.has_value()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const bool begins_later = from_.has_value() && RepositoryOrder()(*after, *from_);
    if (!is_known_ || begins_later || now - read_at_ >= kLife) return std::nullopt;
    const auto first = std::upper_bound(ids_.begin(), ids_.end(), *after, RepositoryOrder());
    const auto left = static_cast<std::size_t>(std::distance(first, ids_.end()));
    if (left < limit && !has_all_) return std::nullopt;
    return Ids(first, first + static_cast<std::ptrdiff_t>(std::min(left, limit)));
  }

  // What is read is as old as this: to be taken before Redis is asked.
  struct Reading {
    TimePoint at;
    std::uint64_t change_count = 0;
  };
  Reading Begin(TimePoint now) const {
    const std::lock_guard lock(mutex_);
    return {now, change_count_};
  }

  // All that stand in the list behind `after`, in any order. The first `limit`. No page is taken of
  // a reading behind which something was changed from here, or that is older than another one.
  Ids Keep(const std::optional<RepositoryId>& after, Ids all, std::size_t limit,
           const Reading& reading) {
    std::sort(all.begin(), all.end(), RepositoryOrder());
    Ids page(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), limit)));
    const std::lock_guard lock(mutex_);
    if (reading.change_count != change_count_ || (is_known_ && reading.at < read_at_)) return page;
    is_known_ = true;
    has_all_ = all.size() <= kMaxKept;
    if (!has_all_) all.resize(kMaxKept);
    all.shrink_to_fit();
    ids_ = std::move(all);
    from_ = after;
    read_at_ = reading.at;
    return page;
  }

  // Something of it was changed from here.
  void Forget() {
    const std::lock_guard lock(mutex_);
    ++change_count_;
    is_known_ = false;
    ids_ = Ids();
  }

  std::size_t kept_count() const {
    const std::lock_guard lock(mutex_);
    return ids_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::uint64_t change_count_ = 0;
  bool is_known_ = false;
  // Up to the end of the list.
  bool has_all_ = false;
  std::optional<RepositoryId> from_;
  Ids ids_;
  TimePoint read_at_;
};

}  // namespace kerf
