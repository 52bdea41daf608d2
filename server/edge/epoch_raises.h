// The epochs of repositories are raised by one call at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/task.h"
#include "server/index/index.h"

namespace kerf {

// A client whose AdvanceEpoch was answered INDEX_UNAVAILABLE asks again, while the index may still
// be at work on what it was asked first: the repeat joins that, instead of doing all of it beside
// it once more. Nothing is lost by it: an epoch that is raised stays so, and what the first call
// says of the epoch before is what its repeat wanted to know, for whoever asks for the same epoch
// with the same `min_before` asks the same question. Thread-safe.
class EpochRaises {
 public:
  struct Answer {
    // As of Index::AdvanceEpoch.
    absl::StatusOr<std::uint64_t> previous_epoch;
    // Another call has done it, and counts it.
    bool is_joined = false;
  };

  // The index outlives it, and it outlives its calls.
  explicit EpochRaises(Index* index) : index_(*index) {}
  EpochRaises(const EpochRaises&) = delete;
  EpochRaises& operator=(const EpochRaises&) = delete;

  // Index::AdvanceEpoch, behind those that are under way for the repository; one that is asked
  // there for the same answers this one, too, in the thread in which it is answered itself.
  Task<Answer> Advance(RepositoryId repository, std::uint64_t epoch, std::uint64_t min_before);

 private:
  struct Raise;
  class Ended;

  // Tells all that wait for it, in this thread.
  void End(const RepositoryId& repository, Raise& raise,
           const absl::StatusOr<std::uint64_t>& previous_epoch);

  Index& index_;
  std::mutex mutex_;
  // By the name and the algorithm.
  absl::flat_hash_map<std::pair<std::string, int>, std::shared_ptr<Raise>> under_way_;
};

}  // namespace kerf
