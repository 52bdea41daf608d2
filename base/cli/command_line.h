// The command line of a program, without CLI11, as verb.h has its verbs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cli/verb.h"

namespace kerf {

// As --help shows it, for scripts that complete a command line.
struct FlagDescription {
  // Without dashes; both empty: an argument.
  std::vector<std::string> long_names;
  std::vector<std::string> short_names;
  bool takes_value = false;
  // Empty if it may be anything.
  std::vector<std::string> choices;
  std::string description;

  bool is_argument() const { return long_names.empty() && short_names.empty(); }
};

struct VerbDescription {
  std::string name;
  std::string description;
  std::vector<FlagDescription> flags;
  // Those that are not hidden.
  std::vector<VerbDescription> verbs;
};

// Settings from a file: TOML, as base/toml_config.h reads it.
struct ConfigFile {
  // Where it is unless told otherwise, and the environment variable that tells.
  std::string path;
  std::string variable;
  // It is an error if there is none at `path`.
  bool required = false;
  std::string description;
  // What is wrong with a path that --config names; empty: nothing.
  std::function<std::string(const std::string& path)> check;
  // Settings that the program does not have are those of another one, not mistakes.
  bool skips_unknown = false;
};

// What is wrong with a command line.
struct UsageError {
  enum class Kind {
    // Of the configuration file; `text` is the whole message.
    kSetting,
    // It cannot be read; `text` is its path.
    kConfigFile,
    // There is no such flag, and nothing takes such an argument; `text` is it.
    kUnknownArgument,
    kNoVerb,
    // `text` says what.
    kOther,
  };
  Kind kind = Kind::kOther;
  std::string text;
  // "kerf index check": the verbs that are named before.
  std::string verb;
};

// Lives as long as the variables of its flags are used. Not thread-safe.
class CommandLine {
 public:
  // --help ends with `footer`; --version prints `version`.
  CommandLine(const std::string& name, const std::string& description, const std::string& footer,
              const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // The program itself: its flags may stand before and behind a verb. One of its verbs must be
  // named.
  Verb program();
  // Adds --config. Once all verbs are there.
  void AddConfigFile(const ConfigFile& file);
  VerbDescription Describe() const;

  enum class Outcome { kRun, kHelpShown, kWrong };
  // kRun: run() is what the verb does. kHelpShown: --help or --version is printed to std::cout.
  // kWrong: error() says what.
  Outcome Parse(int argc, const char* const* argv);
  const std::function<int()>& run() const { return run_; }
  const UsageError& error() const { return error_; }

 private:
  const std::unique_ptr<CLI::App> app_;
  std::function<int()> run_;
  UsageError error_;
};

}  // namespace kerf
