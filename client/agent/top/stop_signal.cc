#include "client/agent/top/stop_signal.h"

#include <atomic>
#include <csignal>

namespace kerf::agent {
namespace {

std::atomic<bool> stop_came{false};
std::atomic<bool> continue_came{false};
static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers use them");

void OnStop(int /*signal_number*/) { stop_came = true; }
void OnContinue(int /*signal_number*/) { continue_came = true; }

// Returns what was there.
struct sigaction Install(int signal_number, void (*handler)(int)) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal_number, &action, &before);
  return before;
}

}  // namespace

StopSignal::StopSignal()
    : stop_before_(Install(SIGTSTP, OnStop)), continue_before_(Install(SIGCONT, OnContinue)) {}

StopSignal::~StopSignal() {
  sigaction(SIGTSTP, &stop_before_, nullptr);
  sigaction(SIGCONT, &continue_before_, nullptr);
}

bool StopSignal::TakeStop() { return stop_came.exchange(false); }

bool StopSignal::TakeContinue() { return continue_came.exchange(false); }

// By the signal's own action: unlike SIGSTOP it is without effect in a process group to which no
// shell is left.
void StopSignal::Stop() {
  const struct sigaction noting = Install(SIGTSTP, SIG_DFL);
  raise(SIGTSTP);
  sigaction(SIGTSTP, &noting, nullptr);
}

}  // namespace kerf::agent
