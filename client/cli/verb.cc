#include "client/cli/verb.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "base/strings.h"

namespace kerf::agent {

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
  return Flag(*app_.add_option(name, value, description));
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

void Verb::OnRun(std::function<ExitCode()> run) const {
  app_.callback([&target = run_, run = std::move(run)] { target = run; });
}

}  // namespace kerf::agent
