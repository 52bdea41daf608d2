// A kerfd that serves one user's kerf, for as long as one of them needs it
// (docs/adr/0031-a-kerfd-of-ones-own.md).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace kerf::agent {

// Starts it, or joins that of another kerf of the same user; starts another one where it is lost;
// lets go of it in the end. It ends by itself once no kerf holds on to it, however these have
// ended. Its methods are of one thread.
class OwnKerfd {
 public:
  struct Options {
    // The program kerfd. Empty: there is none, and Start says that `searched` was looked through.
    std::string program;
    std::string searched;
    // Where its socket, index and log are (OwnKerfdFolder).
    std::string folder;
    // Ends waiting. Outlives this.
    const std::atomic<bool>* cancelled = nullptr;
    // A line for people: the folder was made, or it takes long. By Start alone.
    std::function<void(std::string_view)> on_first;
    std::function<void(std::string_view)> on_wait;
    // It was lost, and another one is started (Unavailable); or none is any more. By another
    // thread.
    std::function<void(const absl::Status&)> on_lost;
  };

  explicit OwnKerfd(Options options);
  OwnKerfd(const OwnKerfd&) = delete;
  OwnKerfd& operator=(const OwnKerfd&) = delete;
  // Waits for its end, for some seconds, where nobody else holds on to it.
  ~OwnKerfd();

  // "unix:PATH". The same for good; nobody listens there before Start.
  std::string address() const;
  std::string log_path() const;
  // Where it writes while it runs.
  const std::string& folder() const { return options_.folder; }

  // Until it serves. Unavailable: there is no such program, it ends before it serves, or does not
  // serve within kStartPatience: the message has its last words. ResourceExhausted: the same, where
  // its disk has no room even for these. Cancelled: somebody has. Others are those of
  // OpenPrivateFolder. Once.
  absl::Status Start();

  // Not OK, and why, once none runs and none is started any more: whoever waits for one waits in
  // vain. Thread-safe.
  absl::Status GivenUp() const;

 private:
  // Of the folder, made where it is missing.
  absl::StatusOr<UniqueFd> OpenInFolder(const char* name, int flags) const;
  absl::Status OpenFolder();
  // Whether this kerf holds on to a kerfd from now on: not if one is just ending.
  absl::StatusOr<bool> TakeHold();
  // Starts one if there is none at all. True: it did.
  absl::StatusOr<bool> StartIfNone();
  absl::StatusOr<pid_t> Spawn(int lock);
  // Whether somebody takes connections. FailedPrecondition: it is not this user.
  absl::StatusOr<bool> Answers() const;
  // What a process says that has ended before it served, `how`.
  absl::Status EndedEarly(const std::string& how) const;
  absl::Status TooLate() const;
  std::string LastWords() const;

  void Watch();
  // Whether to go on.
  bool LookAfter();
  bool AwaitAnother();
  void GiveUp(const absl::Status& why);
  bool OthersHoldOn() const;
  void AwaitEnd();

  const Options options_;
  // Not the path itself where that is no path for a socket.
  bool is_reached_by_fd_ = false;
  UniqueFd folder_;
  // Locked, shared: by whom kerfd is needed.
  UniqueFd hold_;
  // Nothing: another kerf has started it.
  std::optional<pid_t> process_;
  off_t log_begin_ = 0;
  int loss_count_ = 0;
  // Since when none runs, of those that are not started any more.
  std::optional<std::chrono::steady_clock::time_point> gone_since_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  absl::Status given_up_;
  std::thread watch_;
};

}  // namespace kerf::agent
