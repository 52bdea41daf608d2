// A verb of the command line and its flags, without CLI11: that takes a compiler seconds to read,
// and there are dozens of verbs. What is said here goes to CLI11 at once (command_line.cc), in this
// order.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kerf {

template <typename T, typename... Types>
concept OneOf = (std::same_as<T, Types> || ...);

// What flags can be: command_line.cc has the code for each.
template <typename T>
concept FlagNumber = OneOf<T, int, unsigned, std::uint64_t, double>;
template <typename T>
concept FlagValue = FlagNumber<T> || OneOf<T, std::string, std::vector<std::string>,
                                           std::vector<unsigned>, std::vector<std::uint64_t>>;

// A flag, or an argument. Copies are the same flag.
class Flag {
 public:
  explicit Flag(CLI::Option& option) : option_(option) {}

  Flag Required() const;
  // A value is wrong if `check` says something.
  Flag Check(std::string (*check)(const std::string& value)) const;
  // Both are allowed; --help shows them. What is no number (nan) is not.
  template <FlagNumber T>
  Flag Range(T min, T max) const;
  Flag Choices(const std::vector<std::string>& values) const;
  // What --help calls the value.
  Flag Type(const std::string& name) const;
  // --help shows the value that the variable has now.
  Flag ShowDefault() const;
  Flag Environment(const std::string& variable) const;
  // One value may be several, with this between them.
  Flag Delimiter(char delimiter) const;
  // Of a list: each value needs the flag in front of it.
  Flag Repeat() const;

 private:
  CLI::Option& option_;
};

// Copies are the same verb.
class Verb {
 public:
  // A verb below this one: flags of the program may stand behind it, and its help ends with
  // `examples`.
  Verb AddVerb(const std::string& name, const std::string& description,
               const std::string& examples) const;
  // One that the program itself calls: no help shows it.
  Verb AddHiddenVerb(const std::string& name) const;
  // One of the verbs below must be named.
  void RequireVerb() const;

  // "--name", or "name" of an argument. `value` has the default, and lives as long as the command
  // line.
  template <FlagValue T>
  Flag AddOption(const std::string& name, T& value, const std::string& description) const;
  // One without a value: "--name" or "-n,--name".
  Flag AddFlag(const std::string& names, bool& value, const std::string& description) const;

  // What the verb does; it returns the exit code, as a number or as an enumeration of such.
  template <typename Run>
  void OnRun(Run run) const {
    SetRun([run = std::move(run)] { return static_cast<int>(run()); });
  }

 private:
  friend class CommandLine;
  // `run` is set once the command line has named the verb.
  Verb(CLI::App& app, std::function<int()>& run) : app_(app), run_(run) {}

  void SetRun(std::function<int()> run) const;

  CLI::App& app_;
  std::function<int()>& run_;
};

}  // namespace kerf
