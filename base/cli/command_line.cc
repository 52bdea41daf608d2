#include "base/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/toml_config.h"

namespace kerf {
namespace {

// Of "[a,b]", where there may be several values, CLI11 makes two, and of "[a]" another one: paths
// that nobody has named. So a word that ends like that goes to it with a mark behind it, which each
// option takes away again (TakeMark) before anybody looks at the value.
constexpr std::string_view kMark = "\x1f";

std::string WithMark(std::string word) {
  if (word.ends_with(']') || word.ends_with(kMark)) word += kMark;
  return word;
}

CLI::Option& TakeMark(CLI::Option& option) {
  option.transform(
      [](std::string value) {
        if (value.ends_with(kMark)) value.resize(value.size() - kMark.size());
        return value;
      },
      "");
  return option;
}

std::string WithoutMarks(std::string text) {
  std::erase(text, kMark.front());
  return text;
}

// What an option may be. Its type says "TEXT:{a,b,c}".
std::vector<std::string> ChoicesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  std::vector<std::string> choices;
  if (begin == std::string::npos) return choices;
  std::string_view rest = std::string_view(type).substr(begin + 1);
  rest = rest.substr(0, rest.find('}'));
  while (true) {
    const std::size_t comma = rest.find(',');
    choices.emplace_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) return choices;
    rest.remove_prefix(comma + 1);
  }
}

FlagDescription DescribeFlag(const CLI::Option& option) {
  FlagDescription flag;
  flag.long_names = option.get_lnames();
  flag.short_names = option.get_snames();
  flag.takes_value = option.get_type_size() != 0 && option.get_expected_max() != 0;
  flag.choices = ChoicesOf(option);
  flag.description = option.get_description();
  return flag;
}

VerbDescription DescribeVerb(const CLI::App& app) {
  VerbDescription verb;
  verb.name = app.get_name();
  verb.description = app.get_description();
  for (const CLI::Option* option : app.get_options()) verb.flags.push_back(DescribeFlag(*option));
  // Those of no group are hidden.
  for (const CLI::App* below :
       app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); })) {
    verb.verbs.push_back(DescribeVerb(*below));
  }
  return verb;
}

// CLI11 looks for what is missing first; a flag that does not exist is the better message.
UsageError DescribeError(const CLI::ParseError& error, const CLI::App& app) {
  using Kind = UsageError::Kind;
  std::vector<std::string> unknown = app.remaining(true);
  // The mark behind which there are no flags is always among them.
  std::erase(unknown, "--");
  UsageError described;
  described.verb = app.get_name();
  const CLI::App* verb = &app;
  while (verb != nullptr) {
    const std::vector<const CLI::App*> below =
        verb->get_subcommands([](const CLI::App* one) { return one->parsed(); });
    verb = below.empty() ? nullptr : below[0];
    if (verb != nullptr) described.verb += Cat(" ", verb->get_name());
  }
  described.text = error.what();
  if (dynamic_cast<const CLI::ConfigError*>(&error) != nullptr) {
    described.kind = Kind::kSetting;
  } else if (dynamic_cast<const CLI::FileError*>(&error) != nullptr) {
    described.kind = Kind::kConfigFile;
    described.text = app.get_config_ptr()->as<std::string>();
  } else if (!unknown.empty()) {
    described.kind = Kind::kUnknownArgument;
    described.text = unknown[0];
  } else if (described.verb == app.get_name()) {
    described.kind = Kind::kNoVerb;
  }
  described.text = WithoutMarks(std::move(described.text));
  return described;
}

}  // namespace

Flag Flag::Required() const {
  option_.required();
  return *this;
}

Flag Flag::Check(std::string (*check)(const std::string& value)) const {
  option_.check(check, "");
  return *this;
}

template <FlagNumber T>
Flag Flag::Range(T min, T max) const {
  option_.check(CLI::Range(min, max));
  if constexpr (std::is_floating_point_v<T>) {
    // Neither below nor above: that check lets it pass.
    option_.check(
        [](const std::string& text) -> std::string {
          T value{};
          const bool is_nan = CLI::detail::lexical_cast(text, value) && std::isnan(value);
          return is_nan ? Cat("Value ", text, " is no number") : "";
        },
        "");
  }
  return *this;
}
template Flag Flag::Range(int, int) const;
template Flag Flag::Range(unsigned, unsigned) const;
template Flag Flag::Range(std::uint64_t, std::uint64_t) const;
template Flag Flag::Range(double, double) const;

Flag Flag::Choices(const std::vector<std::string>& values) const {
  option_.check(CLI::IsMember(values));
  return *this;
}

Flag Flag::Type(const std::string& name) const {
  option_.type_name(name);
  return *this;
}

Flag Flag::ShowDefault() const {
  option_.capture_default_str();
  return *this;
}

Flag Flag::Environment(const std::string& variable) const {
  option_.envname(variable);
  return *this;
}

Flag Flag::Delimiter(char delimiter) const {
  option_.delimiter(delimiter);
  return *this;
}

Flag Flag::Repeat() const {
  option_.allow_extra_args(false);
  return *this;
}

Verb Verb::AddVerb(const std::string& name, const std::string& description,
                   const std::string& examples) const {
  CLI::App& verb = *app_.add_subcommand(name, description);
  verb.fallthrough();
  verb.footer(Cat("Examples:\n", examples));
  return {verb, run_};
}

Verb Verb::AddHiddenVerb(const std::string& name) const {
  CLI::App& verb = *app_.add_subcommand(name, "");
  verb.group("");
  return {verb, run_};
}

void Verb::RequireVerb() const { app_.require_subcommand(1); }

template <FlagValue T>
Flag Verb::AddOption(const std::string& name, T& value, const std::string& description) const {
  return Flag(TakeMark(*app_.add_option(name, value, description)));
}
template Flag Verb::AddOption(const std::string&, int&, const std::string&) const;
template Flag Verb::AddOption(const std::string&, unsigned&, const std::string&) const;
template Flag Verb::AddOption(const std::string&, std::uint64_t&, const std::string&) const;
template Flag Verb::AddOption(const std::string&, double&, const std::string&) const;
template Flag Verb::AddOption(const std::string&, std::string&, const std::string&) const;
template Flag Verb::AddOption(const std::string&, std::vector<std::string>&,
                              const std::string&) const;
template Flag Verb::AddOption(const std::string&, std::vector<unsigned>&, const std::string&) const;
template Flag Verb::AddOption(const std::string&, std::vector<std::uint64_t>&,
                              const std::string&) const;

Flag Verb::AddFlag(const std::string& names, bool& value, const std::string& description) const {
  return Flag(*app_.add_flag(names, value, description));
}

void Verb::SetRun(std::function<int()> run) const {
  app_.callback([&target = run_, run = std::move(run)] { target = run; });
}

CommandLine::CommandLine(const std::string& name, const std::string& description,
                         const std::string& footer, const std::string& version)
    : app_(std::make_unique<CLI::App>(description)) {
  app_->name(name);
  app_->footer(footer);
  app_->require_subcommand(1);
  app_->set_version_flag("--version", version);
}

CommandLine::~CommandLine() = default;

Verb CommandLine::program() { return {*app_, run_}; }

void CommandLine::AddConfigFile(const ConfigFile& file) {
  app_->config_formatter(MakeTomlConfig(
      *app_, file.skips_unknown ? UnknownSettings::kSkip : UnknownSettings::kRefuse));
  app_->allow_config_extras(CLI::config_extras_mode::error);
  CLI::Option& option = *app_->set_config("--config", file.path, file.description, file.required);
  TakeMark(option).envname(file.variable)->check(file.check, "")->type_name("FILE");
}

VerbDescription CommandLine::Describe() const { return DescribeVerb(*app_); }

CommandLine::Outcome CommandLine::Parse(int argc, const char* const* argv) {
  // Behind the name of the program, the last one first: so CLI11 takes them.
  std::vector<std::string> words;
  for (int index = argc - 1; index > 0; --index) words.push_back(WithMark(argv[index]));
  try {
    app_->parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app_->exit(error);  // --help, --version
      return Outcome::kHelpShown;
    }
    error_ = DescribeError(error, *app_);
    return Outcome::kWrong;
  }
  return Outcome::kRun;
}

}  // namespace kerf
