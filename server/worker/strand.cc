#include "server/worker/strand.h"

#include <utility>

#include "base/check.h"
#include "base/thread_pool.h"
#include "server/errors/errors.h"
#include "server/worker/upload.h"

namespace kerf {
namespace {

// Input that one turn works through before other streams get the thread.
constexpr std::size_t kTurnBytes = 4u << 20;

}  // namespace

std::shared_ptr<StreamEngine> StreamEngine::Create(const EngineContext* context,
                                                   std::string session_id,
                                                   std::shared_ptr<StreamSink> sink,
                                                   std::uint64_t share,
                                                   std::shared_ptr<audit::CallRecord> record) {
  if (record == nullptr) {
    record = audit::CallRecord::Begin(nullptr, audit::CallRecord::Kind::kRead, {});
  }
  return std::make_shared<Strand>(context, std::move(session_id), std::move(sink), share,
                                  std::move(record));
}

Strand::Strand(const EngineContext* context, std::string session_id,
               std::shared_ptr<StreamSink> sink, std::uint64_t share,
               std::shared_ptr<audit::CallRecord> record)
    : context_(context),
      session_id_(std::move(session_id)),
      share_(share),
      input_(context->input_budget->ShareOf(share)),
      record_(std::move(record)),
      clock_(context->metrics),
      sink_(std::move(sink)),
      call_memory_(context->work_budget),
      upload_(std::make_unique<Upload>(this)) {}

Strand::~Strand() { input_->GiveBack(queued_bytes_.load()); }

void Strand::Push(std::unique_ptr<FrameSource> message) {
  if (cancelled_.load()) return;
  const std::size_t size_bytes = message->size_bytes();
  if (context_->metrics != nullptr) context_->metrics->ingest_bytes.Add(size_bytes);
  input_->Take(size_bytes);
  queued_bytes_.fetch_add(size_bytes);
  {
    // With the lock, or RestUntilInput, which has just seen an empty queue, might have the last
    // word.
    const std::lock_guard lock(mutex_);
    expecting_.store(Expecting::kNothing, std::memory_order_release);
    queue_.push_back({std::move(message)});
  }
  Wake();
}

void Strand::HalfClose() {
  {
    const std::lock_guard lock(mutex_);
    half_closed_ = true;
  }
  Wake();
}

void Strand::Drain(std::chrono::milliseconds drain) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({nullptr, drain});
  }
  Wake();
}

void Strand::Fail(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.has_value()) failure_ = status;
  }
  Wake();
}

void Strand::Cancel() {
  cancelled_.store(true);
  Wake();
}

bool Strand::wants_input() const {
  const std::size_t queued_bytes = queued_bytes_.load();
  if (!reads_ahead_.load()) return queued_bytes == 0;
  return queued_bytes == 0 || (queued_bytes < context_->input_budget_bytes && input_->MayGrow());
}

StreamEngine::Waiting Strand::waiting() const {
  const Awaits awaits = awaits_.load();
  if (awaits == Awaits::kTurn) return Waiting::kThread;
  if (awaits == Awaits::kAnswer) {
    switch (awaited_stage_.load()) {
      case Stage::kGpu:
        return Waiting::kGpu;
      case Stage::kCommit:
        return Waiting::kCommit;
      case Stage::kForget:
        return Waiting::kForget;
      default:
        return Waiting::kLookup;
    }
  }
  // Between files it may be told of memory that it wants no longer.
  if (awaits_memory_.load() && expecting() == Expecting::kNothing) return Waiting::kMemory;
  return state_.load() == State::kIdle ? Waiting::kNothing : Waiting::kThread;
}

void Strand::Wake() {
  State state = state_.load();
  while (true) {
    State next = State::kScheduled;
    if (state == State::kScheduled || state == State::kRunAgain) return;
    if (state == State::kRunning) next = State::kRunAgain;
    if (!state_.compare_exchange_weak(state, next)) continue;
    if (next == State::kScheduled) {
      clock_.Schedule();
      context_->pool->Post(share_, [self = shared_from_this()] { self->Run(); });
    }
    return;
  }
}

void Strand::WakeByAnswer() {
  // Of a stream that has ended nothing is waited for.
  Awaits awaits = Awaits::kAnswer;
  awaits_.compare_exchange_strong(awaits, Awaits::kTurn);
  Wake();
}

void Strand::Run() {
  state_.store(State::kRunning);
  clock_.Begin();
  const bool was_asleep = is_asleep();
  const bool again = TakeTurn();
  if (upload_ != nullptr) upload_->AddTotals();
  clock_.Flush();
  if (!was_asleep) turn_count_.fetch_add(1, std::memory_order_relaxed);
  State expected = State::kRunning;
  if (!again && state_.compare_exchange_strong(expected, State::kIdle)) return;
  state_.store(State::kScheduled);
  clock_.Schedule();
  context_->pool->Post(share_, [self = shared_from_this()] { self->Run(); });
}

bool Strand::TakeTurn() {
  if (is_cancelled()) {
    DropEverything();
    return false;
  }
  if (upload_ == nullptr) return false;
  std::optional<absl::Status> failure;
  {
    const std::lock_guard lock(mutex_);
    failure = failure_;
  }
  if (failure.has_value()) {
    End(*failure);
    return false;
  }
  if (is_asleep()) return false;
  turn_bytes_ = 0;
  turn_began_ = std::chrono::steady_clock::now();
  wants_turn_ = false;
  if (awaiter_) {
    std::exchange(awaiter_, nullptr).resume();
  } else {
    upload_->Start();
  }
  if (upload_->is_done()) {
    End(FromIndexStatus(upload_->TakeStatus()));
    return false;
  }
  upload_->SendAnswers();
  return wants_turn_;
}

std::optional<Strand::Item> Strand::TakeItem() {
  const std::lock_guard lock(mutex_);
  if (queue_.empty()) return std::nullopt;
  Item item = std::move(queue_.front());
  queue_.pop_front();
  return item;
}

bool Strand::has_items() const {
  const std::lock_guard lock(mutex_);
  return !queue_.empty();
}

bool Strand::is_turn_over() const {
  const auto time = std::chrono::steady_clock::now() - turn_began_;
  return time >= context_->turn_time ||
         (time >= context_->shared_turn_time && context_->pool->is_wanted());
}

bool Strand::Release(std::unique_ptr<FrameSource> message) {
  const std::size_t size_bytes = message->size_bytes();
  message.reset();
  queued_bytes_.fetch_sub(size_bytes);
  input_->GiveBack(size_bytes);
  if (wants_input()) sink_->ResumeInput();
  turn_bytes_ += size_bytes;
  return turn_bytes_ >= kTurnBytes || is_turn_over();
}

Strand::Rest Strand::RestUntilInput(Expecting expecting) {
  const std::lock_guard lock(mutex_);
  if (!queue_.empty()) return Rest::kInput;
  expecting_.store(expecting, std::memory_order_release);
  return half_closed_ ? Rest::kHalfClosed : Rest::kNothing;
}

void Strand::WakeOnMemory() {
  if (awaits_memory_.exchange(true)) return;
  context_->work_budget->WakeOnRelease([weak = weak_from_this()] {
    const std::shared_ptr<Strand> self = weak.lock();
    if (self == nullptr) return;
    self->awaits_memory_.store(false);
    self->Wake();
  });
}

void Strand::BeginCall(Stage stage) {
  awaited_stage_.store(stage);
  awaits_.store(Awaits::kAnswer);
}

bool Strand::Answer::await_suspend(std::coroutine_handle<> awaiter) {
  StreamCall::Phase phase = StreamCall::Phase::kAsked;
  if (!call_->phase.compare_exchange_strong(phase, StreamCall::Phase::kAwaited)) return false;
  // Whoever answers from here on wakes the strand, which has no other turn before this one ends.
  strand_.awaiter_ = awaiter;
  strand_.awaited_ = call_;
  // It is held no longer than the answer takes, and little beside the buffer that waits with it.
  strand_.call_memory_.Force(held_bytes_);
  return true;
}

absl::Status Strand::Answer::await_resume() {
  KERF_CHECK(call_->is_answered());
  strand_.awaited_ = nullptr;
  strand_.awaits_.store(Awaits::kNothing);
  strand_.call_memory_.Set(0);
  return call_->status;
}

void Strand::End(const absl::Status& status) {
  upload_->SendAnswers();
  upload_->AddTotals();
  sink_->Finish(status);
  DropEverything();
}

void Strand::DropEverything() {
  expecting_.store(Expecting::kNothing, std::memory_order_release);
  std::deque<Item> queue;
  {
    const std::lock_guard lock(mutex_);
    queue.swap(queue_);
  }
  queue.clear();
  // The index may still write into what it was asked.
  if (awaited_ != nullptr) awaited_->phase.store(StreamCall::Phase::kDropped);
  awaited_ = nullptr;
  awaits_.store(Awaits::kNothing);
  call_memory_.Set(0);
  awaiter_ = nullptr;
  upload_.reset();
  input_->GiveBack(queued_bytes_.exchange(0));
  session_bytes_.store(0, std::memory_order_relaxed);
  sink_.reset();
}

}  // namespace kerf
