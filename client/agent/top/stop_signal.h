// Ctrl-Z, for who draws on the terminal: it is to be as the shell has left it before the process
// stops.
#pragma once

#include <csignal>

namespace kerf::agent {

// As long as there is one, SIGTSTP stops nothing by itself. One at a time, in the thread that
// draws.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Whether one has come since this was asked last.
  static bool TakeStop();
  // Whether the process was let go on (SIGCONT) since this was asked last.
  static bool TakeContinue();
  // Stops the process until it is let go on; returns at once where nobody is there who could.
  static void Stop();

 private:
  struct sigaction stop_before_{};
  struct sigaction continue_before_{};
};

}  // namespace kerf::agent
