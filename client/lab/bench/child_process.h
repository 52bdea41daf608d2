// A program that the benchmark starts beside itself.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kerf::bench {

// In a process group of its own, so that a terminal's Ctrl-C reaches it only through us. Ended with
// the object, and by the system if this program is gone. Of the program's first thread alone.
class ChildProcess {
 public:
  // arguments[0] is the program's path. Its output goes to `log_path`. NotFound: there is no such
  // program, or it may not be run.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& arguments, const std::string& log_path);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  // SIGKILL to the whole group: what it leaves behind is thrown away in any case.
  ~ChildProcess();

  pid_t id() const { return id_; }
  bool HasEnded();

 private:
  explicit ChildProcess(pid_t id) : id_(id) {}

  const pid_t id_;
  bool ended_ = false;
};

}  // namespace kerf::bench
