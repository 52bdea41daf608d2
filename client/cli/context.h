// What every verb gets.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cli/command_line.h"
#include "base/tls/tls_files.h"
#include "client/cli/exit_code.h"
#include "client/cli/reporter.h"
#include "client/cpp/server_address.h"
#include "client/own_kerfd/own_kerfd.h"

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
  // Null: ServerOf has chosen another server, or was not asked.
  std::unique_ptr<OwnKerfd> own_kerfd = nullptr;
};

// For the check of an argument that names something: "" is what a script's unset variable gives,
// and no file, store or server is called so.
std::string RefuseEmpty(const std::string& value);

// Flags that several verbs have.
void AddStoreOption(const Verb& verb, std::string& store);
inline constexpr char kAnyServer[] =
    "The kerfd or front to talk to: unix:PATH or HOST:PORT; several with commas between them, of "
    "which any will do";

// As the user said it.
struct ServerFlags {
  // Empty: none was named.
  std::string address;
  TlsFiles tls;
  std::string tls_name;
  // Empty: no token is shown.
  std::string token_file;
  // To whose unix sockets it is shown beside one's own and root's: a name or a number. Empty:
  // nobody's.
  std::string server_user;
};
// For verbs that need a server: one is found, or started, where none is named.
void AddServerOption(const Verb& verb, ServerFlags& flags);
// For verbs that ask of servers: where none is named, of the default one.
void AddPresentServerOption(const Verb& verb, ServerFlags& flags,
                            const std::string& description = kAnyServer);
// Those of TLS alone, for a verb whose --server is not as that of others.
void AddTlsOptions(const Verb& verb, ServerFlags& flags);

// What the flags mean: over TLS if they name a CA or a certificate. The files are read; what
// is wrong with one, or with the flags together, is for FailUsage. Warns of secrets that every user
// can read. Where no server is named it is the default one, or a kerfd of kerf's own, which has to
// be started then (StartOwnKerfd).
absl::StatusOr<client::ServerAddress> ServerOf(Context& context, const ServerFlags& flags);

// Starts the kerfd of kerf's own if ServerOf has chosen it, and does nothing else. To be called
// once all arguments are known to be good, before the server is asked anything. Errors are those of
// OwnKerfd::Start.
absl::Status StartOwnKerfd(Context& context);

// Verb::AddVerb, of `kerf` itself.
Verb AddVerb(Context& context, const std::string& name, const std::string& description,
             const std::string& examples);

// Reports the failure and returns its exit code.
ExitCode FailWith(Context& context, const absl::Status& status);

// Why no connection to a server came about, without the words of gRPC around it; empty if `status`
// is no such failure.
std::string_view ConnectionFailure(const absl::Status& status);

// As FailWith, for a verb that talks to `server`: where nobody answers there, or TLS is why they do
// not understand each other, it says so and what to do.
ExitCode FailWithServer(Context& context, const absl::Status& status,
                        const client::ServerAddress& server);

// The same for what is wrong with the command line: always kUsage.
ExitCode FailUsage(Context& context, const absl::Status& status);

}  // namespace kerf::agent
