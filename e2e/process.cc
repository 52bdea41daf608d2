#include "e2e/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/check.h"

namespace kerf::e2e {
namespace {

// How often a running process is looked at.
constexpr std::chrono::milliseconds kPollInterval{1};

int ExitCodeOf(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Process::Process(const std::vector<std::string>& argv, const std::string& log_path) {
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  id_ = fork();
  KERF_CHECK(id_ >= 0);
  if (id_ > 0) return;
  // The child: only async-signal-safe calls, the test may have threads.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int nothing = open("/dev/null", O_RDONLY);
  if (log < 0 || nothing < 0) _exit(126);
  dup2(nothing, 0);
  dup2(log, 1);
  dup2(log, 2);
  execv(arguments[0], arguments.data());
  _exit(127);
}

Process::~Process() { Kill(); }

std::optional<int> Process::Poll() {
  if (exit_code_ || id_ < 0) return exit_code_;
  int status = 0;
  if (waitpid(id_, &status, WNOHANG) == id_) exit_code_ = ExitCodeOf(status);
  return exit_code_;
}

bool Process::Kill() {
  if (id_ < 0 || Poll()) return false;
  kill(id_, SIGKILL);
  int status = 0;
  KERF_CHECK(waitpid(id_, &status, 0) == id_);
  exit_code_ = ExitCodeOf(status);
  // It may have ended by itself between the two.
  return exit_code_ == 128 + SIGKILL;
}

std::optional<int> Process::Wait(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!Poll()) {
    if (std::chrono::steady_clock::now() > end) {
      Kill();
      return std::nullopt;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return exit_code_;
}

}  // namespace kerf::e2e
