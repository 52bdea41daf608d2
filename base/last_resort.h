// The outermost frame of a program: what a library throws ends it with a message, not with abort.
#pragma once

#include <functional>
#include <string_view>

namespace kerf {

// The exit code of a program that ends so.
inline constexpr int kThrownExitCode = 1;

// Runs `run` and returns what it returns. If it throws: writes "PROGRAM: what went wrong" as one
// line to standard error and returns kThrownExitCode.
int CatchAll(std::string_view program, const std::function<int()>& run);

}  // namespace kerf
