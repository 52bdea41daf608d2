// Files on their way through one Upload stream at a time: a stream that is lost is followed by
// another one.
#pragma once

#include <chrono>
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
#include "base/limits.h"
#include "client/agent/backup/chunk_taker.h"
#include "client/cpp/resuming_upload.h"
#include "client/store/format/chunk_ref.h"
#include "kernels/profile.h"

namespace kerf::agent {

// What became of one file.
struct FileOutcome {
  std::vector<ChunkRef> recipe;
  // Bytes that were read and sent.
  std::uint64_t content_bytes = 0;
};

// How long a server may be silent while something is awaited of it.
inline constexpr std::chrono::milliseconds kAnswerLimit = limits::kAnswerLimit;

// The same before the front is asked whether it has another worker by now: it knows of one that is
// lost, or without its index, after some seconds, and a worker may work on one answer for as long.
inline constexpr std::chrono::milliseconds kDoubtAfter{5'000};
static_assert(kDoubtAfter < kAnswerLimit);

// A server must take so many entries in one Commit or ReportStale: each is a message of its own,
// and one for every chunk or two would cost more than the chunks.
inline constexpr std::uint64_t kMinCommitEntries = 16;

// WaitOpened, SendFile, WaitAnswered, Flush and Finish belong to one thread; the others may be
// called from any. The server is not trusted: chunks that are not those of what was sent end its
// stream, and the second time for one file the lane (CLI-8); what else it answers against the
// protocol ends the lane, and what it answers too late its stream.
class Lane final : public client::AnswerHandler, public ChunkLane {
 public:
  // Fills the span with the next bytes; 0 is the end.
  using Reader = std::function<absl::StatusOr<std::size_t>(std::span<std::uint8_t>)>;
  // On the answer thread, or in SendFile itself.
  using OnComplete = std::function<void(FileOutcome)>;

  struct Options {
    // Its stream has what `profile` needs; all but `stream.max_blocks` is the caller's.
    client::ResumingUpload::Options upload;
    // The one that `upload.stream.open` names.
    Profile profile;
    std::size_t digest_size_bytes = 32;
    // Of a stream that is silent for longer a front is asked, if it goes past one.
    std::chrono::milliseconds doubt_after = kDoubtAfter;
    // A stream that is silent for longer counts as lost.
    std::chrono::milliseconds answer_limit = kAnswerLimit;
    // Called by the writer when the server's limits for uncommitted chunks or files are near: makes
    // what has been taken durable and commits it.
    std::function<absl::Status()> on_pressure;
    // Told each time what a server says of its index's epoch, on the answer thread.
    std::function<void(std::uint64_t)> on_index_epoch = [](std::uint64_t) {};
  };

  Lane(Options options, ChunkTaker& taker);
  ~Lane() override;

  // Waits until a server has opened its stream, `patience` at most; whether one has. The lane's own
  // failure, if it has failed.
  absl::StatusOr<bool> WaitOpened(std::chrono::milliseconds patience);
  // Whether a server has ever opened its stream.
  bool opened() const;
  // If none has, none will: true, and the lane ends with Cancelled. From any thread.
  bool GiveUpUnopened();

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
  void Flush();
  // Ends all waiting, with Cancelled.
  void Cancel();
  // Cancel, and returns when the taker is called no more. Not while another thread waits in here.
  void Stop();
  // To be called now and then from another thread: tells the server that the stream is still
  // wanted, and gives the stream up if the server owes an answer for too long. Returns the lane's
  // failure, OK while it works.
  absl::Status Watch();

  // Both send as many frames as the server's limits ask for.
  void Commit(std::span<const v1::CommitEntry> entries, std::uint64_t resolved_chunks) override;
  void ReportStale(std::span<const v1::CommitEntry> entries) override;

  // Blocks of data that a stream of this profile has on its way at once.
  static std::size_t MaxBlocks(const Profile& profile);

 private:
  struct FileRange {
    client::DataRef data;
    std::size_t length_bytes = 0;
  };
  struct File {
    std::uint64_t number = 0;
    std::deque<FileRange> unanswered;
    // How much of the first range has been answered.
    std::size_t consumed_bytes = 0;
    std::uint64_t answered_bytes = 0;
    std::uint64_t sent_bytes = 0;
    bool ended = false;
    bool failed = false;
    std::vector<ChunkRef> recipe;
    OnComplete on_complete;

    bool complete() const { return ended && answered_bytes >= sent_bytes; }
  };

  void OnAnswer(const v1::UploadAnswer& answer) override;
  void OnEnd(const absl::Status& status) override;
  absl::Status HandleAnswer(const v1::UploadAnswer& answer);
  absl::Status OnOpened(const v1::Opened& opened);
  absl::Status NoteProfileLocked(const v1::Opened& opened);
  absl::Status OnFileDone(std::uint64_t number);
  absl::Status OnChunks(const v1::Chunks& chunks);
  // The stream is given up; of its last answer only what comes before `taken_bytes` of the file
  // counts.
  void Disagree(const absl::Status& status, std::uint64_t taken_bytes);
  absl::Status CheckChunk(const File& file, const v1::Chunk& chunk) const;
  absl::Status TakeChunk(File& file, const v1::Chunk& chunk);
  absl::StatusOr<std::span<const std::uint8_t>> Collect(const File& file, std::size_t length_bytes);
  void Consume(File& file, std::size_t length_bytes);
  void CompleteFront(std::unique_lock<std::mutex>& lock);
  bool UnderPressure() const;
  absl::Status RelievePressure();
  // How much more may be sent at once: waits until that is as much as is worth a message (CLI-6).
  absl::StatusOr<std::size_t> WaitForRoom();
  std::uint64_t RoomBytesLocked() const;
  absl::Status WaitEnd();
  // From here on the server owes `what`, until NothingAwaited.
  void Await(const char* what);
  void NothingAwaited() { awaited_ = nullptr; }
  template <typename Condition>
  void WaitUntil(std::unique_lock<std::mutex>& lock, const char* what, Condition condition);
  absl::Status Outcome() const;
  void Fail(const absl::Status& status);

  ChunkTaker& taker_;
  const Profile profile_;
  // Of what the server cuts by, as Opened has it.
  std::uint64_t shortest_chunk_bytes_;
  std::uint64_t longest_chunk_bytes_;
  const std::size_t digest_size_bytes_;
  // For messages.
  const std::string servers_;
  const std::chrono::milliseconds doubt_after_;
  const std::chrono::milliseconds answer_limit_;
  const std::function<absl::Status()> on_pressure_;
  const std::function<void(std::uint64_t)> on_index_epoch_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Shared with who works off an answer: SendFile may complete the file meanwhile.
  std::deque<std::shared_ptr<File>> files_;
  // A thread calls on_complete of files that have left files_.
  bool completing_ = false;
  std::uint64_t files_begun_ = 0;
  std::uint64_t files_done_ = 0;
  std::uint64_t pending_chunks_ = 0;
  // Of all files.
  std::uint64_t unanswered_bytes_ = 0;
  std::uint64_t max_pending_chunks_ = 0;
  std::uint64_t max_pending_files_ = 0;
  bool opened_ = false;
  bool is_given_up_ = false;
  bool ended_ = false;
  absl::Status failure_;
  // What the server owes; null: nothing.
  const char* awaited_ = nullptr;
  std::chrono::steady_clock::time_point awaited_since_;
  std::chrono::steady_clock::time_point answered_at_;
  // An answer is being worked off: that takes as long as the agent's own disk takes.
  bool handling_ = false;
  // The answers to all files on their way are owed, though nobody waits.
  bool flushed_ = false;

  // Only the answer thread.
  std::vector<std::uint8_t> joined_;
  std::vector<client::BlockRef> spent_;

  // Last: its threads use all of the above.
  std::unique_ptr<client::ResumingUpload> stream_;
};

}  // namespace kerf::agent
