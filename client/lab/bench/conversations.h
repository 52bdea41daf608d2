// What the benchmark's calls say: an upload to kerfd, the same bytes to the raw peer, and an upload
// that only opens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "client/lab/bench/answer_check.h"
#include "client/lab/bench/messages.h"
#include "client/lab/bench/stream_call.h"
#include "client/lab/bench/upload_source.h"

namespace kerf::bench {

inline constexpr char kUploadMethod[] = "/kerf.v1.ChunkingService/Upload";

// Sends one file and commits what is answered NEW, as an agent does whose store is infinitely fast.
// Checks every answer.
class UploadConversation final : public Conversation {
 public:
  // `options` and `expected` must outlive it.
  UploadConversation(const ServiceOptions& options, const std::string& repository,
                     std::unique_ptr<UploadSource> source, std::span<const LocalChunk> expected);

  std::optional<grpc::ByteBuffer> NextMessage() override;
  bool IsFinished() const override { return check_.is_done(); }
  absl::Status OnAnswer(grpc::ByteBuffer& message) override;
  absl::Status OnEnd() override;

  std::size_t duplicate_count() const { return check_.duplicate_count(); }
  std::size_t answer_message_count() const { return answer_message_count_; }
  std::uint64_t answer_bytes() const { return answer_bytes_; }

 private:
  absl::Status OnOneAnswer(const v1::UploadAnswer& answer);

  const std::size_t digest_bytes_;
  const std::unique_ptr<UploadSource> source_;
  const std::span<const LocalChunk> expected_;
  grpc::ByteBuffer open_;
  bool has_opened_ = false;
  // Who cuts may not begin before the server has said so.
  bool may_send_ = false;
  AnswerCheck check_;
  v1::UploadResponse response_;
  std::size_t answer_message_count_ = 0;
  std::uint64_t answer_bytes_ = 0;
};

// Sends the messages of one file to the raw peer.
class RawConversation final : public Conversation {
 public:
  explicit RawConversation(const FileMessages* messages) : messages_(messages) {}

  std::optional<grpc::ByteBuffer> NextMessage() override;
  bool IsFinished() const override { return next_message_ == messages_->count(); }
  absl::Status OnAnswer(grpc::ByteBuffer& message) override;
  absl::Status OnEnd() override;

 private:
  const FileMessages* const messages_;
  std::size_t next_message_ = 0;
  std::size_t answer_count_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t received_bytes_ = 0;
};

// Opens an upload and then says nothing.
class IdleConversation final : public Conversation {
 public:
  IdleConversation(const ServiceOptions& options, const std::string& repository)
      : open_(OpenMessage(options, repository)) {}

  std::optional<grpc::ByteBuffer> NextMessage() override;
  bool IsFinished() const override { return false; }
  absl::Status OnAnswer(grpc::ByteBuffer& message) override;
  absl::Status OnEnd() override { return absl::OkStatus(); }

  // Waits for the answer to Open; false after `limit`.
  bool WaitOpened(std::chrono::milliseconds limit);

 private:
  grpc::ByteBuffer open_;
  bool has_opened_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_answered_ = false;
};

}  // namespace kerf::bench
