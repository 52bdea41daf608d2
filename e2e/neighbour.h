// Whoever else uses a kerfd, in a process of its own.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <thread>

#include "base/check.h"

namespace kerf::e2e {

// As a client on another machine is: gRPC's threads wait for the sockets of all channels of a
// process, so that in one process threads of a low priority do the work of others. It would have a
// machine of its own, and here has what kerfd and the test leave of the processors, for it is what
// kerfd does that is measured.
class Neighbour {
 public:
  // What both processes see.
  struct State {
    std::atomic<bool> may_begin{false};
    std::atomic<bool> is_over{false};
    std::atomic<bool> has_failed{false};
    std::atomic<std::size_t> open_count{0};
    std::atomic<std::uint64_t> sent_bytes{0};
  };
  static constexpr int kLowestPriority = 19;

  // Nothing of gRPC may have been used before. `live` is called in the other process behind Go, and
  // comes back soon when it is over.
  explicit Neighbour(const std::function<void(State&)>& live, int priority = kLowestPriority) {
    child_ = fork();
    KERF_CHECK(child_ >= 0);
    if (child_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpriority(PRIO_PROCESS, 0, priority);
    while (!state_.may_begin.load()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    live(state_);
    _exit(0);
  }
  ~Neighbour() {
    state_.is_over.store(true);
    Go();
    waitpid(child_, nullptr, 0);
    munmap(&state_, sizeof(State));
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  // False: it has died, and what is waited for never comes.
  bool is_alive() const { return waitpid(child_, nullptr, WNOHANG) == 0; }
  void Go() { state_.may_begin.store(true); }
  const State& state() const { return state_; }

 private:
  static State& Share() {
    void* const shared =
        mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    KERF_CHECK(shared != MAP_FAILED);
    return *new (shared) State;
  }

  State& state_ = Share();
  pid_t child_ = -1;
};

}  // namespace kerf::e2e
