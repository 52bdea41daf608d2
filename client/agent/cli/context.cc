#include "client/agent/cli/context.h"

#include "base/strings.h"
#include "client/cpp/channel.h"

namespace kerf::agent {

void AddStoreOption(CLI::App& verb, std::string& store) {
  verb.add_option("--store", store, "The folder in which chunks and snapshots are kept")
      ->envname("KERF_STORE")
      ->type_name("DIR")
      ->required();
}

void AddServerOption(CLI::App& verb, std::string& server) {
  server = std::string(client::kDefaultServer);
  verb.add_option("--server", server, "The kerfd to talk to: unix:PATH or HOST:PORT")
      ->envname("KERF_SERVER")
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

ExitCode FailUsage(Context& context, const absl::Status& status) {
  context.reporter.Error(status);
  return ExitCode::kUsage;
}

}  // namespace kerf::agent
