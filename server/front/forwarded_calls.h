// The calls that a front has under way.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "server/front/message_memory.h"
#include "server/net/call_registry.h"
#include "server/net/clock.h"
#include "server/routing/worker.h"

namespace kerf {

class ForwardedCall;

// Thread-safe.
class ForwardedCalls {
  using Calls = CallRegistry<ForwardedCall, routing::kCallKindCount>;

 public:
  using Limits = Calls::Limits;

  explicit ForwardedCalls(const Limits& limits) : calls_(limits) {}

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
  // Ends the uploads to this worker; how many.
  std::size_t FailUploadsTo(std::string_view worker_name, const absl::Status& status);

  std::size_t count(routing::CallKind kind) const;
  // Since the start: uploads that were ended for others, and calls that ended with
  // MEMORY_EXHAUSTED.
  std::uint64_t idle_evicted_count() const { return calls_.evicted_count(); }
  std::uint64_t ended_for_memory_count() const { return ended_for_memory_count_; }
  void CountEndForMemory() { ++ended_for_memory_count_; }

 private:
  Calls calls_;
  std::atomic<std::uint64_t> ended_for_memory_count_{0};
};

}  // namespace kerf
