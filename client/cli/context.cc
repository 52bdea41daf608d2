#include "client/cli/context.h"

#include "base/strings.h"
#include "client/cpp/channel.h"

namespace kerf::agent {

std::string_view ConnectionFailure(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return "";
  const std::string_view message = MessageOf(status);
  constexpr std::string_view kCause = "last error: UNKNOWN: ";
  if (message.starts_with("DNS resolution failed")) return "no such host";
  if (!message.starts_with("failed to connect to all addresses")) return "";
  const std::size_t cause = message.find(kCause);
  return cause == std::string_view::npos ? message : message.substr(cause + kCause.size());
}

std::string RefuseEmpty(const std::string& value) {
  return value.empty() ? "it is empty: is a variable of your script unset?" : "";
}

void AddStoreOption(const Verb& verb, std::string& store) {
  verb.AddOption("--store", store, "The folder in which chunks and snapshots are kept")
      .Environment("KERF_STORE")
      .Check(RefuseEmpty)
      .Type("DIR")
      .Required();
}

void AddServerOption(const Verb& verb, std::string& server, const std::string& description) {
  server = std::string(client::kDefaultServer);
  verb.AddOption("--server", server, description)
      .Environment("KERF_SERVER")
      .Check(RefuseEmpty)
      .Type("ADDR")
      .ShowDefault();
}

Verb AddVerb(Context& context, const std::string& name, const std::string& description,
             const std::string& examples) {
  return context.line.program().AddVerb(name, description, examples);
}

ExitCode FailWith(Context& context, const absl::Status& status) {
  context.reporter.Error(status);
  return ExitCodeOf(status);
}

ExitCode FailWithServer(Context& context, const absl::Status& status, std::string_view server) {
  const std::string_view failure = ConnectionFailure(status);
  if (failure.empty()) return FailWith(context, status);
  if (server.find(',') != std::string_view::npos) {
    return FailWith(context,
                    absl::UnavailableError(Cat("no kerfd answers at any of ", server,
                                               " (of the last one: ", failure,
                                               "): start one, or say with --server where it is")));
  }
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
