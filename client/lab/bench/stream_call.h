// One bidirectional call that moves opaque messages: the same for kerfd and for the raw peer, so
// that both cost the client the same.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"

namespace kerf::bench {

// What a call says and hears. Called by one thread at a time.
class Conversation {
 public:
  virtual ~Conversation() = default;

  // The next message to send, if there is one now; asked again after each write and each answer.
  virtual std::optional<grpc::ByteBuffer> NextMessage() = 0;
  // Nothing more will be sent.
  virtual bool IsFinished() const = 0;
  // A status that is not OK ends the call with it.
  virtual absl::Status OnAnswer(grpc::ByteBuffer& message) = 0;
  // The server has ended the call with OK: whether all has come that was to come.
  virtual absl::Status OnEnd() = 0;
};

// Thread-safe. Begins when it is made.
class StreamCall : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // `conversation` must outlive it.
  StreamCall(const std::shared_ptr<grpc::Channel>& channel, const char* method,
             Conversation* conversation);
  // Cancels a call that has not ended, and waits for its end.
  ~StreamCall() override;
  StreamCall(const StreamCall&) = delete;
  StreamCall& operator=(const StreamCall&) = delete;

  void Cancel() { context_.TryCancel(); }
  // The call's end, or nothing after `limit`.
  std::optional<absl::Status> WaitFor(std::chrono::milliseconds limit);

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  // With mutex_ held.
  void WriteNext();

  Conversation* const conversation_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer read_buffer_;
  grpc::ByteBuffer write_buffer_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_writing_ = false;
  bool is_reading_over_ = false;
  bool has_said_all_ = false;
  absl::Status failure_;
  std::optional<absl::Status> end_;
};

}  // namespace kerf::bench
