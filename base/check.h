// Broken invariants of kerf itself stop the process. What the world does wrong (a peer, a file, a
// flag, a server) is never a check: it is an absl::Status.
#pragma once

namespace kerf {

// Prints `condition` and where it failed to standard error, then aborts. Thread-safe.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace kerf

// On in every build: a wrong answer costs data, a check costs nanoseconds.
#define KERF_CHECK(condition) \
  (static_cast<bool>(condition) ? void() : ::kerf::CheckFailed(#condition, __FILE__, __LINE__))
