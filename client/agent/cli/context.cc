#include "client/agent/cli/context.h"

#include "base/strings.h"
#include "client/cpp/channel.h"

namespace kerf::agent {
namespace {

// Why no connection came about, without the words of gRPC around it; empty if one did.
std::string_view ConnectionFailure(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return "";
  const std::string_view message = MessageOf(status);
  constexpr std::string_view kCause = "last error: UNKNOWN: ";
  if (message.starts_with("DNS resolution failed")) return "no such host";
  if (!message.starts_with("failed to connect to all addresses")) return "";
  const std::size_t cause = message.find(kCause);
  return cause == std::string_view::npos ? message : message.substr(cause + kCause.size());
}

}  // namespace

std::string RefuseEmpty(const std::string& value) {
  return value.empty() ? "it is empty: is a variable of your script unset?" : "";
}

void AddStoreOption(CLI::App& verb, std::string& store) {
  verb.add_option("--store", store, "The folder in which chunks and snapshots are kept")
      ->envname("KERF_STORE")
      ->check(RefuseEmpty, "")
      ->type_name("DIR")
      ->required();
}

void AddServerOption(CLI::App& verb, std::string& server) {
  server = std::string(client::kDefaultServer);
  verb.add_option("--server", server, "The kerfd to talk to: unix:PATH or HOST:PORT")
      ->envname("KERF_SERVER")
      ->check(RefuseEmpty, "")
      ->type_name("ADDR")
      ->capture_default_str();
}

CLI::App& AddVerb(Context& context, const std::string& name, const std::string& description,
                  const std::string& examples) {
  CLI::App* verb = context.app.add_subcommand(name, description);
  verb->fallthrough();
  verb->footer(Cat("Examples:\n", examples));
  return *verb;
}

ExitCode FailWith(Context& context, const absl::Status& status) {
  context.reporter.Error(status);
  return ExitCodeOf(status);
}

ExitCode FailWithServer(Context& context, const absl::Status& status, std::string_view server) {
  const std::string_view failure = ConnectionFailure(status);
  if (failure.empty()) return FailWith(context, status);
  return FailWith(context,
                  absl::UnavailableError(Cat("no kerfd answers at ", server, " (", failure,
                                             "): start one with kerfd --listen ", server,
                                             " --data-dir DIR, or say with --server where it is")));
}

ExitCode FailUsage(Context& context, const absl::Status& status) {
  context.reporter.Error(status);
  return ExitCode::kUsage;
}

}  // namespace kerf::agent
