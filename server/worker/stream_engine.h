// Runs one Upload stream: takes messages, cuts, hashes, asks the index, answers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kernels/chunker.h"
#include "kernels/cuda/pipeline/gpu_set.h"
#include "server/index/async_index.h"
#include "server/session/frame.h"
#include "server/session/session.h"
#include "server/worker/cut_buffer.h"
#include "server/worker/file_hints.h"
#include "server/worker/memory_budget.h"
#include "server/worker/rapid_totals.h"
#include "server/worker/stream_call.h"
#include "server/worker/stream_metrics.h"
#include "server/worker/thread_pool.h"

namespace kerf {

// What the client is told that cuts its files where a GPU does.
inline constexpr std::string_view kGpuBackend = "cuda";

// What all streams of a process share. Outlives them and all tasks of the pool.
struct EngineContext {
  // Has answered every call, or will answer none, before the pool goes.
  AsyncIndex* index = nullptr;
  ThreadPool* pool = nullptr;
  // For messages that have arrived. Apart from the other budget, or waiting messages could keep
  // every stream from the buffer in which it would work them off.
  MemoryBudget* input_budget = nullptr;
  // For cut buffers and the tables of sessions.
  MemoryBudget* work_budget = nullptr;
  BufferPool* buffers = nullptr;
  SessionLimits limits;
  // A stream reads no further message while this much waits to be cut.
  std::size_t input_budget_bytes = 4u << 20;
  // It cuts no further while this much waits to be read by the client.
  std::size_t answer_budget_bytes = 1u << 20;
  // The largest cut buffer that a profile may ask for.
  std::size_t max_cut_buffer_bytes = 8u << 20;
  std::string worker_name;
  // Null: files are cut without hints.
  std::shared_ptr<HintCache> hints;
  // Null: the CPU cuts. Closed before the pool goes.
  cuda::GpuSet* gpus = nullptr;
  // A stream whose last pieces a GPU has given up is cut by the CPU for so long before it tries
  // again: such pieces cost the others a share of the way to the GPU.
  std::size_t gpu_pause_bytes = 64u << 20;
  // The index is a round trip away: what is likely to come is looked up with what has come.
  bool asks_ahead = false;
  // Of what was cut with hints; null: not counted.
  RapidTotals* rapid_totals = nullptr;
  // Null: nothing is counted or timed.
  StreamMetrics* metrics = nullptr;
  // How old verdicts are that were asked for ahead.
  std::function<std::chrono::steady_clock::time_point()> now = [] {
    return std::chrono::steady_clock::now();
  };
};

// The transport's side of a stream. Thread-safe; called from the engine's strand.
class StreamSink {
 public:
  virtual ~StreamSink() = default;

  // Encoded answers (answer_encoder.h) to be written as soon as the transport takes them, in order.
  virtual void Send(std::string encoded_answers) = 0;

  // Given to Send and not yet taken by the transport.
  virtual std::size_t unsent_bytes() const = 0;

  // There is room for input: StreamEngine::wants_input is true. May come at any time.
  virtual void ResumeInput() = 0;

  // After what was sent, ends the stream with `status` (of server/errors). The last call.
  virtual void Finish(const absl::Status& status) = 0;
};

// A strand: its work runs on the pool, one task at a time. All methods are thread-safe and return
// at once. It has no clock: whoever owns it ends it if the peer is too slow.
class StreamEngine : public std::enable_shared_from_this<StreamEngine> {
 public:
  static std::shared_ptr<StreamEngine> Create(const EngineContext* context, std::string session_id,
                                              std::shared_ptr<StreamSink> sink);
  StreamEngine(const StreamEngine&) = delete;
  StreamEngine& operator=(const StreamEngine&) = delete;
  ~StreamEngine();

  void Push(std::unique_ptr<FrameSource> message);
  // The client sends no more.
  void HalfClose();
  // Answers what has arrived, then says GoAway.
  void Drain(std::chrono::milliseconds drain);
  // Ends the stream with this status as soon as the task that runs is done; input that waits is
  // dropped.
  void Fail(const absl::Status& status);
  // The peer is gone, or the transport has ended the stream: drops everything, calls the sink no
  // more after the task that runs.
  void Cancel();
  // The transport has taken answers.
  void AnswersTaken() { Wake(); }
  // Whether the next message may be read.
  bool wants_input() const;
  // What the peer is waited for.
  enum class Expecting : std::uint8_t {
    // There is input to work on, or memory, the index or the client's reading is waited for.
    kNothing,
    kOpen,
    // In mid-file: data or the end of the file.
    kFile,
    // Between files.
    kAnything,
  };
  Expecting expecting() const { return expecting_.load(std::memory_order_acquire); }
  // Of the budget, for its session: what it holds while it waits for its client between files.
  std::size_t session_bytes() const { return session_bytes_.load(std::memory_order_relaxed); }
  // For a watchdog: what it waits for before it can go on, as far as that is not its peer.
  enum class Waiting : std::uint8_t {
    kNothing,
    // Work is in hand, or waits for a thread.
    kThread,
    kMemory,
    kGpu,
    kLookup,
    kCommit,
    kForget,
  };
  Waiting waiting() const;
  // For a watchdog: work is in hand or waits for a thread or the index, and how many turns were
  // done. Those that only find that the index has not answered yet do not count.
  bool is_busy() const { return state_.load() != State::kIdle || awaits_index_.load(); }
  std::uint64_t turn_count() const { return turn_count_.load(std::memory_order_relaxed); }

 private:
  using Then = absl::Status (StreamEngine::*)(StreamCall& call);
  class GpuPiece;

  struct Item {
    // Null: a drain.
    std::unique_ptr<FrameSource> message;
    std::chrono::milliseconds drain{0};
  };

  StreamEngine(const EngineContext* context, std::string session_id,
               std::shared_ptr<StreamSink> sink);

  void Wake();
  void Run();
  // One turn of the strand; whether it wants another one.
  bool Turn();
  // Until the input runs dry, something blocks, or the turn is over: then `again` is set.
  absl::Status WorkThroughInput(bool* again);
  bool TakeItem(Item* item);
  void ReleaseMessage();
  absl::Status OnFrame(const Frame& frame);
  absl::Status OnControl(const v1::UploadFrame& frame);
  absl::Status OnOpen(const v1::Open& open);
  absl::StatusOr<std::size_t> CutBufferBytes() const;
  absl::Status OnFileBegin(const v1::FileBegin& begin);
  // False: no memory for a buffer yet.
  absl::StatusOr<bool> OnData();
  absl::Status OnFileEnd(const v1::FileEnd& end);
  absl::Status FinishFile(const v1::FileEnd& end);
  absl::Status OnCommit(const v1::Commit& commit);
  absl::Status CommitKnown(StreamCall& call);
  absl::Status CommitEntries(StreamCall& call);
  absl::Status AnswerCommit(StreamCall& call);
  absl::Status OnReportStale(const v1::ReportStale& report);
  absl::Status ForgetStale(StreamCall& call);
  absl::Status AddStale(StreamCall& call);
  absl::Status OnDrain(std::chrono::milliseconds drain);
  // Nothing more has arrived: what can be answered is answered.
  absl::Status OnDry();

  // One call on the index, or a GPU, at a time. While it is not answered (is_waiting) the strand
  // does nothing else, so that everything happens in the order of the frames. Each of them fills
  // what is asked for into a new StreamCall and calls `then` with it once it is answered; that is
  // before the return if the answer is quick.
  bool is_waiting() const { return call_ != nullptr; }
  std::shared_ptr<StreamCall> NewCall() const;
  absl::Status LookUp(std::shared_ptr<StreamCall> call, Then then);
  absl::Status Commit(std::shared_ptr<StreamCall> call, Then then);
  absl::Status Forget(std::shared_ptr<StreamCall> call, Then then);
  // Whether what comes is for a GPU.
  bool UsesGpu() const;
  // If so much is in the buffer, and a GPU takes it now; Await comes next.
  bool SendToGpu(std::size_t min_bytes);
  // False: it was handed back.
  bool TakeGpuPiece();
  absl::Status TakeGpuCuts(StreamCall& call);
  absl::Status TakeLastGpuCuts(StreamCall& call);
  void CutByCpu();
  void CountPause(std::size_t cut_bytes);
  std::function<void(const absl::Status&)> Answered(Stage stage);
  static void Answer(const std::weak_ptr<StreamEngine>& engine, StreamCall& call);
  absl::Status Await(Then then);
  // Goes on if what was waited for is there.
  absl::Status Continue();

  // Fingerprints, looks up and answers the chunks that are cut. They are answered on return unless
  // the strand is waiting then.
  absl::Status AnswerChunks();
  absl::Status AnswerLookedUp(StreamCall& call);
  // What was answered last tells how the file goes on.
  void FollowHints();
  void CountLookup(std::atomic<std::uint64_t> RapidTotals::* counter);
  absl::Status AnswerDone();
  absl::Status AccountSession();
  void SendAnswers();
  bool IsOutputFull() const;
  bool ReserveBuffer();
  void End(const absl::Status& status);
  // Once for what is new, before anybody learns that the stream has ended.
  void AddTotals();
  void DropEverything();

  const EngineContext* const context_;
  const std::string session_id_;

  // The strand.
  enum class State : std::uint8_t { kIdle, kScheduled, kRunning, kRunAgain };
  std::atomic<State> state_{State::kIdle};
  std::atomic<std::uint64_t> turn_count_{0};
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> awaits_memory_{false};
  std::atomic<bool> awaits_index_{false};
  // Of what is awaited.
  std::atomic<Stage> awaited_stage_{Stage::kLookup};
  std::atomic<Expecting> expecting_{Expecting::kOpen};
  std::atomic<std::size_t> queued_bytes_{0};
  std::atomic<std::size_t> session_bytes_{0};

  mutable std::mutex mutex_;
  std::deque<Item> queue_;
  bool half_closed_ = false;
  std::optional<absl::Status> failure_;

  // All below belongs to the strand; the clock also to whoever schedules it.
  StageClock clock_;
  std::shared_ptr<StreamSink> sink_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Chunker> chunker_;
  // Null: the CPU cuts.
  std::shared_ptr<const cuda::BatchPlan> gpu_plan_;
  // Null until the first piece is sent.
  std::shared_ptr<GpuPiece> gpu_piece_;
  int given_up_in_a_row_ = 0;
  // Cut by the CPU before a GPU gets the next piece.
  std::size_t gpu_pause_bytes_ = 0;
  // Null: without hints. Outlives the cutter.
  std::unique_ptr<FileHints> hints_;
  std::unique_ptr<CutBuffer> cutter_;
  Reservation buffer_memory_;
  Reservation session_memory_;
  Reservation call_memory_;
  std::unique_ptr<FrameSource> message_;
  // The data frame in hand and how much of it has been taken.
  const Frame* data_ = nullptr;
  std::size_t data_piece_ = 0;
  std::size_t data_piece_offset_ = 0;
  std::string answers_;
  // Asked of the index or a GPU, and what goes on when it is answered.
  std::shared_ptr<StreamCall> call_;
  Then then_ = nullptr;
  // The frame in hand while the end of its file waits for a GPU.
  const v1::FileEnd* file_end_ = nullptr;
  // Of the frame in hand while its commit waits for the index.
  const v1::Commit* commit_ = nullptr;
  CommitPlan commit_plan_;
  bool ended_ = false;
  // What AddTotals has added.
  RapidCounters added_;
  std::uint64_t added_ahead_count_ = 0;
};

}  // namespace kerf
