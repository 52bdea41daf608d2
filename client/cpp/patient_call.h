// Calls of the Index and Repository services, as far as they have something in common.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/limits.h"
#include "client/cpp/call_cancellation.h"
#include "client/cpp/retry.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace kerf::client {

// A call that is made again.
struct CallWait {
  // The server's error, or gRPC's where there was none to say one.
  absl::Status why;
  // How often this call was made and not taken.
  int tries = 0;
  // Until it is made again.
  std::chrono::milliseconds wait{};
};

struct CallOptions {
  // Ends calls and waits; it outlives both. Null: nobody ends them.
  CallCancellation* cancellation = nullptr;
  // How long each call is tried again.
  std::chrono::milliseconds patience = limits::kRetryFor;
  // Told before each wait for a server that is away, and of one that has no room where that lasts.
  std::function<void(const CallWait&)> on_wait = {};
  // Where the caller knows of other servers, each as good as this one: how many, and what has the
  // next try go to the next of them. Called behind each wait for one that is away or has no index.
  int others_count = 0;
  std::function<void()> go_elsewhere = {};
  // The caller knows that the server is there, as one that it has started itself.
  bool is_met = false;
  // Whether the caller knows that none comes again: then nothing is waited for, and the error is
  // that of the last try. Asked often; empty: nobody knows.
  std::function<bool()> is_gone = {};
};

// Calls of one server, or of the fronts and workers behind one address, that may be made twice: all
// of the two services are (docs/spec/protocol.md, PRO-64). Not thread-safe.
class PatientCalls {
 public:
  explicit PatientCalls(CallOptions options) : options_(std::move(options)) {}

  // Makes a call, which `ask` does with a context that has a request id and a deadline of a minute.
  // Where the server has no room for it now (HasNoRoomNow), or stops, or nobody stands behind it
  // who could take it (IsAwayNow), waits and asks once more, for the patience at most; so, too,
  // where the connection broke, once the server has been met: at an address that is mistyped nobody
  // comes by waiting. An index that this server does not reach is asked for once at each of the
  // others. It waits for as long as the server says where that is a quota, of which it
  // knows when there is some again; else longer each time, at random, and as long as it says at
  // least. The error is the server's, with the request id.
  absl::Status Call(const std::function<grpc::Status(grpc::ClientContext& context)>& ask);

  // Of the last Call: a try before the one that was answered may have been carried out. What the
  // answer says of before the call is then perhaps that try's own doing.
  bool was_perhaps_done_before() const { return was_perhaps_done_before_; }

  std::chrono::milliseconds patience() const { return options_.patience; }

 private:
  absl::Status CallOnce(const std::function<grpc::Status(grpc::ClientContext&)>& ask);
  // Whether it is worth another try, and after how long.
  std::optional<std::chrono::milliseconds> WaitAfter(const absl::Status& status, RetryPlan& plan,
                                                     std::chrono::steady_clock::time_point now);
  bool IsAway(const absl::Status& status) const;
  bool IsGone() const { return options_.is_gone && options_.is_gone(); }
  // True: somebody has ended it. It ends early, too, once the server is gone.
  bool WaitOut(std::chrono::milliseconds wait) const;

  const CallOptions options_;
  // Somebody has answered with kerf's own words.
  bool is_met_ = options_.is_met;
  bool was_perhaps_done_before_ = false;
};

}  // namespace kerf::client
