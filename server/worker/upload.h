// One upload, from its first frame to its status, as a coroutine: takes frames, cuts, fingerprints,
// asks the index, answers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/memory_budget.h"
#include "base/shared_memory.h"
#include "base/task.h"
#include "kernels/chunker.h"
#include "server/session/frame.h"
#include "server/session/session.h"
#include "server/worker/cut_buffer.h"
#include "server/worker/file_hints.h"
#include "server/worker/gpu_pieces.h"
#include "server/worker/named_chunks.h"
#include "server/worker/rapid_totals.h"
#include "server/worker/strand.h"

namespace kerf {

class BatchAnswers;

// Belongs to its strand, which gives it its turns. It waits in four places only: for a turn, for
// memory, for the client (to send, or to read), and for one call at a time on the index or a GPU.
// Destroyed where it waits, it gives back all that it holds.
class Upload {
 public:
  // `strand` outlives it.
  explicit Upload(Strand* strand);
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  ~Upload();

  // Begins it, once.
  void Start() { serving_.Start(); }
  // Between two turns.
  bool is_done() const { return serving_.is_done(); }
  // With what the stream ends, once it is done. Errors of the index are as the index gave them.
  absl::Status TakeStatus() { return serving_.TakeValue(); }
  // What there is goes to the sink.
  void SendAnswers();
  // Once for what is new, before anybody learns that the stream has ended.
  void AddTotals();

 private:
  // Chunks of one lookup.
  static constexpr std::size_t kBatchChunks = 1024;

  // The calls of a batch may only be asked for some of it: of each chunk what was known before, or
  // nothing of any.
  using Foreseen = std::vector<LookupResult>;
  // What of a data frame has not been taken: it lies in a message, or in memory that is shared.
  struct Untaken {
    std::span<const Bytes> pieces = {};
    // In the first of them.
    std::size_t piece_offset = 0;
    std::uint64_t shared_offset = 0;
    std::size_t shared_bytes = 0;

    bool empty() const { return pieces.empty() && shared_bytes == 0; }
  };
  // How far a data frame was taken.
  enum class Taken : std::uint8_t {
    kAll,
    // There is no memory for a buffer yet.
    kNoBuffer,
    // There are enough chunks for a lookup.
    kBatch,
    // Others want the thread.
    kTurnOver,
    // The buffer is full, and cut,
    kFull,
    // or to be cut by a GPU.
    kFullForGpu,
  };

  // All of it. OK: the client may end it where it has ended it.
  Task<absl::Status> Serve();
  Task<absl::Status> ServeMessage();
  Task<absl::Status> OnFrame(const Frame& frame);
  Task<absl::Status> OnControl(const v1::UploadFrame& frame);
  Task<absl::Status> OnOpen(const v1::Open& open);
  // Whether the stream may be what its Open says.
  Task<absl::Status> CheckOpen();
  absl::Status Begin(const v1::Open& open);
  v1::UploadAnswer Opened() const;
  bool ClientCuts(v1::Cutter wanted) const;
  // Null: no GPU is of use for the stream.
  std::shared_ptr<const cuda::BatchPlan> GpuPlan() const;
  // Of a stream that a GPU cuts, which is given all of it at once. There are GPUs.
  std::size_t GpuBufferBytes() const;
  absl::Status BeginCutting();
  absl::StatusOr<std::size_t> CutBufferBytes() const;
  absl::Status OnFileBegin(const v1::FileBegin& begin);
  // All of data_.
  Task<absl::Status> Take();
  absl::StatusOr<Taken> TakeData();
  // How much of it went behind what is to be cut: nothing, if the buffer is full.
  absl::StatusOr<std::size_t> TakeStep();
  Task<absl::Status> TakeRest(Taken taken);
  // After which more can be taken.
  Task<absl::Status> MakeRoom(Taken taken);
  void ShareData(const std::string& token);
  Task<absl::Status> OnSharedData(const v1::SharedData& shared);
  absl::Status ReadShared(std::span<std::uint8_t> out) const;
  Task<absl::Status> OnChunkDigests(const v1::ChunkDigests& named);
  absl::Status CountNamed(std::uint64_t named_bytes);
  Task<absl::Status> EndNamedFile(const v1::FileEnd& end);
  Task<absl::Status> AnswerNamed();
  Task<absl::Status> OnFileEnd(const v1::FileEnd& end);
  Task<absl::Status> EndFileByGpu(const v1::FileEnd& end);
  Task<absl::Status> FinishFile(const v1::FileEnd& end);
  Task<absl::Status> OnCommit(const v1::Commit& commit);
  Task<absl::Status> OnReportStale(const v1::ReportStale& report);
  Task<absl::Status> OnDrain(std::chrono::milliseconds drain);

  // Something was cut, or can be, that is not answered.
  bool has_unanswered() const;
  // What can be answered is answered.
  Task<absl::Status> AnswerAll();
  // Fingerprints, looks up and answers the chunks that are cut.
  Task<absl::Status> AnswerChunks();
  Task<absl::Status> AnswerBatch();
  // What is asked of the index for these chunks.
  void AppendQuestions(std::span<const Digest> digests, const Foreseen& foreseen,
                       std::vector<Digest>* asked);
  absl::Status Answer(std::span<const Digest> digests, Foreseen& foreseen, StreamCall& call);
  void FinishBatch(BatchAnswers& batch, std::size_t chunk_count);
  absl::Status FinishAnswer();
  // What was answered last tells how the file goes on.
  void FollowHints();
  void CountLookup(std::atomic<std::uint64_t> RapidTotals::* counter);
  absl::Status AnswerDone();
  absl::Status AccountSession();

  std::shared_ptr<StreamCall> NewCall() const;
  // What the answer to a lookup tells of the repository's epoch.
  void NoteEpoch(const StreamCall& call);
  // Of the index. `held_bytes` wait beside the call.
  Strand::Answer LookUp(std::shared_ptr<StreamCall> call, std::size_t held_bytes = 0);
  Strand::Answer Commit(std::shared_ptr<StreamCall> call);
  Strand::Answer Forget(std::shared_ptr<StreamCall> call);
  Strand::Answer IsKnown(std::shared_ptr<StreamCall> call);

  // Whether what comes is for a GPU.
  bool uses_gpu() const { return gpu_ != nullptr && gpu_->is_used(); }
  // Sends so much, or more, to a GPU; null: none takes it now.
  std::shared_ptr<StreamCall> SendToGpu(std::size_t min_bytes);
  void CutByCpu();
  // Nothing more is done before the client has read, or at all.
  bool is_blocked() const;
  bool ReserveBuffer();
  // A stream that waits for its client holds at most the beginning of a chunk, or of two where it
  // follows hints.
  void Park();
  StreamEngine::Expecting expecting() const;

  const EngineContext& context_;
  Strand& strand_;
  Session session_;
  std::unique_ptr<Chunker> chunker_;
  // Null: the CPU cuts.
  std::unique_ptr<GpuPieces> gpu_;
  // Null: without hints. Outlives the cutter.
  std::unique_ptr<FileHints> hints_;
  // One of the two once the stream is open: where the client cuts, the second.
  std::unique_ptr<CutBuffer> cutter_;
  std::unique_ptr<NamedChunks> named_;
  // Null: the client shares none.
  std::shared_ptr<const ForeignMemory> shared_;
  Reservation buffer_memory_;
  Reservation session_memory_;
  // In hand, and of its data frame what has not been taken.
  std::unique_ptr<FrameSource> message_;
  Untaken data_;
  std::uint64_t message_named_bytes_ = 0;
  // The message in hand is the one that has brought Open.
  bool is_opening_ = false;
  std::uint64_t max_named_bytes_ = 0;
  std::string answers_;
  // The highest epoch of the repository that the index has told.
  std::uint64_t index_epoch_ = 0;
  // What AddTotals has added.
  RapidCounters added_;
  std::uint64_t added_ahead_count_ = 0;
  // Of the first commit that the repository had no room for: how the stream ends, once it has come
  // to its end. Until then it goes on as if the index had taken it.
  absl::Status refusal_;
  // Goes first: its frames refer to all the others.
  Task<absl::Status> serving_;
};

}  // namespace kerf
