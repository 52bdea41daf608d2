// What every verb gets.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "client/agent/cli/exit_code.h"
#include "client/agent/cli/reporter.h"

namespace kerf::agent {

// Lives as long as the process. A verb's Add function declares its flags on a subcommand and sets
// `run` in the subcommand's callback.
struct Context {
  CLI::App& app;
  Reporter& reporter;
  // Becomes true on SIGINT and SIGTERM.
  const std::atomic<bool>& cancelled;
  // What the parsed command line asks for.
  std::function<ExitCode()> run;
};

// For the check of an argument that names something: "" is what a script's unset variable gives,
// and no file, store or server is called so.
std::string RefuseEmpty(const std::string& value);

// Flags that several verbs have.
void AddStoreOption(CLI::App& verb, std::string& store);
void AddServerOption(CLI::App& verb, std::string& server);

// A subcommand with kerf's manners: global flags may stand behind it, and its help ends with
// `examples`.
CLI::App& AddVerb(Context& context, const std::string& name, const std::string& description,
                  const std::string& examples);

// Reports the failure and returns its exit code.
ExitCode FailWith(Context& context, const absl::Status& status);

// The same for a verb that talks to `server`: where nobody answers there, it says so and what to
// do.
ExitCode FailWithServer(Context& context, const absl::Status& status, std::string_view server);

// The same for what is wrong with the command line: always kUsage.
ExitCode FailUsage(Context& context, const absl::Status& status);

}  // namespace kerf::agent
