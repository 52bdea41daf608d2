#include "client/lab/bench/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/strings.h"

namespace kerf::bench {
namespace {

constexpr int kNotStartedExitCode = 127;

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& arguments, const std::string& log_path) {
  // The system ends a child with the thread that has started it (prctl(2)), not with its process:
  // of a thread that comes to its end before, the child would be gone in the middle of a run.
  KERF_CHECK(gettid() == getpid());
  if (access(arguments[0].c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        ToAbsl(Cat("cannot run ", arguments[0], ": ", std::strerror(errno))));
  }
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  // execv does not write to them.
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t id = fork();
  if (id < 0) {
    return absl::ResourceExhaustedError(
        ToAbsl(Cat("cannot start a process: ", std::strerror(errno))));
  }
  if (id == 0) {
    // Only async-signal-safe calls: gRPC may have started threads. posix_spawn knows no way to end
    // with whoever has started it, and a kerfd that is left behind would go on for ever.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kNotStartedExitCode);
    setpgid(0, 0);
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (nothing < 0 || log < 0) _exit(kNotStartedExitCode);
    dup2(nothing, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(kNotStartedExitCode);
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(id));
}

ChildProcess::~ChildProcess() {
  if (HasEnded()) return;
  kill(-id_, SIGKILL);
  // Should it not have its group yet.
  kill(id_, SIGKILL);
  waitpid(id_, nullptr, 0);
}

bool ChildProcess::HasEnded() {
  if (!ended_ && waitpid(id_, nullptr, WNOHANG) == id_) ended_ = true;
  return ended_;
}

}  // namespace kerf::bench
