// One Upload call at the edge: moves messages between gRPC and the stream's engine, and ends a
// stream whose peer neither reads nor sends.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/limits.h"
#include "server/access/gate.h"
#include "server/net/clock.h"
#include "server/net/stall_watch.h"
#include "server/quota/quotas.h"
#include "server/worker/stream_engine.h"

namespace kerf {

struct StreamTimeouts {
  // Until the Open frame has come.
  std::chrono::milliseconds open = limits::kOpenTimeout;
  // In mid-file, until the next message that is not empty.
  std::chrono::milliseconds idle = limits::kIdleTimeout;
  // Until the client has read a write.
  std::chrono::milliseconds write_stall = limits::kWriteStall;
  // For the index to answer a call, and for one turn of work: some indexes work in the thread that
  // asks, a few batches in a turn at most.
  std::chrono::milliseconds index = limits::kIndexTimeout;
  // Of a wait for one and the same thing, after which the log tells of it.
  std::chrono::milliseconds stall_warn = limits::kStallWarn;
  // Between files, after which the stream may have to make room for others.
  std::chrono::milliseconds idle_evict = limits::kIdleEvict;
  // For a quota of bytes to let another message by, beyond what the last one owes.
  std::chrono::milliseconds paced = limits::kMaxPaced;
};

class StreamRegistry;
namespace audit {
class CallRecord;
class Sink;
}  // namespace audit

// Owned by gRPC until OnDone, and shared with the engine and the registry. Thread-safe.
class UploadReactor : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                      public StreamSink,
                      public std::enable_shared_from_this<UploadReactor> {
 public:
  struct Options {
    const EngineContext* engine = nullptr;
    const StreamTimeouts* timeouts = nullptr;
    const Clock* clock = nullptr;
    StreamRegistry* registry = nullptr;
    const access::Gate* gate = nullptr;
    Quotas* quotas = nullptr;
    // Null: there is no audit log.
    audit::Sink* audit = nullptr;
  };

  // What is known of a call before its first message.
  struct Call {
    std::string session_id;
    std::string request_id;
    access::Identity caller;
    // Among the caller's streams.
    Places::Hold place;
    std::shared_ptr<audit::CallRecord> record;
  };

  // Begins the stream; gRPC keeps it alive until OnDone.
  static UploadReactor* Start(const Options& options, grpc::CallbackServerContext* context,
                              Call call);
  UploadReactor(const UploadReactor&) = delete;
  UploadReactor& operator=(const UploadReactor&) = delete;

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
  // Since when it would read another message, which a quota does not let by yet.
  std::optional<TimePoint> paced_since() const;
  // Reads it if the quota lets it by now.
  void ResumePaced();
  void Drain(std::chrono::milliseconds drain) { engine_->Drain(drain); }
  void Fail(const absl::Status& status) { engine_->Fail(status); }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  absl::Status MayStoreIn(std::string_view repository) override;
  std::uint64_t NameableBytes() const override;
  void CountNamed(std::uint64_t bytes) override;
  void Send(std::string encoded_answers) override;
  std::size_t unsent_bytes() const override;
  void ResumeInput() override;
  void Finish(const absl::Status& status) override;

 private:
  UploadReactor(const Options& options, grpc::CallbackServerContext* context, Call call);

  // The rest is called with mutex_ held.
  void StartReadLocked();
  // Whether quotas let another message by; else it waits for ResumePaced.
  bool IsInPaceLocked();
  // The message that was counted is there, or will not come: 0 bytes.
  void CorrectPaceLocked(std::size_t read_bytes);
  void StartWriteLocked();
  bool IsBetweenFilesLocked() const;
  std::chrono::nanoseconds IdleTimeLocked(TimePoint now) const;
  // Now, whatever is unsent.
  void FinishLocked(const absl::Status& status);
  void LogEnd(const absl::Status& status) const;
  // Whether they ended the stream.
  bool CheckWriteLocked(TimePoint now);
  bool CheckInputLocked(TimePoint now);
  bool CheckPaceLocked(TimePoint now);
  bool CheckWorkLocked(TimePoint now);
  bool CheckCallerLocked(TimePoint now);
  void LookForStallLocked(TimePoint now);
  WaitPlace FindPlaceLocked() const;

  const Options options_;
  grpc::CallbackServerContext* const context_;
  const std::string session_id_;
  const std::string request_id_;
  const access::Identity caller_;
  const std::shared_ptr<audit::CallRecord> record_;
  std::shared_ptr<UploadReactor> self_;
  std::shared_ptr<StreamEngine> engine_;

  mutable std::mutex mutex_;
  grpc::ByteBuffer read_buffer_;
  bool is_reading_ = false;
  // Of the message before, as which the next one is counted until it is there.
  std::size_t last_read_bytes_ = 0;
  // The last message, and what it has named: it takes the quota's time for so much until another is
  // let by.
  std::uint64_t owed_bytes_ = 0;
  // Counted for the message that is read now, and that for the repository, too.
  std::size_t counted_bytes_ = 0;
  bool is_repository_counted_ = false;
  // Of messages that came before the repository was known.
  std::size_t early_bytes_ = 0;
  std::optional<TimePoint> paced_since_;
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
  // From when the Open frame was waited for, but for a quota.
  TimePoint open_since_;
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
  // Into which the caller may store, as of when it asked; empty: it has not.
  std::string repository_;
  // Among the caller's streams, and those of the repository.
  Places::Hold place_;
  Places::Hold repository_place_;
  // Why the caller may no longer, and since when he was told so.
  std::optional<absl::Status> turned_away_for_;
  TimePoint turned_away_at_;
  StallWatch stall_watch_;
};

}  // namespace kerf
