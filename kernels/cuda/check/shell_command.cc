#include "kernels/cuda/check/shell_command.h"

#include <sys/wait.h>

#include <array>
#include <cstddef>
#include <cstdio>

#include "base/check.h"
#include "base/strings.h"

namespace kerf::cuda {

CommandOutcome RunCommand(const std::string& command) {
  // NOLINTNEXTLINE(bugprone-command-processor): it is the test's own.
  std::FILE* const pipe = popen(Cat("{ ", command, "\n} 2>&1").c_str(), "r");
  KERF_CHECK(pipe != nullptr);
  CommandOutcome outcome;
  std::array<char, 4096> buffer{};
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.text.append(buffer.data(), size);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace kerf::cuda
