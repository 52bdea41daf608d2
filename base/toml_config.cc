#include "base/toml_config.h"

#include <cstdlib>
#include <istream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/toml.h"

namespace kerf {
namespace {

// Several times what all settings of both programs take.
constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

bool IsSetInEnvironment(const CLI::Option& option) {
  const std::string name = option.get_envname();
  if (name.empty()) return false;
  const char* value = std::getenv(name.c_str());
  return value != nullptr && *value != '\0';
}

// Null if `app` has no such flag, or one that may not come from a file (--help).
const CLI::Option* FindFlag(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = app.get_option_no_throw("--" + name);
  return option != nullptr && option->get_configurable() ? option : nullptr;
}

class TomlConfig : public CLI::ConfigTOML {
 public:
  TomlConfig(const CLI::App& app, UnknownSettings unknown) : app_(app), unknown_(unknown) {}

  // CLI11 speaks exceptions; the caller of its parse catches them.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::string text(kMaxConfigBytes + 1, '\0');
    input.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(input.gcount()));
    if (text.size() > kMaxConfigBytes) {
      Refuse(Cat("it has more than ", kMaxConfigBytes, " bytes: that is no file of settings"));
    }
    const absl::StatusOr<std::vector<TomlEntry>> entries = ParseToml(text);
    if (!entries.ok()) Refuse(MessageOf(entries.status()));
    std::vector<CLI::ConfigItem> settings;
    // CLI11 takes the first that it gets for a flag: those of a verb's own table come before the
    // general ones.
    for (const TomlEntry& entry : *entries) {
      if (!entry.table.empty()) AddFromTable(entry, settings);
    }
    for (const TomlEntry& entry : *entries) {
      if (entry.table.empty()) AddGeneral(entry, settings);
    }
    return settings;
  }

 private:
  [[noreturn]] void Refuse(std::string_view what) const {
    throw CLI::ConfigError(Cat(app_.get_config_ptr()->as<std::string>(), ", ", what));
  }

  void MeetUnknown(const TomlEntry& entry) const {
    if (unknown_ == UnknownSettings::kSkip) return;
    std::string name;
    for (const std::string& table : entry.table) name += table + ".";
    Refuse(Cat("line ", entry.line, ": there is no setting '", name, entry.key, "'"));
  }

  static void AddItem(const TomlEntry& entry, const CLI::Option& option,
                      std::vector<std::string> parents, std::vector<CLI::ConfigItem>& settings) {
    if (IsSetInEnvironment(option)) return;
    CLI::ConfigItem item;
    item.parents = std::move(parents);
    item.name = entry.key;
    item.inputs = entry.values;
    settings.push_back(std::move(item));
  }

  void AddFromTable(const TomlEntry& entry, std::vector<CLI::ConfigItem>& settings) const {
    const CLI::Option* option = nullptr;
    for (const CLI::App* verb : app_.get_subcommands([](const CLI::App*) { return true; })) {
      if (entry.table == std::vector{verb->get_name()}) option = FindFlag(*verb, entry.key);
    }
    if (option == nullptr) return MeetUnknown(entry);
    AddItem(entry, *option, entry.table, settings);
  }

  void AddGeneral(const TomlEntry& entry, std::vector<CLI::ConfigItem>& settings) const {
    if (const CLI::Option* option = FindFlag(app_, entry.key); option != nullptr) {
      return AddItem(entry, *option, {}, settings);
    }
    bool known = false;
    for (const CLI::App* verb : app_.get_subcommands([](const CLI::App*) { return true; })) {
      const CLI::Option* option = FindFlag(*verb, entry.key);
      if (option == nullptr) continue;
      known = true;
      AddItem(entry, *option, {verb->get_name()}, settings);
    }
    if (!known) MeetUnknown(entry);
  }

  const CLI::App& app_;
  const UnknownSettings unknown_;
};

}  // namespace

std::shared_ptr<CLI::Config> MakeTomlConfig(const CLI::App& app, UnknownSettings unknown) {
  return std::make_shared<TomlConfig>(app, unknown);
}

}  // namespace kerf
