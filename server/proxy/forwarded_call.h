// One call that a front passes on to a worker and back, whatever its method: messages are neither
// parsed nor copied, and each side is read no faster than the other one reads.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/front/upload_stream.h"
#include "server/proxy/front_metrics.h"
#include "server/routing/worker_set.h"

namespace kerf {

class ForwardedCalls;

// At most two messages of each direction are in memory: one that is being written, and the next.
// Owned by gRPC, which uses it from two sides, until both have ended. Thread-safe.
class ForwardedCall : public grpc::ServerGenericBidiReactor {
 public:
  struct Options {
    // Until the client has read a message.
    std::chrono::milliseconds write_stall{60'000};
    const Clock* clock = nullptr;
    ForwardedCalls* registry = nullptr;
    // Told of a worker that cannot be reached.
    routing::WorkerSet* workers = nullptr;
    FrontMetrics* metrics = nullptr;
  };

  static ForwardedCall* Start(const Options& options, grpc::GenericCallbackServerContext* context,
                              routing::Route route);
  ForwardedCall(const ForwardedCall&) = delete;
  ForwardedCall& operator=(const ForwardedCall&) = delete;

  // For the watchdog: ends the call if its client does not read. Whether this call did so.
  bool CheckTime(TimePoint now);
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
    grpc::ByteBuffer next;
    grpc::ByteBuffer current;
    bool is_reading = false;
    bool has_next = false;
    bool is_writing = false;
    // Nothing more comes from where it is read, or can be said to where it is written.
    bool read_ended = false;
    bool write_ended = false;
  };

  ForwardedCall(const Options& options, grpc::GenericCallbackServerContext* context,
                routing::Route route);
  void StartWorkerSide();
  void OnWorkerMetadata(bool ok);
  void OnWorkerReadDone(bool ok);
  void OnWorkerWriteDone(bool ok);
  void OnWorkerDone(const grpc::Status& status);

  // The rest is called with mutex_ held. The first two start what can be started.
  void PumpToWorkerLocked();
  void PumpToClientLocked();
  void ReadFromWorkerLocked();
  // `counted_as` is OK for what the worker said, whatever that is.
  void FinishLocked(const grpc::Status& status, const absl::Status& counted_as);
  // What the client is told of the worker's status; `counted_as` as of FinishLocked.
  grpc::Status Translate(const grpc::Status& status, absl::Status* counted_as) const;
  // The call's hold on itself, once both sides have ended; to be dropped without the lock.
  std::shared_ptr<ForwardedCall> TakeSelfLocked();

  const Options options_;
  grpc::GenericCallbackServerContext* const context_;
  const bool is_upload_;
  const std::string request_id_;
  const routing::Route route_;
  grpc::ClientContext worker_context_;
  grpc::GenericStub stub_;
  WorkerSide worker_side_{this};
  std::shared_ptr<ForwardedCall> self_;

  std::mutex mutex_;
  Direction to_worker_;
  Direction to_client_;
  // An UploadRequest that waits to be put between two of the client's.
  std::optional<grpc::ByteBuffer> drain_request_;
  TimePoint client_write_began_;
  std::optional<grpc::Status> worker_status_;
  absl::Status worker_counted_as_;
  bool is_finished_ = false;
  TimePoint finished_at_;
  // From then on gRPC's context is gone.
  bool is_client_done_ = false;
  bool is_worker_done_ = false;
};

}  // namespace kerf
