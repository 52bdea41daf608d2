// A program of the client from its arguments to its exit code: `kerf` and `kerf-lab`.
#pragma once

#include <atomic>
#include <string>

#include "client/cli/context.h"

namespace kerf::agent {

struct ProgramOptions {
  std::string name;
  std::string description;
  // "backup, restore": for whoever names no verb.
  std::string some_verbs;
  void (*add_verbs)(Context& context) = nullptr;
  // The configuration file has settings of another program, too.
  bool shares_config = false;
};

// Parses the arguments, does what they say and returns the exit code. What goes wrong is reported.
// `cancelled` is the caller's; see Context.
int RunProgram(const ProgramOptions& options, int argc, char** argv,
               const std::atomic<bool>& cancelled);

// For main: the same, with SIGINT and SIGTERM for `cancelled`, and with what a library throws
// caught.
int ProgramMain(int argc, char** argv,
                int (*run)(int argc, char** argv, const std::atomic<bool>& cancelled));

}  // namespace kerf::agent
