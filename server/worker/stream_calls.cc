// What a stream asks of the index and the GPU, and how it waits for the answers.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "server/worker/stream_engine.h"

namespace kerf {

std::shared_ptr<StreamCall> StreamEngine::NewCall() const {
  auto call = std::make_shared<StreamCall>();
  call->repository = session_->parameters().repository;
  call->session_epoch = session_->parameters().store_epoch;
  return call;
}

absl::Status StreamEngine::LookUp(std::shared_ptr<StreamCall> call, Then then) {
  call_ = std::move(call);
  call_->results.assign(call_->digests.size(), LookupResult{});
  context_->index->Lookup(call_->repository, call_->session_epoch, call_->digests, call_->results,
                          Answered());
  return Await(then);
}

absl::Status StreamEngine::Commit(std::shared_ptr<StreamCall> call, Then then) {
  call_ = std::move(call);
  context_->index->Commit(call_->repository, call_->session_epoch, call_->entries,
                          /*replace=*/false, Answered());
  return Await(then);
}

absl::Status StreamEngine::Forget(std::shared_ptr<StreamCall> call, Then then) {
  call_ = std::move(call);
  context_->index->Forget(call_->repository, call_->entries, Answered());
  return Await(then);
}

bool StreamEngine::SendToGpu(std::size_t min_bytes) {
  const Bytes uncut = cutter_->uncut();
  if (gpu_plan_ == nullptr ||
      uncut.size() < std::max(min_bytes, context_->gpu->min_piece_bytes())) {
    return false;
  }
  call_ = NewCall();
  const bool is_sent =
      context_->gpu->TryCut(gpu_plan_, uncut, /*is_end=*/false,
                            [call = call_, answered = Answered()](cuda::PieceCuts cuts) {
                              // Nobody else has it until it is answered.
                              call->cuts = std::move(cuts);
                              answered(absl::OkStatus());
                            });
  if (!is_sent) call_ = nullptr;
  return is_sent;
}

absl::Status StreamEngine::TakeGpuCuts(StreamCall& call) {
  cutter_->Take(call.cuts);
  return AnswerChunks();
}

std::function<void(const absl::Status&)> StreamEngine::Answered() {
  return [weak = weak_from_this(), call = call_](const absl::Status& status) {
    call->status = status;
    if (call->phase.exchange(StreamCall::Phase::kAnswered) != StreamCall::Phase::kAwaited) return;
    if (const std::shared_ptr<StreamEngine> self = weak.lock()) self->Wake();
  };
}

absl::Status StreamEngine::Await(Then then) {
  then_ = then;
  awaits_index_.store(true);
  StreamCall::Phase phase = StreamCall::Phase::kAsked;
  if (!call_->phase.compare_exchange_strong(phase, StreamCall::Phase::kAwaited)) return Continue();
  // It is held no longer than the index takes, and little beside the buffer that waits with it.
  call_memory_.Force(call_->digests.size() * (sizeof(Digest) + sizeof(LookupResult)) +
                     call_->entries.size() * sizeof(IndexEntry));
  return absl::OkStatus();
}

absl::Status StreamEngine::Continue() {
  if (call_ == nullptr || call_->phase.load() != StreamCall::Phase::kAnswered) {
    return absl::OkStatus();
  }
  const std::shared_ptr<StreamCall> call = std::exchange(call_, nullptr);
  awaits_index_.store(false);
  call_memory_.Set(0);
  KERF_RETURN_IF_ERROR(call->status);
  return (this->*then_)(*call);
}

}  // namespace kerf
