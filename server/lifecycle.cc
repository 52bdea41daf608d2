#include "server/lifecycle.h"

#include <fcntl.h>
#include <google/protobuf/stubs/logging.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace kerf {

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGHUP);
  sigprocmask(SIG_BLOCK, &signals_, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // A file that may not grow (ulimit -f) is an error of the index, not the end.
  std::signal(SIGXFSZ, SIG_IGN);
  // It would write a line for each malformed string that a peer sends; the peer gets an error.
  google::protobuf::SetLogHandler(nullptr);
}

// A terminal that is closed, or a shell that ends, is no reason to end the uploads of others: who
// wants that says SIGTERM.
bool StopSignals::EndsKerfd(int signal_number) const {
  if (signal_number != SIGHUP) return true;
  if (on_hangup_ != nullptr) {
    on_hangup_();
  } else {
    Log(LogLevel::kInfo, "SIGHUP: kerfd is starting, and reads its files as it does");
  }
  return false;
}

bool StopSignals::HaveCome() const { return HaveCome(std::chrono::nanoseconds(0)); }

bool StopSignals::HaveCome(std::chrono::nanoseconds patience) const {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (true) {
    const auto left =
        std::max(until - std::chrono::steady_clock::now(), std::chrono::nanoseconds(0));
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec wait{whole.count(), (left - whole).count()};
    const int signal_number = sigtimedwait(&signals_, nullptr, &wait);
    if (signal_number <= 0) return false;
    if (EndsKerfd(signal_number)) return true;
  }
}

void StopSignals::Wait() const {
  int signal_number = 0;
  do {
    sigwait(&signals_, &signal_number);
  } while (!EndsKerfd(signal_number));
  Log(LogLevel::kInfo, signal_number == SIGTERM ? "SIGTERM" : "SIGINT");
}

void WaitForStop(Supervision& supervision, std::function<absl::Status()> liveness) {
  supervision.manager.TellReady("serves", std::move(liveness));
  supervision.signals.Wait();
}

absl::Status WriteReadyFile(std::string_view flag, const std::string& path,
                            const std::vector<std::string>& addresses) {
  if (path.empty()) return absl::OkStatus();
  std::string text;
  for (const std::string& address : addresses) text += address + "\n";
  const std::string temporary = Cat(path, ".", getpid());
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  bool written =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0 && close(file) != 0) written = false;
  if (!written || rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return absl::FailedPreconditionError(
        ToAbsl(Cat("cannot write ", flag, " ", path, ": ", std::strerror(error))));
  }
  return absl::OkStatus();
}

}  // namespace kerf
