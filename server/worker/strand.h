// The strand of a stream: its turns on the pool, what waits for them, and what watchers see of it.
#pragma once

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/memory_budget.h"
#include "base/shared_budget.h"
#include "server/audit/call_record.h"
#include "server/session/frame.h"
#include "server/worker/stream_call.h"
#include "server/worker/stream_engine.h"
#include "server/worker/stream_metrics.h"

namespace kerf {

class Upload;

// A StreamEngine that lets one Upload (upload.h), a coroutine, go on: in the pool, one turn at a
// time, from where it waits. Whoever answers what it waits for only wakes the strand; nobody else
// ever resumes the coroutine, and it is destroyed between two turns, or with the strand.
class Strand final : public StreamEngine, public std::enable_shared_from_this<Strand> {
 public:
  Strand(const EngineContext* context, std::string session_id, std::shared_ptr<StreamSink> sink,
         std::uint64_t share, std::shared_ptr<audit::CallRecord> record);
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;
  ~Strand() override;

  void Push(std::unique_ptr<FrameSource> message) override;
  void HalfClose() override;
  void Drain(std::chrono::milliseconds drain) override;
  void Fail(const absl::Status& status) override;
  void Cancel() override;
  void AnswersTaken() override { Wake(); }
  bool wants_input() const override;
  Expecting expecting() const override { return expecting_.load(std::memory_order_acquire); }
  std::size_t session_bytes() const override {
    return session_bytes_.load(std::memory_order_relaxed);
  }
  Waiting waiting() const override;
  bool is_busy() const override {
    const Awaits awaits = awaits_.load();
    return awaits == Awaits::kTurn || state_.load() != State::kIdle ||
           (awaits == Awaits::kAnswer && awaited_stage_.load() == Stage::kGpu);
  }
  std::uint64_t turn_count() const override { return turn_count_.load(std::memory_order_relaxed); }

  // Gives it a turn. Thread-safe.
  void Wake();
  // The same, because what it waits for is answered: from here on it waits for a thread.
  void WakeByAnswer();

  // The rest is the upload's, in its turns.

  struct Item {
    // Null: a drain.
    std::unique_ptr<FrameSource> message;
    std::chrono::milliseconds drain{0};
  };

  const EngineContext& context() const { return *context_; }
  const std::string& session_id() const { return session_id_; }
  audit::CallRecord& record() { return *record_; }
  StageClock& clock() { return clock_; }
  StreamSink& sink() { return *sink_; }
  bool is_cancelled() const { return cancelled_.load(); }

  std::optional<Item> TakeItem();
  bool has_items() const;
  // Whether the turn has lasted so long that it is over for the sake of other streams.
  bool is_turn_over() const;
  // The message has been worked off. Whether the turn is over for the sake of other streams.
  bool Release(std::unique_ptr<FrameSource> message);

  enum class Rest : std::uint8_t { kNothing, kInput, kHalfClosed };
  // Its messages bring all that they count for. Until then none is read while one waits: what that
  // counts, and for whom, may be known only once it is served.
  void ReadAhead() { reads_ahead_.store(true); }
  // All that has come is answered: `expecting` is true from here on unless there is more.
  Rest RestUntilInput(Expecting expecting);
  // Wakes it when memory has come back.
  void WakeOnMemory();
  void set_session_bytes(std::size_t bytes) {
    session_bytes_.store(bytes, std::memory_order_relaxed);
  }

  // Awaited: the turn ends here, and the next one goes on. It comes when somebody wakes the strand,
  // or by itself (Yield). There may be nothing new.
  class TurnEnd {
   public:
    TurnEnd(Strand* strand, bool wants_turn) : strand_(*strand), wants_turn_(wants_turn) {}
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> awaiter) const {
      strand_.awaiter_ = awaiter;
      strand_.wants_turn_ = wants_turn_;
    }
    void await_resume() const {}

   private:
    Strand& strand_;
    const bool wants_turn_;
  };
  TurnEnd NextTurn() { return {this, false}; }
  TurnEnd Yield() { return {this, true}; }

  // Awaited, the status of the call, which has been asked: at once if it is answered. Until then
  // the strand does nothing else, so that everything happens in the order of the frames.
  class Answer {
   public:
    Answer(Strand* strand, std::shared_ptr<StreamCall> call, std::size_t held_bytes)
        : strand_(*strand), call_(std::move(call)), held_bytes_(held_bytes) {}
    bool await_ready() const { return call_->is_answered(); }
    bool await_suspend(std::coroutine_handle<> awaiter);
    absl::Status await_resume();

   private:
    Strand& strand_;
    const std::shared_ptr<StreamCall> call_;
    const std::size_t held_bytes_;
  };
  // Behind BeginCall and the asking. `held_bytes` are held as long as the answer takes.
  Answer AnswerOf(std::shared_ptr<StreamCall> call, std::size_t held_bytes) {
    return {this, std::move(call), held_bytes};
  }
  // A call is about to be asked: the index may take its time before it comes back.
  void BeginCall(Stage stage);

 private:
  void Run();
  // One turn; whether it wants another one.
  bool TakeTurn();
  // Until WakeByAnswer has come, and not only the answer: what that writes is of this wait then.
  bool is_asleep() const { return awaited_ != nullptr && awaits_.load() != Awaits::kTurn; }
  void End(const absl::Status& status);
  void DropEverything();

  const EngineContext* const context_;
  const std::string session_id_;
  const std::uint64_t share_;
  // Messages that wait.
  const std::shared_ptr<SharedBudget::Share> input_;
  const std::shared_ptr<audit::CallRecord> record_;

  enum class State : std::uint8_t { kIdle, kScheduled, kRunning, kRunAgain };
  std::atomic<State> state_{State::kIdle};
  std::atomic<std::uint64_t> turn_count_{0};
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> reads_ahead_{false};
  std::atomic<bool> awaits_memory_{false};
  enum class Awaits : std::uint8_t {
    kNothing,
    kAnswer,
    // It is there, and taken in the next turn.
    kTurn,
  };
  std::atomic<Awaits> awaits_{Awaits::kNothing};
  // Of what is awaited.
  std::atomic<Stage> awaited_stage_{Stage::kLookup};
  std::atomic<Expecting> expecting_{Expecting::kOpen};
  std::atomic<std::size_t> queued_bytes_{0};
  std::atomic<std::size_t> session_bytes_{0};

  mutable std::mutex mutex_;
  std::deque<Item> queue_;
  bool half_closed_ = false;
  std::optional<absl::Status> failure_;

  // All below belongs to the turns; the clock also to whoever schedules them.
  StageClock clock_;
  std::shared_ptr<StreamSink> sink_;
  Reservation call_memory_;
  std::size_t turn_bytes_ = 0;
  std::chrono::steady_clock::time_point turn_began_;
  bool wants_turn_ = false;
  // Where the upload goes on; null before its first turn.
  std::coroutine_handle<> awaiter_;
  // Null: it waits for no answer.
  std::shared_ptr<StreamCall> awaited_;
  // Null once the stream has ended.
  std::unique_ptr<Upload> upload_;
};

}  // namespace kerf
