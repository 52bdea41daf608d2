// What every verb gets.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "base/cli/command_line.h"
#include "client/cli/exit_code.h"
#include "client/cli/reporter.h"

namespace kerf::agent {

// Lives as long as the process. A verb's Add function declares its flags, and what it does.
struct Context {
  CommandLine& line;
  Reporter& reporter;
  // Becomes true on SIGINT and SIGTERM.
  const std::atomic<bool>& cancelled;
  // What the process was started with, behind its own name.
  const std::vector<std::string> arguments;
  // Something that every verb of its kind does beside its own work could not be done, and was
  // warned of: what would end with kOk ends with kPartial.
  bool is_partial = false;
};

// For the check of an argument that names something: "" is what a script's unset variable gives,
// and no file, store or server is called so.
std::string RefuseEmpty(const std::string& value);

// Flags that several verbs have.
void AddStoreOption(const Verb& verb, std::string& store);
inline constexpr char kAnyServer[] =
    "The kerfd or front to talk to: unix:PATH or HOST:PORT; several with commas between them, of "
    "which any will do";
void AddServerOption(const Verb& verb, std::string& server,
                     const std::string& description = kAnyServer);

// Verb::AddVerb, of `kerf` itself.
Verb AddVerb(Context& context, const std::string& name, const std::string& description,
             const std::string& examples);

// Reports the failure and returns its exit code.
ExitCode FailWith(Context& context, const absl::Status& status);

// Why no connection to a server came about, without the words of gRPC around it; empty if `status`
// is no such failure.
std::string_view ConnectionFailure(const absl::Status& status);

// As FailWith, for a verb that talks to `server`: where nobody answers there, it says so and what
// to do.
ExitCode FailWithServer(Context& context, const absl::Status& status, std::string_view server);

// The same for what is wrong with the command line: always kUsage.
ExitCode FailUsage(Context& context, const absl::Status& status);

}  // namespace kerf::agent
