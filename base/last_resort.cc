#include "base/last_resort.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include "absl/synchronization/mutex.h"

namespace kerf {
namespace {

// Input is opened for writing, and output for reading: who uses them is told (EBADF), as if they
// were closed still. The number that open(2) gives is the lowest that is free.
void TakeStandardDescriptors() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    const int flags = number == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    // Where there is no /dev, as in a chroot, a folder does as well: it cannot be written either.
    if (open("/dev/null", flags) < 0 && open("/", O_RDONLY | O_DIRECTORY) < 0)
      _exit(kThrownExitCode);
  }
}

// Not a byte of memory, and nothing that takes a lock: whatever has aborted may hold it.
void Say(std::string_view text) {
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

bool HasNoFilesLeft() {
  const int file = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool has_none = file < 0 && errno == EMFILE;
  if (file >= 0) close(file);
  return has_none;
}

// gRPC and absl take it for a bug of their caller that there is no file or thread to be had, and
// std::terminate, where a thread cannot be started, says nothing of it either.
void ExplainAbort() {
  if (HasNoFilesLeft()) {
    Say("the system lets this process open no more files: raise the limit (ulimit -n)\n");
    _exit(kThrownExitCode);
  }
  rlimit memory{};
  if (getrlimit(RLIMIT_AS, &memory) == 0 && memory.rlim_cur != RLIM_INFINITY) {
    Say("the system bounds the memory of this process, and it needs more, or more threads: raise "
        "the limit (ulimit -v)\n");
    _exit(kThrownExitCode);
  }
}

void OnAbort(int /*signal*/, siginfo_t* info, void* /*context*/) {
  // Somebody else's, as of a service manager's watchdog, says nothing of limits.
  if (info->si_pid == getpid()) ExplainAbort();
  // Comes once this returns, and ends the process: abort() would do that itself, kill(2) would not.
  raise(SIGABRT);
}

void ExplainAborts() {
  struct sigaction action{};
  action.sa_sigaction = OnAbort;
  sigemptyset(&action.sa_mask);
  // A second one is as the system has it.
  action.sa_flags = SA_SIGINFO | SA_RESETHAND;
  sigaction(SIGABRT, &action, nullptr);
}

}  // namespace

int CatchAll(std::string_view program, const std::function<int()>& run) {
  TakeStandardDescriptors();
  ExplainAborts();
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const char* message = "something was thrown that says nothing of itself";
  const auto report = [&] {
    // No allocation: this may be for want of memory.
    std::fprintf(stderr, "%.*s: unexpected: %s\n", static_cast<int>(program.size()), program.data(),
                 message);
    return kThrownExitCode;
  };
  try {
    return run();
  } catch (const std::bad_alloc&) {
    message = "there is no memory left (the machine's, or ulimit -v)";
    return report();
  } catch (const std::system_error& error) {
    message = error.code() == std::errc::resource_unavailable_try_again
                  ? "no thread can be started: the system lets this process have too little memory "
                    "(ulimit -v), or its user too few threads (ulimit -u)"
                  : error.what();
    return report();
  } catch (const std::exception& error) {
    message = error.what();
    return report();
  } catch (...) {
    return report();
  }
}

}  // namespace kerf
