#include "client/agent/backup/stream_command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How soon its end, or that of the run, is noticed.
constexpr milliseconds kEndPoll{20};
// What it is given to end by itself once nobody wants its output any more, and behind SIGKILL. Both
// together are less than what an interrupted run has (client/cli/interrupt.h).
constexpr milliseconds kEndPatience{3'000};
constexpr milliseconds kKillPatience{1'000};
// Files of this process that it is not to have lie behind those that it is to have.
constexpr int kFirstOtherFd = STDERR_FILENO + 1;

class SpawnSettings {
 public:
  explicit SpawnSettings(int output) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_adddup2(&files_, output, STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&files_, kFirstOtherFd);
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    // This process ignores the first; whoever has started it may have it ignore the second.
    sigaddset(&signals, SIGPIPE);
    sigaddset(&signals, SIGCHLD);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&files_);
  }

  const posix_spawn_file_actions_t* files() const { return &files_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

// Behind the three that every program has, whichever of those this one was started without.
UniqueFd MoveBehind(UniqueFd fd) {
  if (fd.get() >= kFirstOtherFd) return fd;
  return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstOtherFd));
}

absl::Status NoRoomFor(const std::string& name, int error) {
  return absl::FailedPreconditionError(
      ToAbsl(Cat("cannot start ", name, ": ", std::strerror(error))));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamCommand>> StreamCommand::Start(
    const std::vector<std::string>& arguments) {
  KERF_CHECK(!arguments.empty());
  const std::string& name = arguments.front();
  std::array<int, 2> ends = {-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return NoRoomFor(name, errno);
  UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  read_end = MoveBehind(std::move(read_end));
  write_end = MoveBehind(std::move(write_end));
  if (!read_end.valid() || !write_end.valid()) return NoRoomFor(name, errno);

  std::signal(SIGCHLD, SIG_DFL);
  std::vector<std::string> texts = arguments;
  std::vector<char*> argv;
  argv.reserve(texts.size() + 1);
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  const SpawnSettings settings(write_end.get());
  pid_t process = -1;
  const int error = posix_spawnp(&process, name.c_str(), settings.files(), settings.attributes(),
                                 argv.data(), environ);
  if (error == EAGAIN || error == ENOMEM) return NoRoomFor(name, error);
  if (error != 0) {
    return absl::UnavailableError(
        ToAbsl(Cat("cannot run ", name, ", whose output is to be backed up: ", std::strerror(error),
                   "; no snapshot was made")));
  }
  return std::unique_ptr<StreamCommand>(new StreamCommand(name, process, std::move(read_end)));
}

StreamCommand::~StreamCommand() {
  // Whoever writes to it from here on gets SIGPIPE, also who is below the command.
  output_.Reset();
  if (HasEnded()) return;
  kill(process_, SIGTERM);
  if (EndsWithin(kEndPatience)) return;
  kill(process_, SIGKILL);
  // One that is another user's, as behind sudo, may stay.
  EndsWithin(kKillPatience);
}

bool StreamCommand::HasEnded() {
  if (how_.has_value()) return true;
  int status = 0;
  const pid_t ended = waitpid(process_, &status, WNOHANG);
  if (ended < 0) {
    how_ = Cat("an end of which the system does not tell more: ", std::strerror(errno));
  } else if (ended == process_ && WIFSIGNALED(status)) {
    how_ = Cat("signal ", WTERMSIG(status));
  } else if (ended == process_) {
    how_ = WEXITSTATUS(status) == 0 ? "" : Cat("exit code ", WEXITSTATUS(status));
  }
  return how_.has_value();
}

bool StreamCommand::EndsWithin(milliseconds patience) {
  const auto deadline = steady_clock::now() + patience;
  while (!HasEnded()) {
    if (steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kEndPoll);
  }
  return true;
}

absl::Status StreamCommand::AwaitSuccess(const std::function<absl::Status()>& failure) {
  while (true) {
    KERF_RETURN_IF_ERROR(failure());
    if (HasEnded()) break;
    std::this_thread::sleep_for(kEndPoll);
  }
  if (how_->empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      ToAbsl(Cat(name_, ", whose output was to be backed up, ended with ", *how_,
                 ": what it wrote may be but a part, and no snapshot was made")));
}

}  // namespace kerf::agent
