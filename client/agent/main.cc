// `kerf`, the agent and toolbox.

#include <atomic>
#include <csignal>
#include <cstdlib>

#include "base/last_resort.h"
#include "client/agent/command.h"

namespace kerf::agent {
namespace {

std::atomic<bool> cancelled{false};

void OnSignal(int signal_number) {
  // The second one ends the process at once: whatever is not sealed leaves nothing behind in the
  // store.
  if (cancelled.exchange(true)) std::_Exit(128 + signal_number);
}

void InstallSignalHandlers() {
  struct sigaction action{};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed pipe is an error of write, not the end.
  std::signal(SIGPIPE, SIG_IGN);
}

int Main(int argc, char** argv) {
  InstallSignalHandlers();
  return RunCommand(argc, argv, cancelled);
}

}  // namespace
}  // namespace kerf::agent

int main(int argc, char** argv) {
  return kerf::CatchAll("kerf", [&] { return kerf::agent::Main(argc, argv); });
}
