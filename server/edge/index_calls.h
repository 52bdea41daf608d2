// Runs the calls of the Index service: a few at a time, of each repository no more than leaves
// others theirs, and none for longer than the clients shall wait.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/limits.h"
#include "base/places.h"
#include "base/task.h"
#include "base/thread_pool.h"
#include "server/edge/call_rooms.h"
#include "server/net/clock.h"

namespace kerf {

namespace audit {
class CallRecord;
}  // namespace audit

struct IndexCallLimits {
  // Calls of a process at once, and three quarters of them of one repository; more are refused with
  // TOO_MANY_CALLS.
  std::size_t max_calls = 64;
  // A call that takes longer, in the queue of the pool or in the index, is answered
  // INDEX_UNAVAILABLE. It keeps its place until the index lets go of it.
  std::chrono::milliseconds timeout = limits::kIndexTimeout;
  // Of answers that clients have not read yet, all together, but for short ones; one that would be
  // too much is answered MEMORY_EXHAUSTED.
  std::size_t max_unread_bytes = std::size_t{128} << 20;
  // Of the requests of calls that the index has had for limits::kSlowIndexCall, all together. What
  // is more holds up others.
  std::size_t max_slow_bytes = std::size_t{32} << 20;
};

// Thread-safe. Outlives its calls.
class IndexCalls {
 public:
  // Gives the encoded response. It begins and ends on the pool, and may still be under way when its
  // call was answered for being late: it owns what it uses.
  using Work = Task<absl::StatusOr<grpc::ByteBuffer>>;

  // `pool` and `clock` outlive it.
  IndexCalls(const IndexCallLimits& limits, ThreadPool* pool, const Clock* clock)
      : limits_(limits), pool_(pool), clock_(clock), rooms_(limits.max_slow_bytes) {}
  IndexCalls(const IndexCalls&) = delete;
  IndexCalls& operator=(const IndexCalls&) = delete;

  struct Request {
    // For which the work may hold a multiple.
    std::size_t bytes = 0;
    // As it says itself; its caller may do there what he asks. Empty: it names none.
    std::string repository;
  };

  // `record` hears how it ends.
  grpc::ServerUnaryReactor* Run(grpc::CallbackServerContext* context, grpc::ByteBuffer* response,
                                Request request, std::shared_ptr<audit::CallRecord> record,
                                Work work);

  // Answers the calls that take too long, how many they were; lets others pass those that wait for
  // long.
  std::size_t CheckTime(TimePoint now);
  // Answers all calls, and those that come later, with `status`.
  void FailAll(const absl::Status& status);

  // Calls that are not answered yet.
  std::size_t waiting_count() const;

 private:
  // gRPC's end of a call; deletes itself once the answer was sent, or the client is gone.
  class Reactor;
  struct Call {
    Reactor* reactor = nullptr;
    // gRPC's; valid until the call is answered.
    grpc::ByteBuffer* response = nullptr;
    std::string request_id;
    std::shared_ptr<audit::CallRecord> record;
    TimePoint came;
    // Of its room.
    std::size_t bytes = 0;
    std::string repository;
    // Among the calls of its repository.
    Places::Hold place;
    // Until it begins.
    std::optional<Work> work;
    // Under mutex_: when its work began, whether it has turned slow, and whether it is answered.
    std::optional<TimePoint> began;
    bool is_slow = false;
    bool is_answered = false;
  };

  // Not OK: there is no place for it.
  absl::Status TakePlaceLocked(Call& call);
  // Those that wait, as far as there is room.
  void StartMoreLocked();
  // Those that the index has had for long make room.
  void TurnSlowLocked(TimePoint now);
  // Its work, from its beginning to its end.
  Detached Serve(std::shared_ptr<Call> call);
  bool IsAnswered(const Call& call) const;
  void OnSent(std::size_t unread_bytes);
  // Answers it unless it is; `response` is for OK.
  void AnswerLocked(Call& call, const absl::Status& status, const grpc::ByteBuffer* response);

  const IndexCallLimits limits_;
  ThreadPool* const pool_;
  const Clock* const clock_;
  mutable std::mutex mutex_;
  absl::Status closed_;
  std::size_t waiting_count_ = 0;
  std::size_t unread_bytes_ = 0;
  Places places_;
  // Those whose work is not done, and those of them whose work has not begun.
  absl::flat_hash_set<std::shared_ptr<Call>> calls_;
  std::list<std::shared_ptr<Call>> unbegun_;
  // Of those whose work has begun.
  CallRooms rooms_;
};

}  // namespace kerf
