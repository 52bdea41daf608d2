// One Upload stream: frames out, answers in. docs/spec/protocol.md has the rules.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "base/limits.h"
#include "client/cpp/memory_offer.h"
#include "client/cpp/message_block.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/byte_buffer.h"
#include "kerf/v1/chunking.pb.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::client {

// Told of everything that the server answers, in order, on the stream's own answer thread. It may
// block: then the server is soon told to wait, too. What OnAnswer throws for want of memory
// (out_of_memory.h) ends the stream with that; OnEnd must not throw.
class AnswerHandler {
 public:
  virtual ~AnswerHandler() = default;
  virtual void OnAnswer(const v1::UploadAnswer& answer) = 0;
  // All answers of one message have been handed over.
  virtual void OnMessageEnd() {}
  // Exactly once, last. OK only if the server ended the stream after FinishWrites.
  virtual void OnEnd(const absl::Status& status) = 0;
};

// What a server takes of a client that cuts; as of Opened.
struct NamingLimits {
  std::size_t digest_bytes = 0;
  std::uint32_t max_frame_chunks = 0;
  // Of files, by one message.
  std::uint32_t max_named_bytes = 0;
  // Encoded; kMinMessageBytes at least.
  std::size_t max_message_bytes = 0;
};

// Where bytes of a file lie until their chunks are answered.
struct DataRef {
  BlockRef block;
  std::size_t position = 0;
};

// The writer's methods (BeginFile to Flush) belong to one thread; the others may be called from
// any. After a failure, which OnEnd tells, all of them do nothing and DataSpan is empty. A server
// that does not read what it is told fails the stream with ResourceExhausted.
class UploadStream {
 public:
  struct Options {
    v1::Open open;
    // Blocks of the pool bound the data that has been sent and not been released by the handler;
    // they must hold at least two of the profile's largest chunks.
    std::size_t block_bytes = std::size_t{512} * 1024;
    std::size_t max_blocks = 32;
    // Of commits and reports that wait to be sent. Several times what a server that reads lets come
    // together. Waiting for room instead could wait for ever: those who commit are also those who
    // read the answers, and a server may read nothing before its answers are read.
    std::size_t max_control_bytes = std::size_t{64} << 20;
    // After this long without a message, an empty one tells the server that the stream is still
    // wanted.
    std::chrono::milliseconds keep_place = limits::kKeepPlace;
    // Tells fronts which worker the stream shall meet; empty: any.
    std::string shard_key = "";
    // Names of workers that it shall not meet while there are others.
    std::vector<std::string> avoid = {};
    // That its server has, of block_bytes * max_blocks; null: none.
    std::shared_ptr<MemoryOffer> memory = nullptr;
  };

  // Connects and sends Open. `handler` must outlive the stream.
  UploadStream(const std::shared_ptr<grpc::Channel>& channel, const Options& options,
               AnswerHandler& handler);
  // Cancels a stream that has not ended and waits for OnEnd.
  ~UploadStream();
  UploadStream(const UploadStream&) = delete;
  UploadStream& operator=(const UploadStream&) = delete;

  // One of the next three is called before the first file, once Opened has said what this side may
  // send. Commits and reports are as long as their caller makes them.

  // Messages of data have at most so many bytes; kMinMessageBytes at least.
  void LimitData(std::size_t max_message_bytes);
  // Data lies in the memory of the options, and is not sent: messages say where. A message has at
  // most max_message_bytes, and says so of at most max_named_bytes, which is a block at least.
  void ShareData(std::size_t max_message_bytes, std::uint32_t max_named_bytes);
  // This side cuts: data is kept and not sent, and NameChunk says in its place what it is.
  void NameChunks(const NamingLimits& limits);
  // The next chunk of the file. Its bytes may have been committed or not.
  void NameChunk(const Digest& digest, std::uint32_t length_bytes);

  // Returns the file's number in the stream.
  std::uint64_t BeginFile(std::string_view file_key, std::uint64_t size_hint_bytes,
                          std::uint64_t start_offset);
  // Where to put the next bytes of the file: at least kMinSpanBytes, or a thirty-second part of
  // what a message may have. Waits while all blocks are in use. Empty if the stream has failed.
  // Valid until the next call.
  std::span<std::uint8_t> DataSpan();
  // The first `count` bytes of the last DataSpan are content. Says where they lie.
  DataRef CommitData(std::size_t count);
  void EndFile(std::uint64_t size_bytes, std::span<const std::uint8_t> content_hash);
  // Sends what has been collected. Otherwise a message is sent when its block is full.
  void Flush();

  void Commit(const v1::Commit& commit);
  void ReportStale(const v1::ReportStale& report);
  // After the last frame: the server ends the stream once it has answered everything.
  void FinishWrites();
  // Tells the server that the stream is still wanted if it was told nothing for keep_place. The
  // stream does so itself, unless the handler holds it up.
  void KeepPlace();
  // Ends the stream now.
  void Cancel();
  // Waits for OnEnd, and returns its status.
  absl::Status Wait();
  // By which the logs of servers know it (failed_call.h); its end's status knows it, too.
  const std::string& request_id() const { return request_id_; }

  static constexpr std::size_t kMinSpanBytes = std::size_t{16} * 1024;
  // Room for the beginning of a file whose key is as long as there are.
  static constexpr std::size_t kMinMessageBytes = std::size_t{8} * 1024;

 private:
  class Reactor;

  bool EnsureRoom(std::size_t count);
  bool EnsureContentRoom();
  void AppendFrame(const v1::UploadFrame& frame);
  // Ends the frame of names, or of shared data, that is being made.
  void CloseFrame();
  void CloseNames();
  void CloseShared();
  void NoteShared(std::size_t position, std::size_t count);
  // The server has read all of the file up to here, and of the files before.
  void ReleaseShared(std::uint64_t file_number, std::uint64_t end_offset);
  void SendBlock();
  // A message of one frame, which has that field alone.
  void SendControl(int frame_field, const google::protobuf::MessageLite& content);
  absl::Status HandOver(grpc::ByteBuffer& message, v1::UploadResponse& response);
  void RunAnswers();

  AnswerHandler& handler_;
  const std::string request_id_;
  const std::size_t block_bytes_;
  const std::size_t max_blocks_;
  BlockPool pool_;
  std::size_t min_span_bytes_ = kMinSpanBytes;
  // The message that is being made.
  BlockRef block_;
  // While chunks are named, or data is shared, messages are small, and have blocks of their own:
  // data that waits for their answers must not keep them from being sent.
  BlockPool names_pool_;
  bool names_chunks_ = false;
  const std::shared_ptr<MemoryOffer> memory_;
  bool shares_data_ = false;
  v1::SharedData shared_;
  // What the server may still read, in the order in which it does: whoever wrote it may be done
  // with it already, as with what is sent again. Told by answers, and so with a lock of its own.
  struct Unread {
    BlockRef block;
    std::uint64_t file_number = 0;
    std::uint64_t end_offset = 0;
  };
  std::mutex unread_mutex_;
  std::deque<Unread> unread_;
  // Of the file, behind what was committed last.
  std::uint64_t file_offset_ = 0;
  NamingLimits naming_;
  BlockRef content_;
  v1::UploadFrame names_;
  // Of files, that the message names, or says where they lie.
  std::uint64_t message_named_bytes_ = 0;
  std::uint64_t file_count_ = 0;
  std::unique_ptr<Reactor> reactor_;
  absl::Status end_status_;
  std::thread answer_thread_;
};

}  // namespace kerf::client
