#include "client/cli/interrupt.h"

#include <dirent.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <thread>

#include "absl/strings/numbers.h"
#include "base/check.h"
#include "base/unfinished_paths.h"

namespace kerf::agent {
namespace {

// Of a thread that waits in the kernel while nobody tells it to.
constexpr std::chrono::milliseconds kWakeInterval{50};
// No other use is made of it here.
constexpr int kWakeSignal = SIGUSR1;

std::atomic<bool> interrupted{false};
std::atomic<int> first_signal{0};
std::atomic<bool> ends_at_once{false};
static_assert(std::atomic<int>::is_always_lock_free, "signal handlers use them");
sem_t signal_came;

void OnSignal(int signal_number) {
  const int before = errno;
  int none = 0;
  first_signal.compare_exchange_strong(none, signal_number);
  interrupted = true;
  sem_post(&signal_came);
  errno = before;
}

void OnWake(int /*signal_number*/) {}

struct DirectoryCloser {
  void operator()(DIR* directory) const { closedir(directory); }
};

// Whoever waits in a call of the system gets EINTR, in whatever thread.
void WakeOtherThreads() {
  const std::unique_ptr<DIR, DirectoryCloser> tasks(opendir("/proc/self/task"));
  if (tasks == nullptr) return;
  const pid_t self = gettid();
  while (const dirent* task = readdir(tasks.get())) {
    int id = 0;
    if (!absl::SimpleAtoi(task->d_name, &id) || id == self) continue;
    syscall(SYS_tgkill, getpid(), id, kWakeSignal);
  }
}

// Whether a signal came within that time.
bool WaitForSignal(std::chrono::milliseconds limit) {
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  const auto nanoseconds = until.tv_nsec + std::chrono::nanoseconds(limit).count();
  until.tv_sec += nanoseconds / 1'000'000'000;
  until.tv_nsec = nanoseconds % 1'000'000'000;
  int result = 0;
  while ((result = sem_timedwait(&signal_came, &until)) != 0 && errno == EINTR) {
  }
  return result == 0;
}

void Watch() {
  while (sem_wait(&signal_came) != 0) {
  }
  const auto deadline = std::chrono::steady_clock::now() + kEndPatience;
  while (!ends_at_once && std::chrono::steady_clock::now() < deadline) {
    if (WaitForSignal(kWakeInterval)) break;
    WakeOtherThreads();
  }
  RemoveUnfinishedPaths();
  std::_Exit(InterruptExitCode());
}

sigset_t Interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

const std::atomic<bool>& CatchInterrupts() {
  KERF_CHECK(sem_init(&signal_came, 0, 0) == 0);
  struct sigaction action{};
  action.sa_handler = OnWake;
  sigaction(kWakeSignal, &action, nullptr);
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed pipe is an error of write, not the end.
  std::signal(SIGPIPE, SIG_IGN);
  // It takes none of these signals itself, and ends with the process.
  const sigset_t signals = Interrupts();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread(Watch).detach();
  // Also those that HoldInterrupts of another program has left.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  return interrupted;
}

void EndAtOnceWhenInterrupted() {
  ends_at_once = true;
  // It may have come before.
  if (interrupted) sem_post(&signal_came);
}

int InterruptExitCode() { return first_signal == 0 ? 0 : 128 + first_signal; }

void HoldInterrupts() {
  const sigset_t signals = Interrupts();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace kerf::agent
