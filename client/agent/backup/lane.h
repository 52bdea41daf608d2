// One Upload stream with the files that are on their way through it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/backup/chunk_taker.h"
#include "client/agent/store/chunk_ref.h"
#include "client/cpp/upload_stream.h"

namespace kerf::agent {

// What became of one file.
struct FileOutcome {
  std::vector<ChunkRef> recipe;
  // Bytes that were read and sent.
  std::uint64_t content_bytes = 0;
};

// SendFile and Drain belong to one thread; Commit and ReportStale may be called from any.
class Lane final : public client::AnswerHandler, public ChunkLane {
 public:
  // Fills the span with the next bytes; 0 is the end.
  using Reader = std::function<absl::StatusOr<std::size_t>(std::span<std::uint8_t>)>;
  // On the answer thread, or in SendFile itself.
  using OnComplete = std::function<void(FileOutcome)>;

  struct Options {
    v1::Open open;
    std::size_t digest_size_bytes = 32;
    // Called by the writer when the server's limits for uncommitted chunks or files are near: makes
    // what has been taken durable and commits it.
    std::function<absl::Status()> on_pressure;
  };

  Lane(const std::shared_ptr<grpc::Channel>& channel, Options options, ChunkTaker& taker);
  ~Lane() override;

  // Reads the content to its end and sends it. `on_complete` is called once all its chunks have
  // been answered and taken; never, if the lane fails first or the content cannot be read to its
  // end: then `read_status` says why, and the lane goes on. Returns the lane's own failure. Waits
  // while the limits of the server for uncommitted chunks and files are near.
  absl::Status SendFile(std::string_view file_key, std::uint64_t size_hint_bytes,
                        const Reader& reader, OnComplete on_complete, absl::Status& read_status);

  // Sends what is collected and waits until everything that was sent has been answered.
  absl::Status WaitAnswered();
  // Waits until every file is done (all its chunks committed), and ends the stream.
  absl::Status Finish();
  // Sends what is collected.
  void Flush() { stream_->Flush(); }
  void Cancel();

  void Commit(std::span<const v1::CommitEntry> entries, std::uint64_t resolved_chunks) override;
  void ReportStale(const Digest& digest, std::string_view locator) override;

  // The lane's failure, OK while it works.
  absl::Status status() const;

  const std::string& worker() const { return worker_; }

 private:
  struct Segment {
    client::DataRef data;
    std::size_t length_bytes = 0;
  };
  struct File {
    std::uint64_t number = 0;
    std::deque<Segment> segments;
    // How much of the first segment has been answered.
    std::size_t consumed_bytes = 0;
    std::uint64_t answered_bytes = 0;
    std::uint64_t sent_bytes = 0;
    bool ended = false;
    bool failed = false;
    std::vector<ChunkRef> recipe;
    OnComplete on_complete;
  };

  void OnAnswer(const v1::UploadAnswer& answer) override;
  void OnEnd(const absl::Status& status) override;
  absl::Status OnChunks(const v1::Chunks& chunks);
  absl::Status TakeChunk(File& file, const v1::Chunk& chunk);
  absl::StatusOr<std::span<const std::uint8_t>> Collect(File& file, std::size_t length_bytes);
  void CompleteFront(std::unique_lock<std::mutex>& lock);
  bool UnderPressure() const;
  absl::Status RelievePressure();
  absl::Status WaitEnd();
  void Fail(const absl::Status& status);

  ChunkTaker& taker_;
  const std::size_t digest_size_bytes_;
  const std::function<absl::Status()> on_pressure_;
  std::string worker_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<File>> files_;
  std::uint64_t files_begun_ = 0;
  std::uint64_t files_done_ = 0;
  std::uint64_t pending_chunks_ = 0;
  std::uint64_t max_pending_chunks_ = 0;
  std::uint64_t max_pending_files_ = 0;
  bool opened_ = false;
  bool ended_ = false;
  absl::Status failure_;

  // Only the answer thread.
  std::vector<std::uint8_t> joined_;
  std::vector<client::BlockRef> spent_;

  // Last: its threads use all of the above.
  std::unique_ptr<client::UploadStream> stream_;
};

}  // namespace kerf::agent
