#include "client/lab/bench/conversations.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/lab/bench/raw_peer.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace kerf::bench {
namespace {

// Chunks of one commit, about 19 MB of data: an agent commits a pack at a time.
constexpr std::size_t kCommitChunks = 2048;

}  // namespace

UploadConversation::UploadConversation(const ServiceOptions& options, const std::string& repository,
                                       std::unique_ptr<UploadSource> source,
                                       std::span<const LocalChunk> expected)
    : digest_bytes_(DigestSizeBytes(options.digest)),
      source_(std::move(source)),
      expected_(expected),
      open_(OpenMessage(options, repository, source_->cuts(), source_->token())),
      may_send_(!source_->cuts() && source_->token().empty()),
      check_(expected, digest_bytes_, source_->cuts() ? BytesCheck::kNone : BytesCheck::kAnswered) {
}

std::optional<grpc::ByteBuffer> UploadConversation::NextMessage() {
  if (!std::exchange(has_opened_, true)) return std::move(open_);
  const std::span<const std::size_t> pending = check_.new_positions();
  if (pending.size() >= kCommitChunks || (check_.has_all() && !pending.empty())) {
    // A batch of answers may hold more than one commit may.
    grpc::ByteBuffer commit = CommitMessage(
        expected_, pending.first(std::min(pending.size(), kCommitChunks)), digest_bytes_);
    check_.ForgetNew(std::min(pending.size(), kCommitChunks));
    return commit;
  }
  return may_send_ ? source_->Next() : std::nullopt;
}

absl::Status UploadConversation::OnAnswer(grpc::ByteBuffer& message) {
  ++answer_message_count_;
  answer_bytes_ += message.Length();
  grpc::ProtoBufferReader reader(&message);
  if (!reader.status().ok() || !response_.ParseFromZeroCopyStream(&reader)) {
    return absl::DataLossError("the server sent an answer that is no UploadResponse");
  }
  for (const v1::UploadAnswer& answer : response_.answers()) {
    KERF_RETURN_IF_ERROR(OnOneAnswer(answer));
  }
  return absl::OkStatus();
}

absl::Status UploadConversation::OnOneAnswer(const v1::UploadAnswer& answer) {
  switch (answer.answer_case()) {
    case v1::UploadAnswer::kOpened:
      if (source_->cuts() && answer.opened().cutter() != v1::CUTTER_CLIENT) {
        return absl::FailedPreconditionError(
            "the server cuts files of this profile itself, or is older than 0.2: leave --local-cut "
            "out");
      }
      if (!source_->token().empty() && !answer.opened().takes_shared_data()) {
        return absl::FailedPreconditionError(
            "the server has not taken the memory that was offered to it: leave --shared-memory "
            "out");
      }
      may_send_ = true;
      return absl::OkStatus();
    case v1::UploadAnswer::kChunks:
      if (!answer.chunks().chunks().empty()) {
        source_->Answered(answer.chunks().chunks().rbegin()->end_offset());
      }
      return check_.Take(answer.chunks());
    case v1::UploadAnswer::kFileDone:
      return check_.TakeDone(answer.file_done());
    case v1::UploadAnswer::kGoAway:
      return absl::UnavailableError("the server is stopping");
    default:
      return absl::OkStatus();
  }
}

absl::Status UploadConversation::OnEnd() {
  if (check_.is_done()) return absl::OkStatus();
  return absl::DataLossError("the server ended the stream before the file was done");
}

std::optional<grpc::ByteBuffer> RawConversation::NextMessage() {
  if (next_message_ == messages_->count()) return std::nullopt;
  grpc::ByteBuffer message = messages_->Message(next_message_++);
  sent_bytes_ += message.Length();
  return message;
}

absl::Status RawConversation::OnAnswer(grpc::ByteBuffer& message) {
  grpc::Slice slice;
  if (!message.DumpToSingleSlice(&slice).ok() || slice.size() < sizeof received_bytes_) {
    return absl::DataLossError("the raw peer sent an answer that is none");
  }
  std::memcpy(&received_bytes_, slice.begin(), sizeof received_bytes_);
  ++answer_count_;
  return absl::OkStatus();
}

absl::Status RawConversation::OnEnd() {
  if (answer_count_ == messages_->count() && received_bytes_ == sent_bytes_) {
    return absl::OkStatus();
  }
  return absl::DataLossError(ToAbsl(Cat("the raw peer has received ", received_bytes_,
                                        " bytes, and ", sent_bytes_, " were sent")));
}

std::optional<grpc::ByteBuffer> IdleConversation::NextMessage() {
  if (std::exchange(has_opened_, true)) return std::nullopt;
  return std::move(open_);
}

absl::Status IdleConversation::OnAnswer(grpc::ByteBuffer& /*message*/) {
  const std::lock_guard lock(mutex_);
  is_answered_ = true;
  changed_.notify_all();
  return absl::OkStatus();
}

bool IdleConversation::WaitOpened(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return is_answered_; });
}

}  // namespace kerf::bench
