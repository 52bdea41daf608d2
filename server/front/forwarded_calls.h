// The calls that a front has under way.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "server/edge/upload_stream.h"
#include "server/front/message_memory.h"
#include "server/routing/worker.h"

namespace kerf {

class ForwardedCall;

// Thread-safe.
class ForwardedCalls {
 public:
  struct Limits {
    routing::CallCounts max_calls{};
    // After which a silent upload may have to make room for others.
    std::chrono::milliseconds idle_evict{30'000};
  };
  // Since the start.
  struct Counters {
    std::atomic<std::uint64_t> idle_evicted{0};
    // MEMORY_EXHAUSTED.
    std::atomic<std::uint64_t> ended_for_memory{0};
  };

  explicit ForwardedCalls(const Limits& limits) : limits_(limits) {}

  // A place for one call, or why there is none: DRAINING, TOO_MANY_STREAMS, TOO_MANY_CALLS. If
  // there is no place for an upload, the one that is idle for longest is ended for it.
  absl::Status Enter(routing::CallKind kind, TimePoint now);
  // Whoever has entered is added, and leaves.
  void Add(const std::shared_ptr<ForwardedCall>& call);
  void Leave(const ForwardedCall* call);

  // Ends the upload to this worker that is idle for longest; false: none is idle for long enough.
  bool EvictIdle(std::string_view worker_name, TimePoint now);
  // There is no memory for the messages of one direction: ends the call that has waited longest
  // with messages beyond its share. False: none has waited for long.
  bool EndStalled(const MessageMemory& memory, TimePoint now);
  // Ends calls whose clients are too slow; how many.
  std::size_t CheckTime(TimePoint now);
  // New calls are refused from here on; open ones are told.
  void Drain(std::chrono::milliseconds drain);
  void FailAll(const absl::Status& status);

  std::size_t count(routing::CallKind kind) const;
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }

 private:
  std::vector<std::shared_ptr<ForwardedCall>> Snapshot() const;
  // Of this worker, or of any for "". A call's lock is taken inside this one's, never the other
  // way.
  bool EvictOneLocked(std::string_view worker_name, TimePoint now);

  const Limits limits_;
  Counters counters_;
  mutable std::mutex mutex_;
  routing::CallCounts entered_counts_{};
  bool is_draining_ = false;
  std::chrono::milliseconds drain_{0};
  absl::flat_hash_map<const ForwardedCall*, std::shared_ptr<ForwardedCall>> calls_;
  // Ended by EvictOneLocked and not gone yet.
  absl::flat_hash_set<const ForwardedCall*> evicted_;
  TimePoint next_look_;
};

}  // namespace kerf
