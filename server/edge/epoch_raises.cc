#include "server/edge/epoch_raises.h"

#include <coroutine>
#include <string>
#include <utility>
#include <vector>

namespace kerf {
namespace {

std::pair<std::string, int> KeyOf(const RepositoryId& repository) {
  return {repository.name, static_cast<int>(repository.digest_algorithm)};
}

}  // namespace

struct EpochRaises::Raise {
  Raise(std::uint64_t wanted_epoch, std::uint64_t wanted_min_before)
      : epoch(wanted_epoch), min_before(wanted_min_before) {}

  const std::uint64_t epoch;
  const std::uint64_t min_before;
  // Under mutex_ until it has ended, and never changed behind that.
  bool has_ended = false;
  absl::StatusOr<std::uint64_t> previous_epoch = absl::UnknownError("not raised yet");
  std::vector<std::coroutine_handle<>> waiters;
};

// Awaited: until it has ended.
class EpochRaises::Ended {
 public:
  Ended(EpochRaises* raises, Raise* raise) : raises_(*raises), raise_(*raise) {}
  bool await_ready() const { return false; }
  bool await_suspend(std::coroutine_handle<> waiter) const {
    const std::lock_guard lock(raises_.mutex_);
    if (raise_.has_ended) return false;
    raise_.waiters.push_back(waiter);
    return true;
  }
  void await_resume() const {}

 private:
  EpochRaises& raises_;
  Raise& raise_;
};

void EpochRaises::End(const RepositoryId& repository, Raise& raise,
                      const absl::StatusOr<std::uint64_t>& previous_epoch) {
  std::vector<std::coroutine_handle<>> waiters;
  {
    const std::lock_guard lock(mutex_);
    raise.has_ended = true;
    raise.previous_epoch = previous_epoch;
    waiters.swap(raise.waiters);
    under_way_.erase(KeyOf(repository));
  }
  for (const std::coroutine_handle<> waiter : waiters) waiter.resume();
}

Task<EpochRaises::Answer> EpochRaises::Advance(RepositoryId repository, std::uint64_t epoch,
                                               std::uint64_t min_before) {
  while (true) {
    std::shared_ptr<Raise> raise;
    bool is_first = false;
    {
      const std::lock_guard lock(mutex_);
      std::shared_ptr<Raise>& under_way = under_way_[KeyOf(repository)];
      is_first = under_way == nullptr;
      if (is_first) under_way = std::make_shared<Raise>(epoch, min_before);
      raise = under_way;
    }
    if (is_first) {
      absl::StatusOr<std::uint64_t> previous_epoch =
          co_await index_.AdvanceEpoch(repository, epoch, min_before);
      End(repository, *raise, previous_epoch);
      co_return Answer{std::move(previous_epoch), false};
    }
    const Ended ended(this, raise.get());
    co_await ended;
    if (raise->epoch == epoch && raise->min_before == min_before) {
      co_return Answer{raise->previous_epoch, true};
    }
  }
}

}  // namespace kerf
