#include "server/worker/stream_call.h"

#include <utility>

#include "base/task.h"
#include "server/worker/known_repositories.h"
#include "server/worker/strand.h"

namespace kerf {
namespace {

// The coroutines own the call: its stream may be gone when the index answers.
Detached RunLookup(Index& index, std::shared_ptr<StreamCall> call) {
  call->status =
      co_await index.Lookup(call->repository, call->session_epoch, call->digests, call->results);
  call->Answer();
}

Detached RunCommit(Index& index, std::shared_ptr<StreamCall> call) {
  call->status = co_await index.Commit(call->repository, call->session_epoch, call->entries,
                                       /*replace=*/false);
  call->Answer();
}

Detached RunForget(Index& index, std::shared_ptr<StreamCall> call) {
  const absl::StatusOr<ForgetResult> result =
      co_await index.Forget(call->repository, call->entries);
  call->status = result.status();
  call->Answer();
}

Detached RunKnown(KnownRepositories& repositories, std::shared_ptr<StreamCall> call) {
  call->status = co_await repositories.Check(call->repository);
  call->Answer();
}

}  // namespace

void StreamCall::Answer() {
  if (phase.exchange(Phase::kAnswered) != Phase::kAwaited) return;
  if (const std::shared_ptr<Strand> waiting = strand.lock()) waiting->WakeByAnswer();
}

void AskLookup(Index& index, std::shared_ptr<StreamCall> call) {
  call->results.assign(call->digests.size(), LookupResult{});
  RunLookup(index, std::move(call));
}

void AskCommit(Index& index, std::shared_ptr<StreamCall> call) {
  RunCommit(index, std::move(call));
}

void AskForget(Index& index, std::shared_ptr<StreamCall> call) {
  RunForget(index, std::move(call));
}

void AskKnown(KnownRepositories& repositories, std::shared_ptr<StreamCall> call) {
  RunKnown(repositories, std::move(call));
}

}  // namespace kerf
