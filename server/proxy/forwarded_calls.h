// The calls that a front has under way.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/front/upload_stream.h"

namespace kerf {

class ForwardedCall;

// Thread-safe.
class ForwardedCalls {
 public:
  explicit ForwardedCalls(std::size_t max_calls) : max_calls_(max_calls) {}

  // A place for one call, or why there is none: DRAINING, TOO_MANY_STREAMS.
  absl::Status Enter();
  // Whoever has entered is added and leaves, or gives its place back.
  void Add(const std::shared_ptr<ForwardedCall>& call);
  void Leave(const ForwardedCall* call);
  void GiveBack();

  // Ends calls whose clients are too slow; how many.
  std::size_t CheckTime(TimePoint now);
  // New calls are refused from here on; open ones are told.
  void Drain(std::chrono::milliseconds drain);
  void FailAll(const absl::Status& status);

  std::size_t count() const;

 private:
  std::vector<std::shared_ptr<ForwardedCall>> Snapshot() const;

  const std::size_t max_calls_;
  mutable std::mutex mutex_;
  std::size_t entered_count_ = 0;
  bool is_draining_ = false;
  std::chrono::milliseconds drain_{0};
  absl::flat_hash_map<const ForwardedCall*, std::shared_ptr<ForwardedCall>> calls_;
};

}  // namespace kerf
