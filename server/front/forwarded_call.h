// One call that a front passes on to a worker and back, whatever its method: messages are neither
// parsed nor copied, and each side is read no faster than the other one reads.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/limits.h"
#include "server/access/gate.h"
#include "server/access/identity.h"
#include "server/front/front_metrics.h"
#include "server/front/message_memory.h"
#include "server/net/clock.h"
#include "server/net/stall_watch.h"
#include "server/routing/worker_set.h"

namespace kerf {

class ForwardedCalls;

// At most two messages of each direction are in memory: one that is being written, and, if there is
// memory for it, the next.
// Owned by gRPC, which uses it from two sides, until both have ended. Thread-safe.
class ForwardedCall : public grpc::ServerGenericBidiReactor {
 public:
  struct Options {
    // Until the client has read a message.
    std::chrono::milliseconds write_stall = limits::kWriteStall;
    // Of a wait for one and the same thing, after which the log tells of it.
    std::chrono::milliseconds stall_warn = limits::kStallWarn;
    const Clock* clock = nullptr;
    // Asked again and again whether the caller still may.
    const access::Gate* gate = nullptr;
    // Nobody between can have read what came over TCP.
    bool is_tcp_private = false;
    ForwardedCalls* registry = nullptr;
    // Told of a worker that cannot be reached, or drains, and of how calls to it end.
    routing::WorkerSet* workers = nullptr;
    FrontMetrics* metrics = nullptr;
    // Not one for both: answers must find memory while requests have none, or a worker that waits
    // for its answers to be read would never take the requests.
    MessageMemory* requests = nullptr;
    MessageMemory* answers = nullptr;
  };

  static routing::CallKind KindOf(const grpc::GenericCallbackServerContext& context);
  // The call has entered the registry.
  static ForwardedCall* Start(const Options& options, grpc::GenericCallbackServerContext* context,
                              access::Identity caller, routing::Route route);
  ForwardedCall(const ForwardedCall&) = delete;
  ForwardedCall& operator=(const ForwardedCall&) = delete;

  // For the watchdog: ends the call if its client does not read, or may no longer do this. Whether
  // this call did so.
  bool CheckTime(TimePoint now);
  routing::CallKind kind() const { return kind_; }
  const std::string& worker_name() const { return worker_name_; }

  // For how long an upload is silent that has been answered and owes nothing; 0 while it is
  // anywhere else. One whose worker still has something to say is not idle: the worker may wait for
  // its index.
  std::chrono::nanoseconds IdleTime(TimePoint now) const;
  // Ends it, now, for the sake of others; false, and nothing, if it is not idle for so long.
  bool EvictIfIdle(TimePoint now, std::chrono::nanoseconds idle_time);
  // For how long it has waited for somebody to take a message, with more than its share of this
  // memory; 0: it does not.
  std::chrono::nanoseconds StalledTime(const MessageMemory& memory, TimePoint now) const;
  // Ends it, now, with MEMORY_EXHAUSTED; false: it has ended already.
  bool EndForMemory();
  // Asks the worker to tell the client, in band, that it shall go on elsewhere.
  void Drain(std::chrono::milliseconds drain);
  // Ends the call on both sides, now.
  void Fail(const absl::Status& status);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  // The worker's side of the same call.
  class WorkerSide : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit WorkerSide(ForwardedCall* call) : call_(call) {}
    void OnReadInitialMetadataDone(bool ok) override { call_->OnWorkerMetadata(ok); }
    void OnReadDone(bool ok) override { call_->OnWorkerReadDone(ok); }
    void OnWriteDone(bool ok) override { call_->OnWorkerWriteDone(ok); }
    void OnDone(const grpc::Status& status) override { call_->OnWorkerDone(status); }

   private:
    ForwardedCall* const call_;
  };

  // Messages of one direction. `next` is being read or has been; `current` is being written.
  struct Direction {
    Direction(MessageMemory* memory, bool has_share) : held(memory, has_share) {}

    // Counts what is held; false if there is no memory for it.
    bool Count();
    // Whether the next message may be read; if so memory is kept for it.
    bool TryRead();
    // Begins to write the next message, which has been read.
    void TakeNext(TimePoint now);

    HeldMessages held;
    grpc::ByteBuffer next;
    grpc::ByteBuffer current;
    bool is_reading = false;
    bool has_next = false;
    bool is_writing = false;
    TimePoint write_began;
    // Of the last message.
    std::size_t last_bytes = 0;
    // Nothing more comes from where it is read, or can be said to where it is written.
    bool read_ended = false;
    bool write_ended = false;
  };

  ForwardedCall(const Options& options, grpc::GenericCallbackServerContext* context,
                access::Identity caller, routing::Route route);
  // For the worker's side; whether a token goes that way is known then, too.
  std::shared_ptr<grpc::Channel> TakeChannel();
  // Whether a token that was shown is only the caller's; else the log tells of it.
  bool CameInPrivate() const;
  void StartWorkerSide();
  void OnWorkerMetadata(bool ok);
  void OnWorkerReadDone(bool ok);
  void OnWorkerWriteDone(bool ok);
  void OnWorkerDone(const grpc::Status& status);

  // The rest is called with mutex_ held. The first two start what can be started.
  void PumpToWorkerLocked();
  void PumpToClientLocked();
  void ReadFromWorkerLocked();
  // A read has ended, with a message or without. False: there is no memory for it.
  bool TakeReadLocked(Direction& way, bool ok);
  // What was being written is gone.
  void EndWriteLocked(Direction& way);
  // `counted_as` is OK for what the worker said, whatever that is.
  void FinishLocked(const grpc::Status& status, const absl::Status& counted_as);
  // The same for the sake of others: whoever does not even take its status is not waited for.
  void EndForOthersLocked(const absl::Status& status);
  // Whoever may no longer do this is turned away; whether he was.
  bool CheckCallerLocked();
  bool IsIdleLocked() const;
  void LookForStallLocked(TimePoint now);
  WaitPlace FindPlaceLocked() const;
  // A message has come for which there is no memory; called without the lock.
  void MakeRoom(const MessageMemory& memory);
  // Whether the worker has taken nothing of what it was sent for long.
  bool IsStuckLocked(TimePoint now) const;
  // What the client is told of the worker's status; `counted_as` as of FinishLocked.
  grpc::Status Translate(const grpc::Status& status, absl::Status* counted_as) const;
  // The call's hold on itself, once both sides have ended; to be dropped without the lock.
  std::shared_ptr<ForwardedCall> TakeSelfLocked();

  const Options options_;
  grpc::GenericCallbackServerContext* const context_;
  const routing::CallKind kind_;
  const std::string request_id_;
  const access::Identity caller_;
  const std::string worker_name_;
  const std::shared_ptr<routing::Worker> worker_;
  grpc::ClientContext worker_context_;
  bool is_token_passed_on_ = false;
  grpc::GenericStub stub_;
  WorkerSide worker_side_{this};
  std::shared_ptr<ForwardedCall> self_;

  mutable std::mutex mutex_;
  // Given back when the call ends, whoever still waits for its last messages.
  routing::CallPermit permit_;
  Direction to_worker_;
  Direction to_client_;
  // An UploadRequest that waits to be put between two of the client's.
  std::optional<grpc::ByteBuffer> drain_request_;
  // When a message last came, also an empty one, by which a client keeps its place.
  TimePoint last_moved_;
  // Whether the last one that was not empty was the worker's.
  bool worker_spoke_last_ = false;
  // Grows with each message that is not empty, when it comes and when it is gone. Whoever only
  // keeps its place has come no further, and has said nothing.
  std::uint64_t step_count_ = 0;
  StallWatch stall_watch_;
  std::optional<grpc::Status> worker_status_;
  absl::Status worker_counted_as_;
  bool is_finished_ = false;
  bool is_ended_for_others_ = false;
  TimePoint finished_at_;
  // From then on gRPC's context is gone.
  bool is_client_done_ = false;
  bool is_worker_done_ = false;
};

}  // namespace kerf
