// Programs that an end-to-end test starts and ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace kerf::e2e {

// One child process. Not thread-safe. A process that still runs when the object goes is killed, and
// it is killed by the kernel if the test dies first.
class Process {
 public:
  // Starts argv[0] (a path) with its output appended to `log_path`. Stops the test on failure.
  Process(const std::vector<std::string>& argv, const std::string& log_path);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // kill -9, and waits until it is gone. Returns whether it was still running.
  bool Kill();

  // Its exit code, or 128 + the signal; nothing while it runs.
  std::optional<int> Poll();

  // Waits for its exit code, and kills it after `limit`: then nothing is returned.
  std::optional<int> Wait(std::chrono::milliseconds limit);

 private:
  pid_t id_ = -1;
  std::optional<int> exit_code_;
};

}  // namespace kerf::e2e
