#include "client/cli/program.h"

#include <iostream>
#include <string>
#include <string_view>

#include "base/last_resort.h"
#include "base/rpc/library_logs.h"
#include "base/strings.h"
#include "base/version.h"
#include "client/cli/config_file.h"
#include "client/cli/interrupt.h"

namespace kerf::agent {
namespace {

// Before the arguments are parsed: an error in them must already be JSON.
bool AsksForJson(int argc, char** argv) {
  for (int index = 1; index < argc; ++index) {
    const std::string_view argument = argv[index];
    if (argument == "--") break;
    if (argument == "--json") return true;
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

std::string Describe(const UsageError& error, const ProgramOptions& program) {
  const std::string help = Cat("; see ", error.verb, " --help");
  switch (error.kind) {
    case UsageError::Kind::kSetting:
      return error.text;
    case UsageError::Kind::kConfigFile:
      return Cat("the configuration file cannot be read: ", RefuseUnreadableConfig(error.text));
    case UsageError::Kind::kUnknownArgument:
      return Cat("unknown argument: ", error.text, help);
    case UsageError::Kind::kNoVerb:
      return Cat("say what to do: ", program.some_verbs, ", ...", help);
    case UsageError::Kind::kOther:
      break;
  }
  return Cat(error.text, help);
}

// TLS that has come to nothing: kerf says it itself, and better (client/cpp/tls_check.h).
bool IsSaidByKerf(const LibraryLine& said) {
  return said.source.starts_with("ssl_transport_security.cc:") ||
         said.source.starts_with("secure_endpoint.cc:");
}

}  // namespace

int RunProgram(const ProgramOptions& program, int argc, char** argv,
               const std::atomic<bool>& cancelled) {
  CommandLine line(
      program.name, program.description,
      Cat("A flag goes before its environment variable (KERF_STORE, KERF_SERVER, ...), that "
          "before\nthe configuration file.\n\n",
          kExitCodeHelp),
      Cat(program.name, " ", kVersion));
  Reporter::Options output;
  line.program().AddFlag("--json", output.json, "One JSON object a line");
  line.program().AddFlag("-q,--quiet", output.quiet, "Only results, warnings and errors");
  line.program().AddFlag("--no-progress", output.no_progress, "No progress line");

  Reporter reporter;
  Context context{line, reporter, cancelled, {argv + 1, argv + argc}};
  program.add_verbs(context);
  AddConfigFile(line, program.shares_config);
  if (const std::string flag = FlagWithoutValue(argc, argv); !flag.empty()) {
    output.json = AsksForJson(argc, argv);
    reporter.Configure(output);
    reporter.Error(absl::InvalidArgumentError(Cat(flag, ": ", RefuseEmpty(""))));
    return static_cast<int>(ExitCode::kUsage);
  }
  switch (line.Parse(argc, argv)) {
    case CommandLine::Outcome::kHelpShown:
      return static_cast<int>(std::cout.flush() ? ExitCode::kOk : ExitCode::kFailure);
    case CommandLine::Outcome::kWrong:
      output.json = output.json || AsksForJson(argc, argv);
      reporter.Configure(output);
      reporter.Error(absl::InvalidArgumentError(Describe(line.error(), program)));
      return static_cast<int>(ExitCode::kUsage);
    case CommandLine::Outcome::kRun:
      break;
  }
  reporter.Configure(output);
  int code = 0;
  {
    // While standard output is open: with --json that is where they go.
    const LibraryLogs library_logs([&](const LibraryLine& said) {
      if (!IsSaidByKerf(said)) reporter.Library(said);
    });
    code = line.run()();
    // It is ended, or left to others, while there is somebody to hear of it.
    context.own_kerfd.reset();
  }
  if (code == static_cast<int>(ExitCode::kOk) && context.is_partial) {
    code = static_cast<int>(ExitCode::kPartial);
  }
  if (cancelled) return static_cast<int>(ExitCode::kInterrupted);
  if (const absl::Status written = reporter.Close();
      !written.ok() && code == static_cast<int>(ExitCode::kOk)) {
    // `kerf ls | head` is no reason for a message.
    if (!absl::IsCancelled(written)) reporter.Error(written);
    return static_cast<int>(ExitCode::kFailure);
  }
  return code;
}

int ProgramMain(int argc, char** argv,
                int (*run)(int argc, char** argv, const std::atomic<bool>& cancelled)) {
  return CatchAll("kerf", [&] {
    const int code = run(argc, argv, CatchInterrupts());
    const bool was_interrupted =
        code == static_cast<int>(ExitCode::kInterrupted) && InterruptExitCode() != 0;
    return was_interrupted ? InterruptExitCode() : code;
  });
}

}  // namespace kerf::agent
