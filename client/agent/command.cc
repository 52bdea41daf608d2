#include "client/agent/command.h"

#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "base/version.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/config_file.h"
#include "client/cli/context.h"

namespace kerf::agent {
namespace {

void AddVerbs(Context& context) {
  AddBackupVerb(context);
  AddRestoreVerb(context);
  AddSnapshotsVerb(context);
  AddLsVerb(context);
  AddVerifyVerb(context);
  AddForgetVerb(context);
  AddGcVerb(context);
  AddStatsVerb(context);
  AddIndexVerb(context);
  AddProfilesVerb(context);
  AddChunkVerb(context);
  AddAnalyzeVerb(context);
  AddPingVerb(context);
  AddTopVerb(context);
  AddBenchVerb(context);
  AddCompletionVerb(context);
}

// Before the arguments are parsed: an error in them must already be JSON.
bool AsksForJson(int argc, char** argv) {
  for (int index = 1; index < argc; ++index) {
    if (std::string_view(argv[index]) == "--json") return true;
  }
  return false;
}

// A flag like "--store=", which CLI11 would give the next argument for its value; else empty. It is
// what `--store=$UNSET` becomes.
std::string FlagWithoutValue(int argc, char** argv) {
  for (int index = 1; index < argc; ++index) {
    const std::string_view argument = argv[index];
    if (argument == "--") break;
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1) {
      return std::string(argument.substr(0, argument.size() - 1));
    }
  }
  return "";
}

// What is wrong with the arguments. CLI11 looks for what is missing first; a flag that does not
// exist is the better message.
std::string Describe(const CLI::ParseError& error, const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining(true);
  if (dynamic_cast<const CLI::ConfigError*>(&error) != nullptr) return error.what();
  if (dynamic_cast<const CLI::FileError*>(&error) != nullptr) {
    const auto path = app.get_config_ptr()->as<std::string>();
    return Cat("the configuration file cannot be read: ", RefuseUnreadableConfig(path));
  }
  const std::vector<const CLI::App*> verbs =
      app.get_subcommands([](const CLI::App* verb) { return verb->parsed(); });
  std::string help = "kerf";
  for (const CLI::App* verb = &app; verb != nullptr;) {
    const std::vector<const CLI::App*> below =
        verb->get_subcommands([](const CLI::App* one) { return one->parsed(); });
    verb = below.empty() ? nullptr : below[0];
    if (verb != nullptr) help += Cat(" ", verb->get_name());
  }
  help += " --help";
  if (!unknown.empty()) return Cat("unknown argument: ", unknown[0], "; see ", help);
  if (verbs.empty()) return Cat("say what to do: backup, restore, ...; see ", help);
  return Cat(error.what(), "; see ", help);
}

}  // namespace

int RunCommand(int argc, char** argv, const std::atomic<bool>& cancelled) {
  CLI::App app(
      "kerf backs up folders into a store, with the help of a kerfd that cuts and deduplicates");
  app.name("kerf");
  app.footer(Cat(
      "A flag goes before its environment variable (KERF_STORE, KERF_SERVER, ...), that before\n"
      "the configuration file.\n\n",
      kExitCodeHelp));
  app.require_subcommand(1);
  app.set_version_flag("--version", Cat("kerf ", kVersion));
  Reporter::Options output;
  app.add_flag("--json", output.json, "One JSON object a line");
  app.add_flag("-q,--quiet", output.quiet, "Only results, warnings and errors");
  app.add_flag("--no-progress", output.no_progress, "No progress line");

  Reporter reporter;
  Context context{app, reporter, cancelled, {}};
  AddVerbs(context);
  AddConfigFile(app);
  if (const std::string flag = FlagWithoutValue(argc, argv); !flag.empty()) {
    output.json = AsksForJson(argc, argv);
    reporter.Configure(output);
    reporter.Error(absl::InvalidArgumentError(Cat(flag, ": ", RefuseEmpty(""))));
    return static_cast<int>(ExitCode::kUsage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error);  // --help, --version
      return static_cast<int>(std::cout.flush() ? ExitCode::kOk : ExitCode::kFailure);
    }
    output.json = output.json || AsksForJson(argc, argv);
    reporter.Configure(output);
    reporter.Error(absl::InvalidArgumentError(Describe(error, app)));
    return static_cast<int>(ExitCode::kUsage);
  }
  reporter.Configure(output);
  const ExitCode code = context.run();
  if (cancelled) return static_cast<int>(ExitCode::kInterrupted);
  if (const absl::Status written = reporter.Flush(); !written.ok() && code == ExitCode::kOk) {
    // `kerf ls | head` is no reason for a message.
    if (!absl::IsCancelled(written)) reporter.Error(written);
    return static_cast<int>(ExitCode::kFailure);
  }
  return static_cast<int>(code);
}

}  // namespace kerf::agent
