#include "base/last_resort.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>

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

}  // namespace

int CatchAll(std::string_view program, const std::function<int()>& run) {
  TakeStandardDescriptors();
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
  } catch (const std::exception& error) {
    message = error.what();
    return report();
  } catch (...) {
    return report();
  }
}

}  // namespace kerf
