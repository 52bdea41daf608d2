// The `kerf` command without its process: from arguments to exit code.
#pragma once

#include <atomic>

namespace kerf::agent {

// Parses the arguments (argv[0] is the program's name), runs the verb that they name, and returns
// the exit code. Speaks through standard output and standard error. `cancelled` may become true at
// any time: then the run ends soon.
int RunCommand(int argc, char** argv, const std::atomic<bool>& cancelled);

}  // namespace kerf::agent
