// Runs one Upload stream: takes messages, cuts, hashes, asks the index, answers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/session/session_limits.h"

namespace kerf {

class BufferPool;
class FrameSource;
class HintCache;
class Index;
class KnownRepositories;
class MemoryBudget;
class SharedBudget;
class SharedMemories;
class ThreadPool;
struct RapidTotals;
struct StreamMetrics;
namespace audit {
class CallRecord;
}  // namespace audit
namespace cuda {
class GpuSet;
}  // namespace cuda

// What the client is told that cuts its files where a GPU does.
inline constexpr std::string_view kGpuBackend = "cuda";

// What all streams of a process share. Outlives them and all tasks of the pool.
struct EngineContext {
  // Has answered every call, or will answer none, before the pool goes. It times its calls itself
  // (MeteredIndex), and ends those that take too long (DeadlineIndex).
  Index* index = nullptr;
  // Asked at each Open; null: a repository is met when it is named, with whatever algorithm.
  KnownRepositories* repositories = nullptr;
  ThreadPool* pool = nullptr;
  // For messages that have arrived. Apart from the other budget, or waiting messages could keep
  // every stream from the buffer in which it would work them off; shared by whose streams they are,
  // or those of one could leave another's a message at a time.
  SharedBudget* input_budget = nullptr;
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
  // A stream that has cut for so long gives its thread to others, in the middle of a message too.
  std::chrono::nanoseconds turn_time = std::chrono::milliseconds(5);
  // The same where another stream waits for a thread: one whose messages come one behind the other
  // waits for such a turn with each.
  std::chrono::nanoseconds shared_turn_time = std::chrono::milliseconds(1);
  std::string worker_name;
  // What clients of this machine share; null: nothing is taken.
  const SharedMemories* shared_memories = nullptr;
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

  // Whether the client may store in this repository, which its Open names; else the stream ends
  // with what is answered.
  virtual absl::Status MayStoreIn(std::string_view /*repository*/) { return absl::OkStatus(); }

  // Behind MayStoreIn: of files, that one message should name at most. What it owes is known once
  // it is there.
  virtual std::uint64_t NameableBytes() const { return UINT64_MAX; }

  // The message in hand names so much of files whose bytes are not in it: it counts as if it had
  // brought them.
  virtual void CountNamed(std::uint64_t /*bytes*/) {}

  // Encoded answers (answer_encoder.h) to be written as soon as the transport takes them, in order.
  virtual void Send(std::string encoded_answers) = 0;

  // Given to Send and not yet taken by the transport.
  virtual std::size_t unsent_bytes() const = 0;

  // There is room for input: StreamEngine::wants_input is true. May come at any time.
  virtual void ResumeInput() = 0;

  // After what was sent, ends the stream with `status` (of server/errors). The last call.
  virtual void Finish(const absl::Status& status) = 0;
};

// Takes messages, cuts, fingerprints, asks the index, answers: on the pool, one task at a time. All
// methods are thread-safe and return at once. It has no clock: whoever owns it ends it if the peer
// is too slow. What it is made of: strand.h, upload.h.
class StreamEngine {
 public:
  // `share`: of the pool (ThreadPool::Post) and of the input budget, by whose stream it is.
  // `record` is told what the stream is and does, and held until it does nothing more; null: nobody
  // wants to know.
  static std::shared_ptr<StreamEngine> Create(const EngineContext* context, std::string session_id,
                                              std::shared_ptr<StreamSink> sink,
                                              std::uint64_t share = 0,
                                              std::shared_ptr<audit::CallRecord> record = nullptr);
  virtual ~StreamEngine() = default;

  virtual void Push(std::unique_ptr<FrameSource> message) = 0;
  // The client sends no more.
  virtual void HalfClose() = 0;
  // Answers what has arrived, then says GoAway.
  virtual void Drain(std::chrono::milliseconds drain) = 0;
  // Ends the stream with this status as soon as the task that runs is done; input that waits is
  // dropped.
  virtual void Fail(const absl::Status& status) = 0;
  // The peer is gone, or the transport has ended the stream: drops everything, calls the sink no
  // more after the task that runs.
  virtual void Cancel() = 0;
  // The transport has taken answers.
  virtual void AnswersTaken() = 0;
  // Whether the next message may be read.
  virtual bool wants_input() const = 0;
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
  virtual Expecting expecting() const = 0;
  // Of the budget, for its session: what it holds while it waits for its client between files.
  virtual std::size_t session_bytes() const = 0;
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
  virtual Waiting waiting() const = 0;
  // For a watchdog: work is in hand or waits for a thread or a GPU, and how many turns were done.
  // Those that only find that the index has not answered yet do not count. Who waits for an index
  // that answers later is not busy: it is the index that has a deadline (DeadlineIndex), except
  // while it works in the thread that asks.
  virtual bool is_busy() const = 0;
  virtual std::uint64_t turn_count() const = 0;
};

}  // namespace kerf
