// What a stream has asked for and waits for.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kernels/fingerprint/digest.h"
#include "server/index/index.h"

namespace kerf {

class KnownRepositories;
class Strand;

// A question to the index, or a piece that a GPU has. It owns all that they read and write, for it
// may outlive the stream. The strand's, except while it is not answered.
struct StreamCall {
  std::weak_ptr<Strand> strand;
  RepositoryId repository;
  std::uint64_t session_epoch = 0;
  // What is asked for.
  std::vector<Digest> digests;
  std::vector<LookupResult> results;
  std::vector<IndexEntry> entries;
  absl::Status status;

  enum class Phase : std::uint8_t {
    kAsked,
    // The strand has gone to sleep: whoever answers wakes it.
    kAwaited,
    kAnswered,
    // The stream has ended: nobody is to be woken.
    kDropped,
  };
  std::atomic<Phase> phase{Phase::kAsked};

  bool is_answered() const { return phase.load() == Phase::kAnswered; }
  // Once, by whoever answers, in any thread: all that it has written is there.
  void Answer();
};

// Ask the index, and answer the call when the index has answered. The call goes on without the
// stream if that has ended meanwhile. The index outlives it.
void AskLookup(Index& index, std::shared_ptr<StreamCall> call);
void AskCommit(Index& index, std::shared_ptr<StreamCall> call);
void AskForget(Index& index, std::shared_ptr<StreamCall> call);
// The same of whether the stream may use its repository.
void AskKnown(KnownRepositories& repositories, std::shared_ptr<StreamCall> call);

}  // namespace kerf
