// A command whose output is backed up. A pipe ends for whoever writes all of it and for whoever
// dies in the middle alike: only who has started the command is told which it was.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace kerf::agent {

// One thread at a time.
class StreamCommand {
 public:
  // `arguments` are its name, which is looked for as a shell does, and what it gets behind that. It
  // has the standard input and error of this process, its environment and its terminal, and no
  // other file of it. Unavailable: it cannot be run; FailedPrecondition: the system has no process
  // or file for it. From here on this process leaves SIGCHLD alone: who ignores it is told no exit
  // code.
  static absl::StatusOr<std::unique_ptr<StreamCommand>> Start(
      const std::vector<std::string>& arguments);
  StreamCommand(const StreamCommand&) = delete;
  StreamCommand& operator=(const StreamCommand&) = delete;
  // Ends it where it still runs, within some seconds.
  ~StreamCommand();

  // What it writes to its standard output.
  int output() const { return output_.get(); }

  // To be called behind the end of its output: waits until it has ended, too, however long that
  // takes, or until `failure` says something, which is asked again and again. OK: its exit code is
  // 0; else FailedPrecondition, for what it wrote may be but a part.
  absl::Status AwaitSuccess(const std::function<absl::Status()>& failure);

 private:
  StreamCommand(std::string name, pid_t process, UniqueFd output)
      : name_(std::move(name)), process_(process), output_(std::move(output)) {}

  // Whether it has ended; then `how_` says how.
  bool HasEnded();
  // The same, waiting for some time.
  bool EndsWithin(std::chrono::milliseconds patience);

  const std::string name_;
  const pid_t process_;
  UniqueFd output_;
  // Empty behind exit code 0.
  std::optional<std::string> how_;
};

}  // namespace kerf::agent
