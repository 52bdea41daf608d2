// `kerf`, the agent and toolbox.

#include <csignal>
#include <cstdlib>
#include <string_view>

#include "base/strings.h"
#include "base/version.h"
#include "client/agent/cli/context.h"
#include "client/agent/verbs/verbs.h"

namespace kerf::agent {
namespace {

std::atomic<bool> cancelled{false};

void OnSignal(int signal_number) {
  // The second one ends the process at once: whatever is not sealed leaves nothing behind in the
  // store.
  if (cancelled.exchange(true)) std::_Exit(128 + signal_number);
}

void InstallSignalHandlers() {
  struct sigaction action{};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed pipe is an error of write, not the end.
  std::signal(SIGPIPE, SIG_IGN);
}

std::string ConfigPath() {
  if (const char* path = std::getenv("KERF_CONFIG")) return path;
  if (const char* base = std::getenv("XDG_CONFIG_HOME")) return Cat(base, "/kerf/config.toml");
  if (const char* home = std::getenv("HOME")) return Cat(home, "/.config/kerf/config.toml");
  return "";
}

void AddVerbs(Context& context) {
  AddBackupVerb(context);
  AddRestoreVerb(context);
  AddSnapshotsVerb(context);
  AddLsVerb(context);
  AddVerifyVerb(context);
  AddForgetVerb(context);
  AddGcVerb(context);
  AddStatsVerb(context);
  AddChunkVerb(context);
  AddPingVerb(context);
  AddCompletionVerb(context);
}

int Main(int argc, char** argv) {
  InstallSignalHandlers();
  CLI::App app(
      "kerf backs up folders into a store, with the help of a kerfd that cuts and deduplicates");
  app.footer(
      Cat("Flags come before the environment (KERF_STORE, KERF_SERVER), the environment "
          "before the file.\n",
          kExitCodeHelp));
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(kVersion));
  app.set_config("--config", ConfigPath(), "Settings as TOML, a section for each verb");
  app.allow_config_extras(CLI::config_extras_mode::error);
  Reporter::Options output;
  app.add_flag("--json", output.json, "One JSON object a line");
  app.add_flag("-q,--quiet", output.quiet, "Only results, warnings and errors");
  app.add_flag("-v,--verbose", output.verbose, "Say more");
  app.add_flag("--no-progress", output.no_progress, "No progress line");

  Reporter reporter;
  Context context{app, reporter, cancelled, {}};
  AddVerbs(context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error);  // --help, --version
      return 0;
    }
    for (int index = 1; index < argc; ++index) {
      output.json = output.json || std::string_view(argv[index]) == "--json";
    }
    reporter.Configure(output);
    reporter.Error(absl::InvalidArgumentError(Cat(error.what(), "; see kerf --help")));
    return static_cast<int>(ExitCode::kUsage);
  }
  reporter.Configure(output);
  const ExitCode code = context.run();
  return static_cast<int>(cancelled ? ExitCode::kInterrupted : code);
}

}  // namespace
}  // namespace kerf::agent

int main(int argc, char** argv) { return kerf::agent::Main(argc, argv); }
