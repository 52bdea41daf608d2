#include "client/cpp/upload_stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/request_id.h"
#include "base/strings.h"
#include "client/cpp/channel.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/out_of_memory.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace kerf::client {
namespace {

constexpr char kUploadMethod[] = "/kerf.v1.ChunkingService/Upload";
constexpr char kShardKeyMetadata[] = "kerf-shard-key";
constexpr char kAvoidMetadata[] = "kerf-avoid-worker-bin";

// Field 1 of UploadRequest and field 3 of UploadFrame, both length-delimited.
constexpr std::uint8_t kFramesTag = (1 << 3) | 2;
constexpr std::uint8_t kDataTag = (3 << 3) | 2;
// Lengths are written as varints of a fixed four bytes, so that a header can stand before bytes
// that are not read yet.
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kDataHeaderBytes = 2 * (1 + kLengthBytes);
// Of messages that name chunks: so many of them wait to be sent, at most.
constexpr std::size_t kNamesBlockBytes = std::size_t{64} * 1024;
constexpr std::size_t kNamesBlocks = 4;
constexpr std::uint32_t kMaxFrameNames = 512;
// Of a frame of names: two tags and lengths around it, and those of its two fields.
constexpr std::size_t kNamesHeaderBytes = 4 * (1 + kLengthBytes);
// Of a chunk's length, as a varint.
constexpr std::size_t kMaxLengthFieldBytes = 5;
// Of the end of a message less stays empty than this part of it.
constexpr std::size_t kMinSpansOfMessage = 32;
// So much of files is named by one message, and answered at once: less costs more messages, and
// more keeps the server, and this side's store, waiting.
constexpr std::uint32_t kMaxMessageNamedBytes = std::uint32_t{2} << 20;
// Messages that wait for the handler.
constexpr std::size_t kMaxUnreadMessages = 16;
constexpr std::size_t kMaxUnreadBytes = std::size_t{1} << 20;

void PutLength(std::uint8_t* out, std::size_t length) {
  KERF_CHECK(length < (std::size_t{1} << 28));
  for (std::size_t index = 0; index < kLengthBytes; ++index) {
    const std::size_t more = index + 1 < kLengthBytes ? 0x80 : 0;
    out[index] = static_cast<std::uint8_t>(((length >> (7 * index)) & 0x7F) | more);
  }
}

grpc::Slice SliceOf(BlockRef block) {
  auto* owner = new BlockRef(std::move(block));
  return {(*owner)->data(), (*owner)->size_bytes(),
          [](void* user_data) { delete static_cast<BlockRef*>(user_data); }, owner};
}

}  // namespace

class UploadStream::Reactor final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Reactor(const std::shared_ptr<grpc::Channel>& channel, const Options& options,
          const std::string& request_id)
      : max_control_bytes_(options.max_control_bytes),
        keep_place_(options.keep_place),
        stub_(channel) {
    context_.AddMetadata(kRequestIdMetadata, request_id);
    if (!options.shard_key.empty()) context_.AddMetadata(kShardKeyMetadata, options.shard_key);
    for (const std::string& name : options.avoid) context_.AddMetadata(kAvoidMetadata, name);
    stub_.PrepareBidiStreamingCall(&context_, kUploadMethod, {}, this);
    // Writes start outside reactions; the hold goes when nothing can be read any more.
    AddHold();
    StartRead(&read_buffer_);
    StartCall();
  }

  // The pool bounds the blocks; what is not in a block is counted here.
  enum class Kind : std::uint8_t { kBlock, kControl };

  void Enqueue(const grpc::Slice& slice, Kind kind) {
    std::lock_guard lock(mutex_);
    if (dead_) return;
    const std::size_t control_bytes = kind == Kind::kControl ? slice.size() : 0;
    if (control_bytes > max_control_bytes_ - control_bytes_) {
      overflowed_ = true;
      Die();
      context_.TryCancel();
      return;
    }
    control_bytes_ += control_bytes;
    outgoing_.push_back({grpc::ByteBuffer(&slice, 1), control_bytes});
    WriteNext();
  }

  void FinishWrites() {
    std::lock_guard lock(mutex_);
    finish_requested_ = true;
    WriteNext();
  }

  void Cancel() { context_.TryCancel(); }

  void KeepPlace() {
    std::lock_guard lock(mutex_);
    KeepPlaceLocked();
  }

  // The next message, or false once the stream is done.
  bool NextMessage(grpc::ByteBuffer& message) {
    std::unique_lock lock(mutex_);
    const auto has_news = [this] { return !incoming_.empty() || done_; };
    while (!changed_.wait_for(lock, keep_place_, has_news)) KeepPlaceLocked();
    if (incoming_.empty()) return false;
    message.Swap(&incoming_.front());
    incoming_.pop_front();
    incoming_bytes_ -= message.Length();
    if (read_paused_) {
      read_paused_ = false;
      StartRead(&read_buffer_);
    }
    return true;
  }

  // Cancels, and waits until gRPC calls no more. In place of NextMessage.
  void End() {
    Cancel();
    std::unique_lock lock(mutex_);
    while (!done_) {
      incoming_.clear();
      incoming_bytes_ = 0;
      if (std::exchange(read_paused_, false)) StartRead(&read_buffer_);
      changed_.wait(lock);
    }
  }

  // After NextMessage returned false.
  absl::Status final_status() const {
    if (out_of_memory_) return OutOfMemory();
    if (overflowed_) {
      return absl::ResourceExhaustedError(
          "the server does not read what it is told: too many "
          "commits and reports wait to be sent");
    }
    return FromGrpc(status_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Outgoing {
    grpc::ByteBuffer buffer;
    std::size_t control_bytes = 0;
  };

  void Die() {
    dead_ = true;
    outgoing_.clear();
  }

  void WriteNext() {
    if (dead_ || write_running_) return;
    if (!outgoing_.empty()) {
      write_buffer_.Swap(&outgoing_.front().buffer);
      control_bytes_ -= outgoing_.front().control_bytes;
      outgoing_.pop_front();
      write_running_ = true;
      last_write_ = Clock::now();
      StartWrite(&write_buffer_);
    } else if (finish_requested_ && !finish_sent_) {
      finish_sent_ = true;
      StartWritesDone();
    }
  }

  void KeepPlaceLocked() {
    if (finish_requested_ || dead_ || write_running_) return;
    if (Clock::now() - last_write_ < keep_place_) return;
    const grpc::Slice nothing;
    outgoing_.push_back({grpc::ByteBuffer(&nothing, 1), 0});
    WriteNext();
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    write_running_ = false;
    write_buffer_.Clear();
    if (!ok) Die();
    WriteNext();
  }

  void OnReadDone(bool ok) override {
    std::lock_guard lock(mutex_);
    if (!ok) {
      Die();
      RemoveHold();
      return;
    }
    if (!KeepIncomingLocked()) {
      // It is read to its end, and what comes is of no use without what was lost.
      Die();
      context_.TryCancel();
      StartRead(&read_buffer_);
      return;
    }
    changed_.notify_all();
    if (incoming_.size() < kMaxUnreadMessages && incoming_bytes_ < kMaxUnreadBytes) {
      StartRead(&read_buffer_);
    } else {
      read_paused_ = true;
    }
  }

  // gRPC drops what its callbacks throw, and nobody would learn that an answer is missing.
  bool KeepIncomingLocked() {
    const absl::Status kept = OrOutOfMemory([this] {
      if (!out_of_memory_) incoming_.emplace_back().Swap(&read_buffer_);
      return absl::OkStatus();
    });
    out_of_memory_ = out_of_memory_ || !kept.ok();
    if (out_of_memory_) return false;
    incoming_bytes_ += incoming_.back().Length();
    return true;
  }

  void OnDone(const grpc::Status& status) override {
    std::lock_guard lock(mutex_);
    const absl::Status kept = OrOutOfMemory([&] {
      status_ = status;
      return absl::OkStatus();
    });
    out_of_memory_ = out_of_memory_ || !kept.ok();
    done_ = true;
    changed_.notify_all();
  }

  const std::size_t max_control_bytes_;
  const std::chrono::milliseconds keep_place_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer read_buffer_;
  grpc::ByteBuffer write_buffer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Outgoing> outgoing_;
  // Of those in outgoing_.
  std::size_t control_bytes_ = 0;
  std::deque<grpc::ByteBuffer> incoming_;
  std::size_t incoming_bytes_ = 0;
  grpc::Status status_;
  bool write_running_ = false;
  Clock::time_point last_write_ = Clock::now();
  bool read_paused_ = false;
  bool finish_requested_ = false;
  bool finish_sent_ = false;
  bool dead_ = false;
  bool overflowed_ = false;
  bool out_of_memory_ = false;
  bool done_ = false;
};

UploadStream::UploadStream(const std::shared_ptr<grpc::Channel>& channel, const Options& options,
                           AnswerHandler& handler)
    : handler_(handler),
      request_id_(NewRequestId()),
      block_bytes_(options.block_bytes),
      max_blocks_(options.max_blocks),
      pool_(options.block_bytes, options.max_blocks),
      names_pool_(kNamesBlockBytes, kNamesBlocks),
      memory_(options.memory),
      reactor_(std::make_unique<Reactor>(channel, options, request_id_)) {
  try {
    v1::Open open = options.open;
    if (memory_ != nullptr) open.set_shared_memory(memory_->token());
    SendControl(v1::UploadFrame::kOpenFieldNumber, open);
    answer_thread_ = std::thread([this] { RunAnswers(); });
  } catch (...) {
    // gRPC still calls it.
    reactor_->End();
    throw;
  }
}

UploadStream::~UploadStream() {
  reactor_->Cancel();
  if (answer_thread_.joinable()) answer_thread_.join();
}

// Not OK: the server has said what is no answer.
absl::Status UploadStream::HandOver(grpc::ByteBuffer& message, v1::UploadResponse& response) {
  // A hostile one costs some 40 times as much when it is parsed.
  if (message.Length() > limits::kMaxAnswerBytes) {
    return WrongAnswer(Cat("the server sent an answer of ", message.Length(), " bytes; at most ",
                           limits::kMaxAnswerBytes, " are taken"));
  }
  grpc::ProtoBufferReader reader(&message);
  if (!reader.status().ok() || !response.ParseFromZeroCopyStream(&reader)) {
    return WrongAnswer("the server sent an answer that is no UploadResponse");
  }
  for (const v1::UploadAnswer& answer : response.answers()) {
    handler_.OnAnswer(answer);
    if (memory_ == nullptr || answer.chunks().chunks().empty()) continue;
    ReleaseShared(answer.chunks().file_number(), answer.chunks().chunks().rbegin()->end_offset());
  }
  handler_.OnMessageEnd();
  return absl::OkStatus();
}

void UploadStream::RunAnswers() {
  grpc::ByteBuffer message;
  v1::UploadResponse response;
  // Why this side has ended it.
  absl::Status own;
  for (bool has_ended = false; !has_ended;) {
    const absl::Status taken = OrOutOfMemory([&]() -> absl::Status {
      has_ended = !reactor_->NextMessage(message);
      return has_ended || !own.ok() ? absl::OkStatus() : HandOver(message, response);
    });
    if (taken.ok() || !own.ok()) continue;
    own = taken;
    reactor_->Cancel();
  }
  end_status_ = OrOutOfMemory(
      [&] { return WithRequestId(own.ok() ? reactor_->final_status() : own, request_id_); });
  pool_.Close();
  names_pool_.Close();
  handler_.OnEnd(end_status_);
}

void UploadStream::LimitData(std::size_t max_message_bytes) {
  KERF_CHECK(block_ == nullptr && file_count_ == 0 && max_message_bytes >= kMinMessageBytes);
  if (max_message_bytes >= block_bytes_) return;
  // As much data as before is on its way, in more messages, and as little of them stays empty.
  pool_.Resize(max_message_bytes, block_bytes_ * max_blocks_ / max_message_bytes);
  min_span_bytes_ = std::min(kMinSpanBytes, max_message_bytes / kMinSpansOfMessage);
}

void UploadStream::ShareData(std::size_t max_message_bytes, std::uint32_t max_named_bytes) {
  KERF_CHECK(block_ == nullptr && file_count_ == 0 && max_message_bytes >= kMinMessageBytes);
  KERF_CHECK(memory_ != nullptr && max_named_bytes >= block_bytes_);
  shares_data_ = true;
  naming_.max_named_bytes = std::min(max_named_bytes, kMaxMessageNamedBytes);
  pool_.Resize(block_bytes_, memory_->memory().bytes(), memory_);
  names_pool_.Resize(std::min(kNamesBlockBytes, max_message_bytes), kNamesBlocks);
}

void UploadStream::NoteShared(std::size_t position, std::size_t count) {
  const std::uint64_t offset_bytes =
      static_cast<std::uint64_t>(content_->data() - memory_->memory().bytes().data()) + position;
  if (shared_.length_bytes() > 0 &&
      shared_.offset_bytes() + shared_.length_bytes() != offset_bytes) {
    CloseShared();
  }
  if (shared_.length_bytes() == 0) shared_.set_offset_bytes(offset_bytes);
  shared_.set_length_bytes(shared_.length_bytes() + static_cast<std::uint32_t>(count));
  file_offset_ += count;
  std::lock_guard lock(unread_mutex_);
  if (!unread_.empty() && unread_.back().block == content_ &&
      unread_.back().file_number == file_count_) {
    unread_.back().end_offset = file_offset_;
  } else {
    unread_.push_back({content_, file_count_, file_offset_});
  }
}

void UploadStream::ReleaseShared(std::uint64_t file_number, std::uint64_t end_offset) {
  // Given back without the lock.
  std::deque<Unread> read;
  std::lock_guard lock(unread_mutex_);
  while (!unread_.empty() && (unread_.front().file_number < file_number ||
                              (unread_.front().file_number == file_number &&
                               unread_.front().end_offset <= end_offset))) {
    read.push_back(std::move(unread_.front()));
    unread_.pop_front();
  }
}

void UploadStream::CloseShared() {
  const std::uint32_t length_bytes = shared_.length_bytes();
  if (length_bytes == 0) return;
  if (message_named_bytes_ + length_bytes > naming_.max_named_bytes) SendBlock();
  v1::UploadFrame frame;
  *frame.mutable_shared_data() = std::exchange(shared_, {});
  AppendFrame(frame);
  message_named_bytes_ += length_bytes;
}

void UploadStream::CloseFrame() {
  CloseNames();
  CloseShared();
}

void UploadStream::NameChunks(const NamingLimits& limits) {
  KERF_CHECK(block_ == nullptr && file_count_ == 0 && limits.max_message_bytes >= kMinMessageBytes);
  names_chunks_ = true;
  naming_ = limits;
  const std::size_t block_bytes = std::min(kNamesBlockBytes, limits.max_message_bytes);
  names_pool_.Resize(block_bytes, kNamesBlocks);
  // A frame fits into what a block has left, or into the next one.
  const std::size_t name_bytes = limits.digest_bytes + kMaxLengthFieldBytes;
  const std::size_t fitting = (block_bytes - kNamesHeaderBytes) / name_bytes;
  naming_.max_frame_chunks =
      std::min({limits.max_frame_chunks, kMaxFrameNames, static_cast<std::uint32_t>(fitting)});
  naming_.max_named_bytes = std::min(limits.max_named_bytes, kMaxMessageNamedBytes);
}

void UploadStream::NameChunk(const Digest& digest, std::uint32_t length_bytes) {
  if (message_named_bytes_ > 0 && message_named_bytes_ + length_bytes > naming_.max_named_bytes) {
    Flush();
  }
  v1::ChunkDigests& names = *names_.mutable_chunk_digests();
  names.mutable_digests()->append(reinterpret_cast<const char*>(digest.bytes.data()),
                                  naming_.digest_bytes);
  names.add_lengths_bytes(length_bytes);
  message_named_bytes_ += length_bytes;
  if (static_cast<std::uint32_t>(names.lengths_bytes_size()) >= naming_.max_frame_chunks) {
    CloseNames();
  }
}

void UploadStream::CloseNames() {
  if (names_.chunk_digests().lengths_bytes().empty()) return;
  const std::size_t frame_bytes = 1 + kLengthBytes + names_.ByteSizeLong();
  // Sending what is there must not take these for sent.
  if (block_ != nullptr && block_->free_bytes() < frame_bytes) {
    std::uint64_t bytes = 0;
    for (const std::uint32_t length_bytes : names_.chunk_digests().lengths_bytes()) {
      bytes += length_bytes;
    }
    SendBlock();
    message_named_bytes_ = bytes;
  }
  AppendFrame(names_);
  names_.mutable_chunk_digests()->Clear();
}

bool UploadStream::EnsureRoom(std::size_t count) {
  if (block_ != nullptr && block_->free_bytes() < count) SendBlock();
  if (block_ == nullptr) {
    block_ = names_chunks_ || shares_data_ ? names_pool_.Acquire() : pool_.Acquire();
  }
  return block_ != nullptr;
}

bool UploadStream::EnsureContentRoom() {
  if (content_ != nullptr && content_->free_bytes() < min_span_bytes_) content_ = nullptr;
  if (content_ != nullptr) return true;
  // What is shared is sent as often as it would be as bytes.
  if (shares_data_) Flush();
  content_ = pool_.TryAcquire();
  if (content_ != nullptr) return true;
  // Blocks come back with the answers to what is named, so that has to be sent.
  Flush();
  content_ = pool_.Acquire();
  return content_ != nullptr;
}

void UploadStream::AppendFrame(const v1::UploadFrame& frame) {
  const std::size_t length = frame.ByteSizeLong();
  if (!EnsureRoom(1 + kLengthBytes + length)) return;
  std::uint8_t* out = block_->end();
  out[0] = kFramesTag;
  PutLength(out + 1, length);
  frame.SerializeWithCachedSizesToArray(out + 1 + kLengthBytes);
  block_->Grow(1 + kLengthBytes + length);
}

std::uint64_t UploadStream::BeginFile(std::string_view file_key, std::uint64_t size_hint_bytes,
                                      std::uint64_t start_offset) {
  v1::UploadFrame frame;
  v1::FileBegin& begin = *frame.mutable_file_begin();
  begin.set_file_key(file_key.data(), file_key.size());
  begin.set_size_hint_bytes(size_hint_bytes);
  begin.set_start_offset(start_offset);
  file_offset_ = start_offset;
  CloseFrame();
  AppendFrame(frame);
  return ++file_count_;
}

std::span<std::uint8_t> UploadStream::DataSpan() {
  if (names_chunks_ || shares_data_) {
    if (!EnsureContentRoom()) return {};
    return {content_->end(), content_->free_bytes()};
  }
  if (!EnsureRoom(kDataHeaderBytes + min_span_bytes_)) return {};
  return {block_->end() + kDataHeaderBytes, block_->free_bytes() - kDataHeaderBytes};
}

DataRef UploadStream::CommitData(std::size_t count) {
  if (names_chunks_ || shares_data_) {
    if (count == 0 || content_ == nullptr) return {};
    const DataRef reference{content_, content_->size_bytes()};
    content_->Grow(count);
    if (shares_data_) NoteShared(reference.position, count);
    return reference;
  }
  if (count == 0 || block_ == nullptr) return {};
  KERF_CHECK(count + kDataHeaderBytes <= block_->free_bytes());
  std::uint8_t* out = block_->end();
  out[0] = kFramesTag;
  PutLength(out + 1, 1 + kLengthBytes + count);
  out[1 + kLengthBytes] = kDataTag;
  PutLength(out + 2 + kLengthBytes, count);
  DataRef reference{block_, block_->size_bytes() + kDataHeaderBytes};
  block_->Grow(kDataHeaderBytes + count);
  return reference;
}

void UploadStream::EndFile(std::uint64_t size_bytes, std::span<const std::uint8_t> content_hash) {
  v1::UploadFrame frame;
  v1::FileEnd& end = *frame.mutable_file_end();
  end.set_size_bytes(size_bytes);
  end.set_content_hash(content_hash.data(), content_hash.size());
  CloseFrame();
  AppendFrame(frame);
}

void UploadStream::SendBlock() {
  if (block_ == nullptr || block_->size_bytes() == 0) return;
  message_named_bytes_ = 0;
  reactor_->Enqueue(SliceOf(std::move(block_)), Reactor::Kind::kBlock);
  block_ = nullptr;
}

void UploadStream::Flush() {
  CloseFrame();
  SendBlock();
}

// Encoded once, where it is sent from: a commit has thousands of entries, and a message that held
// a copy of each would allocate five times for it.
void UploadStream::SendControl(int frame_field, const google::protobuf::MessageLite& content) {
  const std::size_t content_bytes = content.ByteSizeLong();
  const std::size_t size_bytes = 2 * (1 + kLengthBytes) + content_bytes;
  auto encoded = std::make_unique_for_overwrite<std::uint8_t[]>(size_bytes);
  std::uint8_t* const out = encoded.get();
  out[0] = kFramesTag;
  PutLength(out + 1, 1 + kLengthBytes + content_bytes);
  out[1 + kLengthBytes] = static_cast<std::uint8_t>(frame_field << 3 | 2);
  PutLength(out + 2 + kLengthBytes, content_bytes);
  content.SerializeWithCachedSizesToArray(out + 2 * (1 + kLengthBytes));
  const grpc::Slice slice(encoded.release(), size_bytes,
                          [](void* bytes) { delete[] static_cast<std::uint8_t*>(bytes); });
  reactor_->Enqueue(slice, Reactor::Kind::kControl);
}

void UploadStream::Commit(const v1::Commit& commit) {
  SendControl(v1::UploadFrame::kCommitFieldNumber, commit);
}

void UploadStream::ReportStale(const v1::ReportStale& report) {
  SendControl(v1::UploadFrame::kReportStaleFieldNumber, report);
}

void UploadStream::FinishWrites() { reactor_->FinishWrites(); }

void UploadStream::KeepPlace() { reactor_->KeepPlace(); }

void UploadStream::Cancel() { reactor_->Cancel(); }

absl::Status UploadStream::Wait() {
  if (answer_thread_.joinable()) answer_thread_.join();
  return end_status_;
}

}  // namespace kerf::client
