#include "base/last_resort.h"

#include <cstdio>
#include <exception>

#include "absl/synchronization/mutex.h"

namespace kerf {

int CatchAll(std::string_view program, const std::function<int()>& run) {
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
