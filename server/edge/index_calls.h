// Runs the calls of the Index service on a pool: a few at a time, and none for longer than the
// clients shall wait.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "server/net/clock.h"
#include "server/worker/thread_pool.h"

namespace kerf {

struct IndexCallLimits {
  // Calls of a process at once; more are refused with TOO_MANY_CALLS.
  std::size_t max_calls = 64;
  // A call that takes longer, in the queue of the pool or in the index, is answered
  // INDEX_UNAVAILABLE. It keeps its place until the index lets go of it.
  std::chrono::milliseconds timeout{60'000};
};

// Thread-safe. Outlives its calls.
class IndexCalls {
 public:
  // Fills the encoded response. It runs on the pool, and may still run when its call was answered
  // for being late: it owns what it uses.
  using Work = std::function<absl::Status(grpc::ByteBuffer* response)>;

  // `pool` and `clock` outlive it.
  IndexCalls(const IndexCallLimits& limits, ThreadPool* pool, const Clock* clock)
      : limits_(limits), pool_(pool), clock_(clock) {}
  IndexCalls(const IndexCalls&) = delete;
  IndexCalls& operator=(const IndexCalls&) = delete;

  grpc::ServerUnaryReactor* Run(grpc::CallbackServerContext* context, grpc::ByteBuffer* response,
                                Work work);

  // Answers the calls that take too long; how many they were.
  std::size_t CheckTime(TimePoint now);
  // Answers all calls, and those that come later, with `status`.
  void FailAll(const absl::Status& status);

  // Calls that are not answered yet.
  std::size_t waiting_count() const;

 private:
  struct Call {
    grpc::ServerUnaryReactor* reactor = nullptr;
    // gRPC's; valid until the call is answered.
    grpc::ByteBuffer* response = nullptr;
    std::string request_id;
    TimePoint began;
    // Under mutex_.
    bool is_answered = false;
  };

  bool IsAnswered(const Call& call) const;
  // Answers it unless it is; `response` is for OK.
  void AnswerLocked(Call& call, const absl::Status& status, const grpc::ByteBuffer* response);

  const IndexCallLimits limits_;
  ThreadPool* const pool_;
  const Clock* const clock_;
  mutable std::mutex mutex_;
  absl::Status closed_;
  std::size_t waiting_count_ = 0;
  // Those whose work is not done.
  absl::flat_hash_set<std::shared_ptr<Call>> calls_;
};

}  // namespace kerf
