#include "client/lab/bench/stream_call.h"

#include <utility>

#include "client/cpp/channel.h"

namespace kerf::bench {

StreamCall::StreamCall(const std::shared_ptr<grpc::Channel>& channel, const char* method,
                       Conversation* conversation)
    : conversation_(conversation), stub_(channel) {
  stub_.PrepareBidiStreamingCall(&context_, method, {}, this);
  const std::lock_guard lock(mutex_);
  // Writes also start where an answer has come: the hold goes when nothing is read any more.
  AddHold();
  StartRead(&read_buffer_);
  WriteNext();
  StartCall();
}

StreamCall::~StreamCall() {
  Cancel();
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return end_.has_value(); });
}

std::optional<absl::Status> StreamCall::WaitFor(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, limit, [this] { return end_.has_value(); });
  return end_;
}

void StreamCall::WriteNext() {
  if (is_writing_ || is_reading_over_ || has_said_all_) return;
  if (std::optional<grpc::ByteBuffer> message = conversation_->NextMessage(); message.has_value()) {
    write_buffer_.Swap(&*message);
    is_writing_ = true;
    StartWrite(&write_buffer_);
  } else if (conversation_->IsFinished()) {
    has_said_all_ = true;
    StartWritesDone();
  }
}

void StreamCall::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  is_writing_ = false;
  write_buffer_.Clear();
  // After a failed write, the end of reading brings the reason.
  if (ok) WriteNext();
}

void StreamCall::OnReadDone(bool ok) {
  const std::lock_guard lock(mutex_);
  if (!ok) {
    is_reading_over_ = true;
    RemoveHold();
    return;
  }
  if (failure_.ok()) {
    failure_ = conversation_->OnAnswer(read_buffer_);
    if (!failure_.ok()) Cancel();
  }
  read_buffer_.Clear();
  StartRead(&read_buffer_);
  WriteNext();
}

void StreamCall::OnDone(const grpc::Status& status) {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) {
    end_ = failure_;
  } else {
    end_ = client::FromGrpc(status);
    if (end_->ok()) end_ = conversation_->OnEnd();
  }
  ended_.notify_all();
}

}  // namespace kerf::bench
