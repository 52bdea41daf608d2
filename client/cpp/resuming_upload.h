// Uploads that outlive their streams: when one is lost, the files that were on their way through it
// go on through the next one, perhaps at another server, from the last cut that was answered.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/call_cancellation.h"
#include "client/cpp/front_question.h"
#include "client/cpp/local_cutter.h"
#include "client/cpp/memory_offer.h"
#include "client/cpp/retry.h"
#include "client/cpp/server_address.h"
#include "client/cpp/upload_stream.h"
#include "grpcpp/channel.h"
#include "kerf/v1/chunking.pb.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/fingerprint/recipe_hash.h"
#include "kernels/fingerprint/xxh3.h"

namespace kerf::client {

// As an UploadStream, which it renews: bytes that are not answered stay in memory, and are sent
// again. Threads as there: the writer's methods (BeginFile to Flush) belong to one thread.
//
// The handler sees one stream: files have the numbers that BeginFile gave them, each chunk is
// answered once, and where a stream was lost the chunks go on behind those that were answered. It
// is told Opened of each stream. A file that was answered in full is done for the handler when its
// stream is lost: nobody will say more of it. Where a thread of the upload's own finds no memory,
// or its handler or a callback throws for want of some, it ends with OutOfMemory
// (out_of_memory.h).
class ResumingUpload final : private AnswerHandler {
 public:
  // What was lost, before it is tried again.
  struct Lost {
    std::string server;
    // The one that had the stream; empty if none was met.
    std::string worker;
    absl::Status status;
    // Without progress, this one too.
    int tries = 0;
    std::chrono::milliseconds wait{};
  };

  struct Options {
    // Of its open: where `cutter` asks for it and the server lets it, files are cut here, by the
    // `profile` and `digest_algorithm`, and their chunks named. A profile with a criterion is not.
    UploadStream::Options stream = {};
    // At least one; each try goes to the next one.
    std::vector<std::string> servers = {};
    // To them, and with direct to workers, each known by the host of its address.
    TlsChoice tls = {};
    std::size_t first_server = 0;
    // Sends each stream past the server, if that is a front, to the worker that it names; through
    // it where that worker cannot be reached, has not opened the stream before, or has lost two in
    // a row from which nothing came.
    bool direct = false;
    // Between two questions of AskFront.
    std::chrono::milliseconds question_pause{5'000};
    RetryLimits retry = {};
    // Where the server cuts, is at a unix socket and takes some: the stream's blocks are memory
    // that it sees, in place of bytes through the socket.
    bool shares_memory = true;
    // Of the waits' random part.
    std::uint64_t seed = 0;
    // Shared by all uploads of a run: whether anyone has met a server yet. Before that, a server at
    // whose address nobody answers is not waited for.
    std::shared_ptr<std::atomic<bool>> reached = std::make_shared<std::atomic<bool>>(false);
    // Called by the upload's own threads.
    std::function<void(const Lost&)> on_lost = {};
    std::function<void()> on_resumed = {};
    // Of each stream that is opened: whether it goes past a front.
    std::function<void(bool is_direct)> on_opened = {};
    // Of each stream that is opened whose files are cut here.
    std::function<void()> on_cut_here = {};
    // Of each stream that is opened and whose server takes shared memory.
    std::function<void()> on_shared = {};
    // Of each stream that was to go past a front and does not: why.
    std::function<void(const absl::Status& why)> on_detour = {};
    // Entries whose stream was lost before it answered their commit: no other stream takes them,
    // the Index service does. Must not call back.
    std::function<void(std::vector<v1::CommitEntry>)> on_late_commits = {};
  };

  // Connects and sends Open. `handler` must outlive the upload.
  ResumingUpload(Options options, AnswerHandler& handler);
  // Cancels an upload that has not ended and waits for OnEnd.
  ~ResumingUpload() override;
  ResumingUpload(const ResumingUpload&) = delete;
  ResumingUpload& operator=(const ResumingUpload&) = delete;

  // Returns the file's number, from 1 on.
  std::uint64_t BeginFile(std::string_view file_key, std::uint64_t size_hint_bytes);
  // Waits while the stream is lost, and while as much is unanswered as the stream's blocks hold.
  std::span<std::uint8_t> DataSpan();
  // An answer may cover these bytes from the next call of a writer's method on.
  DataRef CommitData(std::size_t count);
  void EndFile(std::uint64_t size_bytes);
  void Flush();

  // Of any length: both send as many frames as the server's limits ask for.
  void Commit(v1::Commit commit);
  void ReportStale(v1::ReportStale report);
  // After all files are done: ends with OK once the server has ended the stream, or has lost it.
  void FinishWrites();
  void KeepPlace();
  // Ends all with Cancelled.
  void Cancel();
  // Gives up the stream that is open or being opened, but not the upload: a peer that is silent is
  // as good as lost. `status` says why.
  void Lose(const absl::Status& status);
  // The stream is silent: if it went past a front, asks that whether the worker still has the key,
  // and loses it if not: of a worker that has lost its index the others have the keys. Does not
  // wait, and does nothing while a question is under way or was asked just now. For one thread at a
  // time.
  void AskFront();
  // Since when the present stream is open or being opened; nothing while there is none.
  std::optional<std::chrono::steady_clock::time_point> stream_since() const;
  // For the handler, of the answer that it is told: its chunks are those that were cut and
  // fingerprinted here, of the bytes that CommitData has been given. There is no check in them.
  bool is_cut_here() const { return is_cut_here_; }
  // Of the present stream, or of the last one (failed_call.h); empty: there was none.
  std::string request_id() const;
  // For the handler, in OnAnswer of chunks: they are not those of what was sent, and of this answer
  // only what ends before `taken_bytes` of its file was taken. The file goes on from there through
  // another stream, once for each file; the second time the upload ends with `status`.
  void Disagree(const absl::Status& status, std::uint64_t taken_bytes);
  // Waits for OnEnd, and returns its status.
  absl::Status Wait();

 private:
  using Clock = std::chrono::steady_clock;
  struct FileRange {
    DataRef data;
    std::size_t length_bytes = 0;
    // In the file.
    std::uint64_t offset = 0;
    // Of the stream in whose block it lies.
    std::uint64_t stream_count = 0;
    // Of the bytes as they were read, also where chunks are named: the next stream cuts them anew,
    // or is sent them.
    std::optional<std::uint64_t> check = {};
  };
  struct File {
    std::uint64_t number = 0;
    std::string key;
    std::uint64_t size_hint_bytes = 0;
    // Not answered in full.
    std::deque<FileRange> unanswered;
    std::uint64_t answered_bytes = 0;
    // What the writer has passed on, and what of it was given to the present stream, from where on.
    std::uint64_t published_bytes = 0;
    std::uint64_t given_bytes = 0;
    std::uint64_t given_from = 0;
    // To the present stream, and not answered; where it is cut here.
    std::deque<LocalCutter::Chunk> named;
    bool ended = false;
    bool done = false;
    // Was done before its stream was lost, and is sent again only because its number is needed.
    bool done_again = false;

    bool complete() const { return ended && answered_bytes >= published_bytes; }
  };

  void OnAnswer(const v1::UploadAnswer& answer) override;
  void OnMessageEnd() override;
  void OnEnd(const absl::Status& status) override;
  void OnOpened(const v1::UploadAnswer& answer);
  void OnChunks(const v1::UploadAnswer& answer);
  void OnFileDone(const v1::UploadAnswer& answer);
  void OnCommitted(const v1::UploadAnswer& answer);
  absl::Status NoteOpenedLocked(const v1::Opened& opened);
  // Calls `send` with one part of the entries after the other, none larger than the server takes.
  template <typename Listed, typename Send>
  void ForEachPartLocked(Listed all, const Send& send) const;
  void NotePending(const v1::Chunks& chunks);
  // Gives the stream up, or the upload.
  void DisagreeLocked(const absl::Status& status);
  // What of the answers was taken needs not be sent again.
  void NoteAnsweredLocked(File& file, std::uint64_t end_offset);
  // Whether these are the next ones that were named of the file, which then are so no more.
  bool TakeNamed(std::uint64_t number, const v1::Chunks& chunks);

  void Run();
  void EndStream();
  absl::Status RunStreams();
  absl::Status RunStream();
  // To the next server, or past it; sets address_ and is_direct_.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect();
  // Null: bytes go over the stream.
  std::shared_ptr<MemoryOffer> OfferMemory(const std::shared_ptr<grpc::Channel>& channel);
  void SendAgain(const std::shared_ptr<UploadStream>& stream);
  bool SendFileAgain(UploadStream& stream, std::uint64_t number);
  // What the file goes on with, or ends with, on a stream whose files are cut here.
  void NameBytes(UploadStream& stream, std::uint64_t number, std::span<const std::uint8_t> bytes);
  void NameEnd(UploadStream& stream, std::uint64_t number, std::uint64_t size_bytes);
  void Name(UploadStream& stream, std::uint64_t number, std::span<const LocalCutter::Chunk> chunks);
  void BeginContent();
  static bool SendBytes(UploadStream& stream, std::span<const std::uint8_t> bytes);
  bool RefuseDone(std::unique_lock<std::mutex>& lock);
  bool RefuseChanged();
  void Settle(const absl::Status& loss);
  // After `loss`: waits until the next try; not OK if there is none.
  absl::Status WaitForNextTry(const absl::Status& loss);
  // Whether nobody misses the stream that was lost by `loss`: the source of the file that it was in
  // gives nothing, which is why the server has ended it.
  bool IsSourceSilentLocked(const absl::Status& loss) const;
  // Of which file what was sent is not what was read, as `loss` says; nothing: it says no such
  // thing.
  std::optional<std::uint64_t> MismatchedFileLocked(const absl::Status& loss) const;
  // Whether `loss` says that of a file of which some was answered: that is stored, and cannot be
  // looked at any more.
  bool IsMismatchOfAnsweredLocked(const absl::Status& loss);
  // The writer has said something, or waits until it can.
  void NoteWriterLocked();
  // A worker that was met without getting anywhere is passed over until something is got.
  void NoteWorkerLocked(const absl::Status& loss);
  void Publish();
  File* Find(std::uint64_t number);
  void Fail(const absl::Status& status);

  AnswerHandler& handler_;
  const Options options_;
  const std::size_t max_unanswered_bytes_;

  // Whoever gives a stream data, in this order: writer_mutex_, mutex_.
  std::mutex writer_mutex_;
  Xxh3Stream content_hash_;
  // Null: never. Whether the stream that is live has its files cut here.
  const std::unique_ptr<LocalCutter> cutter_;
  bool names_chunks_ = false;
  RecipeHash recipe_hash_;
  // Keeps the block of the last DataSpan.
  std::shared_ptr<UploadStream> span_stream_;
  std::uint64_t span_stream_count_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // From its beginning to its end.
  std::shared_ptr<UploadStream> stream_;
  // It has been given all that was lost, and takes what comes.
  bool live_ = false;
  bool opened_ = false;
  // Of the present stream, as Opened has it.
  std::atomic<bool> is_cut_here_ = false;
  // The present stream has been offered memory, and has taken it.
  bool has_offered_ = false;
  bool shares_data_ = false;
  // A stream was sent what was not read: whoever sees this memory may be why, and no later stream
  // shares any.
  bool was_sent_other_bytes_ = false;
  v1::Limits limits_;
  NamingLimits naming_;
  bool ever_opened_ = false;
  bool stream_ended_ = false;
  absl::Status stream_status_;
  std::uint64_t stream_count_ = 0;
  Clock::time_point stream_since_;
  std::string worker_;
  std::string request_id_;
  // A file's number is that in the stream and this.
  std::uint64_t number_shift_ = 0;
  std::deque<File> files_;
  std::uint64_t files_begun_ = 0;
  // How often the writer has come since it was made, and until the present stream was lost.
  std::uint64_t writer_calls_ = 0;
  std::uint64_t writer_calls_at_loss_ = 0;
  // In DataSpan.
  bool is_writer_waiting_ = false;
  // The last range of the last file waits for the next call of the writer.
  bool unpublished_ = false;
  std::uint64_t unanswered_bytes_ = 0;
  std::deque<v1::Commit> unanswered_commits_;
  // Entries of them.
  std::size_t unanswered_entries_ = 0;
  // What this stream lets be committed; kept only once one was lost.
  absl::flat_hash_set<Digest, DigestHash> pending_;
  // Of the answer that the handler is told: how much of its file was taken before it disagreed.
  std::optional<std::uint64_t> disagreed_behind_;
  // Since the last file was done.
  bool has_disagreed_ = false;
  bool finishing_ = false;
  bool cancelled_ = false;
  bool ended_ = false;
  absl::Status end_status_;
  // Why this side ended the stream: for good, or to go on with another one.
  absl::Status fatal_;
  absl::Status lost_;
  RetryPlan plan_;
  std::size_t server_index_ = 0;
  // Of the present stream, or of the last one; written by the upload's own thread. The first is the
  // server by whose word it is the second.
  std::string front_;
  std::string address_;
  // With which that is spoken to if it is no front.
  TlsChoice direct_tls_;
  // Whom that server was asked to leave out.
  std::vector<std::string> left_out_;
  bool is_direct_ = false;
  absl::Status last_loss_;
  // Something came from the present stream, or the last one.
  bool has_answered_ = false;
  // How many of kDirectTries it is.
  int broken_count_ = 0;
  // Names of workers, the last one met behind.
  std::vector<std::string> avoided_;
  // Of what is asked before there is a stream.
  CallCancellation asking_;
  std::size_t first_tries_ = 0;

  // Last: they use all of the above.
  FrontQuestion question_;
  std::thread thread_;
};

}  // namespace kerf::client
