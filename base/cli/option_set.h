// The options of a program that has no verbs, without CLI11: each is a flag, an environment
// variable and a key of a TOML file, the first before the second before the third. Those who use a
// setting add its option to the set, with its bounds and its help; the program composes them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/strings.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kerf {

// How an option is called, and what --help and --print-config say of it.
struct OptionText {
  // Without dashes, as "data-dir": also the key in a file. The variable is PREFIX_DATA_DIR.
  std::string name;
  std::string description;
  // What --help calls the value; empty: what kind of value it is.
  std::string type = "";
};

// What is the program's own.
struct OptionProgram {
  std::string name;
  std::string description;
  // --help ends with it.
  std::string footer;
  // What --version prints.
  std::string version;
  // Of --config.
  std::string config_description;
  // Of its variables, as "KERFD_".
  std::string variable_prefix;
  // A variable of other programs too, which sets this option unless anything else but the file
  // does; "KERF_BACKEND" sets "backend".
  std::string shared_variable = "";
  std::string shared_option = "";
};

// What a command line asks for.
struct OptionOutcome {
  enum class Kind : std::uint8_t {
    // All values are set.
    kRun,
    // `text` is what --help or --version prints.
    kShow,
    // `text` says what is wrong.
    kWrong,
  };
  Kind kind = Kind::kRun;
  std::string text = "";
};

// The variable of each option has its default when it is added, and outlives the set. Read once.
// Not thread-safe.
class OptionSet {
 public:
  // What is wrong with a value; empty: nothing.
  using Check = std::function<std::string(const std::string& value)>;

  OptionSet() = default;
  OptionSet(const OptionSet&) = delete;
  OptionSet& operator=(const OptionSet&) = delete;

  // What is added from now on belongs to this part of the program, whatever it means by that.
  void BeginPart(int part) { part_ = part; }

  // A flag that is no setting: it stands on the command line alone.
  void AddSwitch(const std::string& name, bool& value, const std::string& description);

  void AddText(const OptionText& option, std::string& value, const Check& check = nullptr);
  // "true" or "false" is its value; alone, it is "true".
  void AddBool(const OptionText& option, bool& value);
  // Both bounds are allowed.
  void AddNumber(const OptionText& option, std::uint32_t& value, std::uint32_t min,
                 std::uint32_t max);
  void AddNumber(const OptionText& option, std::uint64_t& value, std::uint64_t min,
                 std::uint64_t max);
  // In milliseconds: at least one, and at most a day, which keeps sums of a few from overflowing
  // anything.
  void AddTime(const OptionText& option, std::chrono::milliseconds& value);
  // In bytes, as ParseByteSize reads them. The default is a whole number of KiB.
  void AddSize(const OptionText& option, std::uint64_t& value_bytes);
  // One of a few words.
  template <typename Value>
  void AddChoice(const OptionText& option, Value& value,
                 const std::vector<std::pair<std::string, Value>>& choices);
  // Text that `parse` understands, whose errors say what is wrong; `initial` is the default's.
  template <typename Value>
  void AddParsed(const OptionText& option, Value& value, const std::string& initial,
                 absl::StatusOr<Value> (*parse)(std::string_view text));
  // The same any number of times. The default is an empty list.
  template <typename Value>
  void AddList(const OptionText& option, std::vector<Value>& values,
               absl::StatusOr<Value> (*parse)(std::string_view text));
  // Of texts; the default is what is there.
  void AddTexts(const OptionText& option, std::vector<std::string>& values, const Check& check);

  // --help, --print-config and everything else shows options in this order, which names them all.
  void SetOrder(std::span<const std::string_view> names);

  // Reads flags, `environment` and the file of --config. `environment` is a null-terminated list of
  // KEY=VALUE; a variable with the program's prefix that is no option is an error, as is an unknown
  // key of the file.
  OptionOutcome Read(const OptionProgram& program, int argc, const char* const* argv,
                     const char* const* environment);

  struct Changed {
    std::string name;
    int part = 0;
  };
  // Those whose values are not their defaults, in order.
  std::vector<Changed> FindChanged() const;
  // The values as they were written, as a file for --config, below a line with `title`.
  std::string PrintConfig(const std::string& title) const;

 private:
  struct Option {
    OptionText text;
    int part = 0;
    bool is_list = false;
    bool is_bool = false;
    // Adds it to the command line.
    std::function<void(CLI::App&)> add;
    // What is written there, or was.
    std::function<std::string()> to_toml;
    std::string initial_toml;
    // Sets the variable from that; null: it is set.
    std::function<void()> take;
  };
  struct Switch {
    std::string name;
    std::string description;
    bool* value;
  };
  // Checks that are not functions of a text alone.
  using Restrict = std::function<void(CLI::Option&)>;

  // `written` is what the command line writes; `take`, which may own it, sets the variable from it.
  template <typename Written>
  void Add(const OptionText& option, Written* written, const Restrict& restrict,
           std::function<void()> take = nullptr);
  void AddTaken(const OptionText& option, const std::string& initial, const Check& check,
                std::function<void(const std::string&)> take);
  void AddWord(const OptionText& option, const std::string& initial,
               const std::vector<std::string>& words, std::function<void(const std::string&)> take);
  void AddTakenList(const OptionText& option, const Check& check,
                    std::function<void(const std::vector<std::string>&)> take);
  // Adds what the environment sets to the arguments, unless a flag stands there already. Returns
  // the name of a variable that is no option.
  std::string AddEnvironment(const OptionProgram& program, const char* const* environment,
                             std::vector<std::string>& arguments) const;
  // Those that stand alone get their value.
  void AddTrue(std::vector<std::string>& arguments) const;
  void AddTo(CLI::App& app) const;
  OptionOutcome ReadOrThrow(const OptionProgram& program, int argc, const char* const* argv,
                            const char* const* environment) const;

  int part_ = 0;
  std::vector<Option> options_;
  std::vector<Switch> switches_;
};

template <typename Value>
void OptionSet::AddChoice(const OptionText& option, Value& value,
                          const std::vector<std::pair<std::string, Value>>& choices) {
  std::vector<std::string> words;
  std::string initial;
  for (const auto& [word, meaning] : choices) {
    words.push_back(word);
    if (meaning == value) initial = word;
  }
  AddWord(option, initial, words, [&value, choices](const std::string& text) {
    for (const auto& [word, meaning] : choices) {
      if (word == text) value = meaning;
    }
  });
}

template <typename Value>
void OptionSet::AddParsed(const OptionText& option, Value& value, const std::string& initial,
                          absl::StatusOr<Value> (*parse)(std::string_view text)) {
  AddTaken(
      option, initial,
      [parse](const std::string& text) { return std::string(MessageOf(parse(text).status())); },
      [&value, parse](const std::string& text) { value = *parse(text); });
}

template <typename Value>
void OptionSet::AddList(const OptionText& option, std::vector<Value>& values,
                        absl::StatusOr<Value> (*parse)(std::string_view text)) {
  AddTakenList(
      option,
      [parse](const std::string& text) { return std::string(MessageOf(parse(text).status())); },
      [&values, parse](const std::vector<std::string>& texts) {
        values.clear();
        for (const std::string& text : texts) values.push_back(*parse(text));
      });
}

}  // namespace kerf
