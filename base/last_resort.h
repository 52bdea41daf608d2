// The outermost frame of a program: what a library throws ends it with a message, not with abort,
// and what a library only suspects does not end it.
#pragma once

#include <functional>
#include <string_view>

namespace kerf {

// The exit code of a program that ends so.
inline constexpr int kThrownExitCode = 1;

// Runs `run` and returns what it returns. If it throws: writes "PROGRAM: what went wrong" as one
// line to standard error and returns kThrownExitCode. From here on, for the whole process: where a
// library aborts, and the system lets the process have no more files, or bounds its memory, that is
// said, and the process ends with kThrownExitCode; any other abort stays one.
// A program that was started without standard input, output or error first gets something in their
// place, which can neither be read nor written: else the next file that is opened, a pack or what
// is being restored, has the number, and what is printed is written into it. Debian builds absl as
// for debugging: its mutexes, which are gRPC's, look for deadlocks at each lock (4 % of the time of
// a front) and abort when two are ever taken in both orders. That is off from here on, for the
// whole process.
int CatchAll(std::string_view program, const std::function<int()>& run);

}  // namespace kerf
