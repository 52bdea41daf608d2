// What a command of the shell says and how it ends, for tests.
#pragma once

#include <string>

namespace kerf::cuda {

struct CommandOutcome {
  // -1 if it did not end by itself.
  int code = -1;
  // Of both outputs.
  std::string text;
};

CommandOutcome RunCommand(const std::string& command);

}  // namespace kerf::cuda
