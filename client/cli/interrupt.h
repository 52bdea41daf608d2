// SIGINT and SIGTERM of a program of the client.
#pragma once

#include <atomic>
#include <chrono>

namespace kerf::agent {

// What an interrupted run is given to end by itself.
inline constexpr std::chrono::seconds kEndPatience{10};

// Once, in main's thread and before there are others. From then on the first of the two signals
// sets what is returned, and calls that wait (to read, to write, to open) are interrupted again and
// again until the process has ended. One that has not after kEndPatience, or gets a second signal,
// is ended: what it was making (base/unfinished_paths.h) goes first.
const std::atomic<bool>& CatchInterrupts();

// For a run that has nothing to put in order: the first signal ends the process at once. Without
// CatchInterrupts it means nothing.
void EndAtOnceWhenInterrupted();

// The exit code of a run that was interrupted: 128 + the number of the signal; 0: none has come.
int InterruptExitCode();

// From here on the two signals wait, and whatever program this process becomes gets them, once it
// calls CatchInterrupts.
void HoldInterrupts();

}  // namespace kerf::agent
