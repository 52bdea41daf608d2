#include "e2e/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/check.h"
#include "base/strings.h"

namespace kerf::e2e {
namespace {

constexpr int kPatience_ms = 60'000;

int ExitCodeOf(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  // execve does not write to them.
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

bool Redirect(const std::string& path, int flags, int descriptor) {
  const int file = open(path.c_str(), flags, 0600);
  return file >= 0 && dup2(file, descriptor) >= 0;
}

// What is not in the bounding set does not come back with execve, not even for root.
bool DropPrivileges() {
  if (geteuid() != 0) return true;
  for (const unsigned long capability :
       {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_FSETID, CAP_SETFCAP,
        CAP_MKNOD, CAP_SYS_ADMIN}) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) return false;
  }
  return true;
}

}  // namespace

Program::Program(const std::vector<std::string>& arguments, const std::string& output_prefix,
                 const ProgramOptions& options)
    : output_prefix_(output_prefix) {
  std::vector<std::string> environment;
  environment.reserve(options.environment.size());
  for (const auto& [name, value] : options.environment) {
    environment.push_back(Cat(name, "=", value));
  }
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(environment);
  WriteText(output_prefix + ".in", options.standard_input);
  const std::string in = output_prefix + ".in";
  const std::string out = output_prefix + ".out";
  const std::string err = output_prefix + ".err";
  pid_ = fork();
  KERF_CHECK(pid_ >= 0);
  if (pid_ != 0) return;
  // Should the test itself be killed, nothing of it may go on.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  const bool ready =
      Redirect(in, O_RDONLY, STDIN_FILENO) && Redirect(out, kFlags, STDOUT_FILENO) &&
      Redirect(err, kFlags, STDERR_FILENO) &&
      (options.working_directory.empty() || chdir(options.working_directory.c_str()) == 0) &&
      (!options.without_privileges || DropPrivileges());
  if (ready) execve(argv[0], argv.data(), envp.data());
  _exit(127);
}

Program::~Program() { Kill(); }

void Program::Signal(int number) const {
  if (!ended_) kill(pid_, number);
}

bool Program::HasEnded() { return ended_ || Reap(WNOHANG); }

bool Program::Kill() {
  if (HasEnded()) return false;
  kill(pid_, SIGKILL);
  KERF_CHECK(Reap(0));
  // It may have ended by itself between the two.
  return exit_code_ == 128 + SIGKILL;
}

std::uint64_t Program::PeakResidentMiB() const {
  std::ifstream file(Cat("/proc/", pid_, "/status"));
  std::string word;
  while (file >> word) {
    std::uint64_t kibibytes = 0;
    if (word == "VmHWM:" && file >> kibibytes) return kibibytes / 1024;
  }
  ADD_FAILURE() << "no VmHWM of process " << pid_;
  return 0;
}

bool Program::Reap(int options) {
  int status = 0;
  rusage usage{};
  if (wait4(pid_, &status, options, &usage) != pid_) return false;
  ended_ = true;
  exit_code_ = ExitCodeOf(status);
  peak_resident_mib_ = static_cast<std::uint64_t>(usage.ru_maxrss) / 1024;
  return true;
}

Completed Program::Wait() {
  if (!ended_) {
    pollfd descriptor{static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)), POLLIN, 0};
    KERF_CHECK(descriptor.fd >= 0);
    if (poll(&descriptor, 1, kPatience_ms) != 1) {
      ADD_FAILURE() << output_prefix_ << ": the program does not end";
      kill(pid_, SIGKILL);
    }
    close(descriptor.fd);
    KERF_CHECK(Reap(0));
  }
  return {exit_code_, ReadText(output_prefix_ + ".out"), ReadText(output_prefix_ + ".err"),
          peak_resident_mib_};
}

std::string BuiltProgram(const std::string& path) {
  const char* source = std::getenv("TEST_SRCDIR");
  KERF_CHECK(source != nullptr);
  return std::string(source) + "/kerf/" + path;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  KERF_CHECK(file.good());
}

}  // namespace kerf::e2e
