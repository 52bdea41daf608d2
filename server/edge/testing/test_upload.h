// A server in the process of a test, and the plainest possible client of one upload.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kerf/v1/chunking.grpc.pb.h"
#include "server/edge/server.h"
#include "server/index/index.h"

namespace kerf {

// A fresh path for a unix socket.
std::string FreshSocketAddress();

std::shared_ptr<grpc::Channel> ConnectTo(const std::string& address);

v1::Open OpenFor(std::string_view repository, std::string_view profile = "fastcdc2020-8k");

// XXH3-128 in canonical form.
std::string ContentHashOf(std::string_view content);

// The reason in the one ErrorInfo of `status`; says what is wrong if there is not exactly one.
std::string ReasonOf(const grpc::Status& status);

// The recipe that the plain chunker and the plain fingerprint give.
struct RecipeChunk {
  std::uint64_t end_offset = 0;
  std::string digest;
  std::uint64_t check = 0;

  friend bool operator==(const RecipeChunk&, const RecipeChunk&) = default;
};
std::vector<RecipeChunk> PlainRecipe(std::string_view content, const v1::Open& open,
                                     std::uint64_t start_offset = 0);

// What FileEnd says of chunks that are named: those of `recipe`, which begins at start_offset.
std::string NamedHashOf(const std::vector<RecipeChunk>& recipe, std::uint64_t start_offset = 0);
// The same chunks in one frame.
v1::ChunkDigests DigestsOf(const std::vector<RecipeChunk>& recipe, std::uint64_t start_offset = 0);

// One Upload stream: frames are written by the caller, answers are gathered by a thread.
class TestUpload {
 public:
  // Without `read`, nothing is read until StartReading.
  // With a shard key, it goes along as metadata, as fronts want it.
  explicit TestUpload(const std::shared_ptr<grpc::Channel>& channel, bool read = true,
                      const std::string& shard_key = "");
  TestUpload(const TestUpload&) = delete;
  TestUpload& operator=(const TestUpload&) = delete;
  ~TestUpload();

  void StartReading();

  // False once the stream is broken.
  bool Send(const v1::UploadRequest& request);
  bool SendOpen(const v1::Open& open);
  bool SendFrame(const std::function<void(v1::UploadFrame&)>& fill);
  // The file in data frames of slice_bytes, one message each; all in one message for 0.
  bool SendFile(std::string_view content, std::size_t slice_bytes = 0,
                std::uint64_t start_offset = 0);
  // The file by its chunks, as a client sends it that cuts; so many in each frame, a message each;
  // all in one message for 0.
  bool SendNamed(const std::vector<RecipeChunk>& recipe, std::size_t frame_chunks = 0,
                 std::uint64_t start_offset = 0);
  // Commits all chunks that were answered NEW or UNVERIFIED since the last call, under `locator`.
  bool CommitAnswered(const std::string& locator = "here");
  void WritesDone() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }

  // Waits until `condition` holds of the answers so far, or the stream has ended.
  bool WaitFor(const std::function<bool(const std::vector<v1::UploadAnswer>&)>& condition);
  bool WaitForDone(std::size_t file_count);
  // Waits for the `nth` answer of a kind, as &v1::UploadAnswer::has_committed; nothing if the
  // stream ended before. Answers of other kinds may come at any time, so "the last one" is
  // nobody's.
  std::optional<v1::UploadAnswer> WaitForAnswer(bool (v1::UploadAnswer::*is_kind)() const,
                                                std::size_t nth = 1);
  // Waits until file `number` is answered up to offset_bytes at least.
  bool WaitForChunks(std::uint64_t number, std::uint64_t offset_bytes);
  // The status with which the stream ended. Reads on until then.
  grpc::Status WaitForEnd();

  std::vector<v1::UploadAnswer> answers();
  // The chunks that were answered of file `number`.
  std::vector<v1::Chunk> ChunksOf(std::uint64_t number);
  std::vector<RecipeChunk> RecipeOf(std::uint64_t number);

 private:
  void Read();

  grpc::ClientContext& context(const std::string& shard_key);

  grpc::ClientContext context_;
  std::unique_ptr<v1::ChunkingService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::UploadRequest, v1::UploadResponse>> stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::UploadAnswer> answers_;
  std::size_t committed_answers_ = 0;
  bool ended_ = false;
  grpc::Status status_;
  std::thread reader_;
};

}  // namespace kerf
