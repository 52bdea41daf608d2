#include "base/cli/option_set.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <exception>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/toml.h"
#include "base/toml_config.h"
#include "base/units.h"

namespace kerf {
namespace {

constexpr std::uint32_t kMaxMs = 86'400'000;

// As "DATA_DIR" for "data-dir".
std::string VariableName(const std::string& option) {
  std::string name;
  for (const char character : option) {
    name.push_back(character == '-' ? '_' : static_cast<char>(std::toupper(character)));
  }
  return name;
}

bool IsGiven(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    return argument == flag || argument.rfind(flag + "=", 0) == 0;
  });
}

std::string TomlOf(const std::string& value) { return QuoteToml(value); }
std::string TomlOf(std::uint32_t value) { return Cat(value); }
std::string TomlOf(std::uint64_t value) { return Cat(value); }
std::string TomlOf(bool value) { return value ? "true" : "false"; }
std::string TomlOf(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + QuoteToml(value);
  return "[" + text + "]";
}

// As ParseByteSize reads it: "16M".
std::string SizeText(std::uint64_t bytes) {
  constexpr std::string_view kUnits = "KMGT";
  std::size_t unit = 0;
  std::uint64_t count = bytes / kKiB;
  KERF_CHECK(bytes > 0 && bytes % kKiB == 0);
  for (; count % kKiB == 0 && unit + 1 < kUnits.size(); ++unit) count /= kKiB;
  return Cat(count, kUnits.substr(unit, 1));
}

OptionOutcome Wrong(std::string what) { return {OptionOutcome::Kind::kWrong, std::move(what)}; }
OptionOutcome Show(std::string text) { return {OptionOutcome::Kind::kShow, std::move(text)}; }

}  // namespace

template <typename Written>
void OptionSet::Add(const OptionText& option, Written* written, const Restrict& restrict,
                    std::function<void()> take) {
  Option added;
  added.text = option;
  added.part = part_;
  added.is_list = std::is_same_v<Written, std::vector<std::string>>;
  added.is_bool = std::is_same_v<Written, bool>;
  added.add = [option, written, restrict](CLI::App& app) {
    CLI::Option& line = *app.add_option("--" + option.name, *written, option.description);
    line.capture_default_str();
    if (restrict != nullptr) restrict(line);
    if (!option.type.empty()) line.type_name(option.type);
  };
  added.to_toml = [written] { return TomlOf(*written); };
  added.initial_toml = added.to_toml();
  added.take = std::move(take);
  options_.push_back(std::move(added));
}

void OptionSet::AddSwitch(const std::string& name, bool& value, const std::string& description) {
  switches_.push_back({name, description, &value});
}

void OptionSet::AddText(const OptionText& option, std::string& value, const Check& check) {
  Add(option, &value, [check](CLI::Option& line) {
    if (check != nullptr) line.check(check, "");
  });
}

void OptionSet::AddBool(const OptionText& option, bool& value) { Add(option, &value, nullptr); }

void OptionSet::AddNumber(const OptionText& option, std::uint32_t& value, std::uint32_t min,
                          std::uint32_t max) {
  Add(option, &value, [=](CLI::Option& line) { line.check(CLI::Range(min, max)); });
}

void OptionSet::AddNumber(const OptionText& option, std::uint64_t& value, std::uint64_t min,
                          std::uint64_t max) {
  Add(option, &value, [=](CLI::Option& line) { line.check(CLI::Range(min, max)); });
}

void OptionSet::AddTime(const OptionText& option, std::chrono::milliseconds& value) {
  const auto written = std::make_shared<std::uint32_t>(static_cast<std::uint32_t>(value.count()));
  OptionText text = option;
  text.type = "MS";
  Add(
      text, written.get(), [](CLI::Option& line) { line.check(CLI::Range(1u, kMaxMs)); },
      [&value, written] { value = std::chrono::milliseconds(*written); });
}

void OptionSet::AddSize(const OptionText& option, std::uint64_t& value_bytes) {
  OptionText text = option;
  text.type = "SIZE";
  AddParsed(text, value_bytes, SizeText(value_bytes), ParseByteSize);
}

void OptionSet::AddTexts(const OptionText& option, std::vector<std::string>& values,
                         const Check& check) {
  Add(option, &values, [check](CLI::Option& line) { line.check(check, ""); });
}

void OptionSet::AddTaken(const OptionText& option, const std::string& initial, const Check& check,
                         std::function<void(const std::string&)> take) {
  const auto written = std::make_shared<std::string>(initial);
  Add(
      option, written.get(), [check](CLI::Option& line) { line.check(check, ""); },
      [written, take = std::move(take)] { take(*written); });
}

void OptionSet::AddWord(const OptionText& option, const std::string& initial,
                        const std::vector<std::string>& words,
                        std::function<void(const std::string&)> take) {
  const auto written = std::make_shared<std::string>(initial);
  Add(
      option, written.get(), [words](CLI::Option& line) { line.check(CLI::IsMember(words)); },
      [written, take = std::move(take)] { take(*written); });
}

void OptionSet::AddTakenList(const OptionText& option, const Check& check,
                             std::function<void(const std::vector<std::string>&)> take) {
  const auto written = std::make_shared<std::vector<std::string>>();
  Add(
      option, written.get(), [check](CLI::Option& line) { line.check(check, ""); },
      [written, take = std::move(take)] { take(*written); });
}

void OptionSet::SetOrder(std::span<const std::string_view> names) {
  std::vector<Option> ordered;
  for (const std::string_view name : names) {
    const auto found = std::find_if(options_.begin(), options_.end(),
                                    [&](const Option& option) { return option.text.name == name; });
    KERF_CHECK(found != options_.end());
    ordered.push_back(*found);
  }
  KERF_CHECK(ordered.size() == options_.size());
  options_ = std::move(ordered);
}

// CLI11 itself would let the file win over the environment.
std::string OptionSet::AddEnvironment(const OptionProgram& program, const char* const* environment,
                                      std::vector<std::string>& arguments) const {
  const std::vector<std::string> flags = arguments;
  const std::string shared_prefix = program.shared_variable + "=";
  std::string_view shared;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    if (!program.shared_variable.empty() && entry.starts_with(shared_prefix)) {
      shared = entry.substr(shared_prefix.size());
    }
    if (!entry.starts_with(program.variable_prefix)) continue;
    const std::size_t equals = entry.find('=');
    const std::string variable(entry.substr(0, equals));
    const auto option = std::find_if(options_.begin(), options_.end(), [&](const Option& one) {
      return program.variable_prefix + VariableName(one.text.name) == variable;
    });
    const bool is_config = variable == program.variable_prefix + "CONFIG";
    if (option == options_.end() && !is_config) return variable;
    const std::string flag = Cat("--", is_config ? "config" : option->text.name);
    if (equals == std::string_view::npos || IsGiven(flags, flag)) continue;
    std::string_view value = entry.substr(equals + 1);
    // Set to nothing is not set.
    if (value.empty()) continue;
    // A list: KERFD_LISTEN=unix:/run/kerf.sock,127.0.0.1:7461.
    const bool is_list = !is_config && option->is_list;
    while (is_list && value.find(',') != std::string_view::npos) {
      arguments.push_back(Cat(flag, "=", value.substr(0, value.find(','))));
      value.remove_prefix(value.find(',') + 1);
    }
    arguments.push_back(Cat(flag, "=", value));
  }
  const std::string shared_flag = "--" + program.shared_option;
  if (!shared.empty() && !IsGiven(arguments, shared_flag)) {
    arguments.push_back(Cat(shared_flag, "=", shared));
  }
  return "";
}

void OptionSet::AddTrue(std::vector<std::string>& arguments) const {
  for (const Option& option : options_) {
    if (!option.is_bool) continue;
    for (std::size_t index = 0; index < arguments.size(); ++index) {
      if (arguments[index] != "--" + option.text.name) continue;
      const bool has_value = index + 1 < arguments.size() && !arguments[index + 1].starts_with('-');
      if (!has_value) arguments[index] += "=true";
    }
  }
}

void OptionSet::AddTo(CLI::App& app) const {
  for (const Switch& one : switches_) {
    app.add_flag("--" + one.name, *one.value, one.description)->configurable(false);
  }
  for (const Option& option : options_) option.add(app);
}

OptionOutcome OptionSet::ReadOrThrow(const OptionProgram& program, int argc,
                                     const char* const* argv,
                                     const char* const* environment) const {
  CLI::App app(program.description, program.name);
  app.footer(program.footer);
  app.set_config("--config", "", program.config_description)->check(CLI::ExistingFile);
  app.config_formatter(MakeTomlConfig(app));
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.set_version_flag("--version", program.version);
  AddTo(app);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (const std::string unknown = AddEnvironment(program, environment, arguments);
      !unknown.empty()) {
    return Wrong("the environment variable " + unknown + " is no setting");
  }
  AddTrue(arguments);
  // CLI11 takes them from the back.
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return Show(app.help());
  } catch (const CLI::CallForVersion&) {
    return Show(program.version + "\n");
  }
  return {};
}

OptionOutcome OptionSet::Read(const OptionProgram& program, int argc, const char* const* argv,
                              const char* const* environment) {
  // CLI11 throws; nothing of it leaves this file.
  try {
    OptionOutcome outcome = ReadOrThrow(program, argc, argv, environment);
    if (outcome.kind != OptionOutcome::Kind::kRun) return outcome;
    for (const Option& option : options_) {
      if (option.take != nullptr) option.take();
    }
    return outcome;
  } catch (const std::exception& error) {
    return Wrong(error.what());
  }
}

std::vector<OptionSet::Changed> OptionSet::FindChanged() const {
  std::vector<Changed> changed;
  for (const Option& option : options_) {
    if (option.to_toml() != option.initial_toml) {
      changed.push_back({option.text.name, option.part});
    }
  }
  return changed;
}

std::string OptionSet::PrintConfig(const std::string& title) const {
  std::string text = Cat("# ", title, "\n\n");
  for (const Option& option : options_) {
    const std::string value = option.to_toml();
    // A list with nothing in it cannot be given.
    const std::string_view mark = value == "[]" ? "# " : "";
    text += Cat("# ", option.text.description, "\n", mark, option.text.name, " = ", value, "\n\n");
  }
  return text;
}

}  // namespace kerf
