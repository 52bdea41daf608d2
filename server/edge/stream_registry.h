// Every stream of the process: their places, their memory, and what became of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "server/edge/upload_reactor.h"
#include "server/metrics/counters.h"
#include "server/metrics/reason_counters.h"
#include "server/metrics/stall_counters.h"
#include "server/net/call_registry.h"
#include "server/net/clock.h"

namespace kerf {

// Thread-safe.
class StreamRegistry {
 public:
  // At most max_streams at once; one that is idle for idle_evict ends when it is in the way.
  StreamRegistry(std::size_t max_streams, std::chrono::milliseconds idle_evict)
      : streams_({.max_calls = {max_streams}, .idle_evict = idle_evict}) {}

  // TOO_MANY_STREAMS or DRAINING; else the stream counts until Leave. If the server is full, the
  // stream that is idle for longest is ended and the new one has its place.
  absl::Status Enter(TimePoint now);
  void Add(std::shared_ptr<UploadReactor> stream) { streams_.Add(std::move(stream)); }
  void Leave(const UploadReactor* stream) { streams_.Leave(stream, Streams::kStreams); }

  // How many streams it ended.
  std::size_t CheckTime(TimePoint now) { return streams_.CheckTime(now); }
  // When the memory for sessions, of limit_bytes, has run short: ends idle streams, first those
  // that hold most of it. How many.
  std::size_t FreeMemory(TimePoint now, std::size_t limit_bytes);
  // Those that a quota has kept waiting go on as far as it lets them, the longest wait first.
  void ResumePaced();
  // New streams are refused from here on; open ones are told.
  void Drain(std::chrono::milliseconds drain) { streams_.Drain(drain); }
  // Ends all open streams.
  void FailAll(const absl::Status& status) { streams_.FailAll(status); }

  std::size_t stream_count() const { return streams_.count(Streams::kStreams); }
  std::size_t max_streams() const { return streams_.limits().max_calls[Streams::kStreams]; }
  bool is_draining() const { return streams_.is_draining(); }

  // Since the start: those that were taken, and why others were not.
  std::uint64_t started_count() const { return started_.value(); }
  metrics::ReasonCounters& refused() { return refused_; }
  const metrics::ReasonCounters& refused() const { return refused_; }
  // How those ended that were taken.
  metrics::ReasonCounters& ended() { return ended_; }
  const metrics::ReasonCounters& ended() const { return ended_; }
  metrics::StallCounters& stalls() { return stalls_; }
  const metrics::StallCounters& stalls() const { return stalls_; }

 private:
  using Streams = CallRegistry<UploadReactor>;

  absl::Status TryEnter(TimePoint now);

  metrics::Counter started_;
  metrics::ReasonCounters refused_;
  metrics::ReasonCounters ended_;
  metrics::StallCounters stalls_;
  Streams streams_;
};

}  // namespace kerf
