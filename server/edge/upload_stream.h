// One Upload call at the edge: moves messages between gRPC and the stream's engine, and ends a
// stream whose peer neither reads nor sends.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "server/metrics/counters.h"
#include "server/metrics/reason_counters.h"
#include "server/net/stall_watch.h"
#include "server/worker/stream_engine.h"

namespace kerf {

// Injected, so that tests decide how late it is.
using TimePoint = std::chrono::steady_clock::time_point;
using Clock = std::function<TimePoint()>;

struct StreamTimeouts {
  // Until the Open frame has come.
  std::chrono::milliseconds open{10'000};
  // In mid-file, until the next message that is not empty.
  std::chrono::milliseconds idle{60'000};
  // Until the client has read a write.
  std::chrono::milliseconds write_stall{60'000};
  // For one turn of work, which asks the index for a few batches at most.
  std::chrono::milliseconds index{60'000};
  // Of a wait for one and the same thing, after which the log tells of it.
  std::chrono::milliseconds stall_warn{10'000};
  // Between files, after which the stream may have to make room for others.
  std::chrono::milliseconds idle_evict{30'000};
};

class StreamRegistry;

// Owned by gRPC until OnDone, and shared with the engine and the registry. Thread-safe.
class UploadStream : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                     public StreamSink,
                     public std::enable_shared_from_this<UploadStream> {
 public:
  struct Options {
    const EngineContext* engine = nullptr;
    const StreamTimeouts* timeouts = nullptr;
    const Clock* clock = nullptr;
    StreamRegistry* registry = nullptr;
  };

  // Begins the stream; gRPC keeps it alive until OnDone.
  static UploadStream* Start(const Options& options, grpc::CallbackServerContext* context,
                             std::string session_id, std::string request_id);
  UploadStream(const UploadStream&) = delete;
  UploadStream& operator=(const UploadStream&) = delete;

  // For the watchdog: ends the stream if its peer or the index is too slow. Whether this call did
  // so.
  bool CheckTime(TimePoint now);
  // For how long the client has neither sent nor been sent anything between two files; 0 while it
  // is anywhere else. Uncommitted chunks make no difference.
  std::chrono::nanoseconds IdleTime(TimePoint now) const;
  // What others gain if it is ended while it is idle.
  std::size_t session_bytes() const { return engine_->session_bytes(); }
  // Ends the stream, now, for the sake of others; false, and nothing, if it is not idle for so
  // long.
  bool EvictIfIdle(TimePoint now, std::chrono::nanoseconds idle_time);
  void Drain(std::chrono::milliseconds drain) { engine_->Drain(drain); }
  void Fail(const absl::Status& status) { engine_->Fail(status); }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Send(std::string encoded_answers) override;
  std::size_t unsent_bytes() const override;
  void ResumeInput() override;
  void Finish(const absl::Status& status) override;

 private:
  UploadStream(const Options& options, grpc::CallbackServerContext* context, std::string session_id,
               std::string request_id);

  // The rest is called with mutex_ held.
  void StartReadLocked();
  void StartWriteLocked();
  bool IsBetweenFilesLocked() const;
  std::chrono::nanoseconds IdleTimeLocked(TimePoint now) const;
  // Now, whatever is unsent.
  void FinishLocked(const absl::Status& status);
  // Whether they ended the stream.
  bool CheckWriteLocked(TimePoint now);
  bool CheckInputLocked(TimePoint now);
  bool CheckWorkLocked(TimePoint now);
  void LookForStallLocked(TimePoint now);
  WaitPlace FindPlaceLocked() const;

  const Options options_;
  grpc::CallbackServerContext* const context_;
  const std::string session_id_;
  const std::string request_id_;
  std::shared_ptr<UploadStream> self_;
  std::shared_ptr<StreamEngine> engine_;

  mutable std::mutex mutex_;
  grpc::ByteBuffer read_buffer_;
  bool is_reading_ = false;
  bool read_ended_ = false;
  // Of messages that are not empty.
  std::uint64_t read_count_ = 0;
  std::deque<std::string> unsent_;
  std::size_t unsent_bytes_ = 0;
  // The message of the write that is under way; gRPC wants it alive until OnWriteDone.
  grpc::ByteBuffer write_buffer_;
  bool is_writing_ = false;
  std::uint64_t write_count_ = 0;
  TimePoint write_began_;
  std::optional<absl::Status> final_status_;
  bool is_finished_ = false;
  bool is_evicted_ = false;
  TimePoint finished_at_;
  // From then on gRPC's context is gone.
  bool is_done_ = false;
  const TimePoint started_at_;
  // When a message last came or went, an empty one too.
  TimePoint last_moved_;
  // What the last CheckTime saw, and since when it has been so.
  StreamEngine::Expecting seen_expecting_ = StreamEngine::Expecting::kNothing;
  std::uint64_t seen_read_count_ = 0;
  TimePoint seen_since_;
  std::uint64_t seen_turn_count_ = 0;
  TimePoint seen_turn_since_;
  // CheckTime has told the engine to end.
  bool is_timed_out_ = false;
  StallWatch stall_watch_;
};

// Every stream of the process. Thread-safe.
class StreamRegistry {
 public:
  // At most max_streams at once; one that is idle for idle_evict ends when it is in the way.
  StreamRegistry(std::size_t max_streams, std::chrono::milliseconds idle_evict)
      : max_streams_(max_streams), idle_evict_(idle_evict) {}

  // TOO_MANY_STREAMS or DRAINING; else the stream counts until Leave. If the server is full, the
  // stream that is idle for longest is ended and the new one has its place.
  absl::Status Enter(TimePoint now);
  void Add(std::shared_ptr<UploadStream> stream);
  void Leave(const UploadStream* stream);

  // How many streams it ended.
  std::size_t CheckTime(TimePoint now);
  // When the memory for sessions, of limit_bytes, has run short: ends idle streams, first those
  // that hold most of it. How many.
  std::size_t FreeMemory(TimePoint now, std::size_t limit_bytes);
  // New streams are refused from here on; open ones are told.
  void Drain(std::chrono::milliseconds drain);
  // Ends all open streams.
  void FailAll(const absl::Status& status);

  std::size_t stream_count() const;
  std::size_t max_streams() const { return max_streams_; }
  bool is_draining() const;

  // Since the start: those that were taken, and why others were not.
  std::uint64_t started_count() const { return started_.value(); }
  const metrics::ReasonCounters& refused() const { return refused_; }
  // How those ended that were taken.
  metrics::ReasonCounters& ended() { return ended_; }
  const metrics::ReasonCounters& ended() const { return ended_; }
  StallCounters& stalls() { return stalls_; }
  const StallCounters& stalls() const { return stalls_; }

 private:
  absl::Status EnterLocked(TimePoint now);
  std::vector<std::shared_ptr<UploadStream>> Snapshot() const;
  // Whether it found one. A stream's lock is taken inside the registry's, never the other way.
  bool EvictOneLocked(TimePoint now);

  const std::size_t max_streams_;
  const std::chrono::milliseconds idle_evict_;
  metrics::Counter started_;
  metrics::ReasonCounters refused_;
  metrics::ReasonCounters ended_;
  StallCounters stalls_;
  mutable std::mutex mutex_;
  std::size_t entered_count_ = 0;
  bool is_draining_ = false;
  std::chrono::milliseconds drain_{0};
  absl::flat_hash_map<const UploadStream*, std::shared_ptr<UploadStream>> streams_;
  // Ended by EvictOneLocked and not gone yet.
  absl::flat_hash_set<const UploadStream*> evicted_;
  TimePoint next_look_;
};

}  // namespace kerf
