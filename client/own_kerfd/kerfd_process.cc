#include "client/own_kerfd/kerfd_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "base/unique_fd.h"

namespace kerf::agent {
namespace {

// Files that are handed on lie behind all numbers under which they are.
constexpr int kFirstFreeFd = kFolderInKerfd + 1;

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawn_file_actions_init(&files_);
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&signals, number);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&files_);
  }

  void Give(int fd, int number) { posix_spawn_file_actions_adddup2(&files_, fd, number); }
  void CloseOthers() {
    posix_spawn_file_actions_addclosefrom_np(&files_, kFirstFreeFd);
    posix_spawn_file_actions_addchdir_np(&files_, "/");
  }

  const posix_spawn_file_actions_t* files() const { return &files_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

std::vector<std::string> EnvironmentOfKerfd(const char* const* environment) {
  std::vector<std::string> kept;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const bool is_left_out = entry.starts_with("KERFD_") || entry.starts_with("NOTIFY_SOCKET=") ||
                             entry.starts_with("WATCHDOG_") || entry.starts_with("LISTEN_");
    if (!is_left_out) kept.emplace_back(entry);
  }
  return kept;
}

absl::StatusOr<pid_t> StartKerfd(const KerfdStart& start) {
  std::array<UniqueFd, 4> given;
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::array<int, 4> fds = {nothing.get(), start.log, start.lock, start.folder};
  for (std::size_t i = 0; i < fds.size(); ++i) {
    given[i] = UniqueFd(fcntl(fds[i], F_DUPFD_CLOEXEC, kFirstFreeFd));
    if (given[i].valid()) continue;
    return absl::ResourceExhaustedError(
        ToAbsl(Cat("cannot start kerfd: no file for it: ", std::strerror(errno))));
  }
  SpawnSettings settings;
  settings.Give(given[0].get(), STDIN_FILENO);
  settings.Give(given[1].get(), STDOUT_FILENO);
  settings.Give(given[1].get(), STDERR_FILENO);
  settings.Give(given[2].get(), kLockInKerfd);
  settings.Give(given[3].get(), kFolderInKerfd);
  settings.CloseOthers();
  std::vector<std::string> arguments = start.arguments;
  arguments.insert(arguments.begin(), start.program);
  std::vector<std::string> environment = EnvironmentOfKerfd(environ);
  pid_t process = -1;
  const int error =
      posix_spawn(&process, start.program.c_str(), settings.files(), settings.attributes(),
                  Pointers(arguments).data(), Pointers(environment).data());
  if (error == 0) return process;
  const std::string text = Cat("cannot run ", start.program, ": ", std::strerror(error));
  if (error == EAGAIN || error == ENOMEM) return absl::ResourceExhaustedError(ToAbsl(text));
  return absl::UnavailableError(ToAbsl(text));
}

std::optional<std::string> EndOf(pid_t process) {
  int status = 0;
  const pid_t ended = waitpid(process, &status, WNOHANG);
  // Who ignores SIGCHLD, as whoever has started kerf may have it do, is not told how.
  if (ended < 0 && errno == ECHILD) return "an end of which the system does not tell more";
  if (ended != process) return std::nullopt;
  if (WIFSIGNALED(status)) return Cat("signal ", WTERMSIG(status));
  return Cat("exit code ", WEXITSTATUS(status));
}

}  // namespace kerf::agent
