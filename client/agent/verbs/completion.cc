#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "client/agent/verbs/verbs.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf completion bash > /etc/bash_completion.d/kerf\n"
    "  kerf completion zsh > ~/.zfunc/_kerf\n"
    "  kerf completion fish > ~/.config/fish/completions/kerf.fish";

std::vector<const CLI::App*> VerbsOf(const CLI::App& app) {
  // Those of no group are hidden.
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

// Of `app` and of all verbs below it.
std::vector<const CLI::Option*> AllOptions(const CLI::App& app) {
  std::vector<const CLI::Option*> options = app.get_options();
  for (const CLI::App* below : VerbsOf(app)) {
    const std::vector<const CLI::Option*> more = AllOptions(*below);
    options.insert(options.end(), more.begin(), more.end());
  }
  return options;
}

// "--store -l", each once: verbs below a verb may have the same flag.
std::string FlagNames(const std::vector<const CLI::Option*>& options) {
  std::string names;
  std::set<std::string> seen;
  const auto add = [&](std::string_view dashes, const std::vector<std::string>& some) {
    for (const std::string& name : some) {
      if (seen.insert(Cat(dashes, name)).second) {
        names += Cat(names.empty() ? "" : " ", dashes, name);
      }
    }
  };
  for (const CLI::Option* option : options) {
    add("--", option->get_lnames());
    add("-", option->get_snames());
  }
  return names;
}

// For text between single quotes in any of the shells.
std::string Quoted(const std::string& text) {
  std::string result;
  for (const char character : text) {
    if (character == '\'') {
      result += "'\\''";
    } else {
      result += character;
    }
  }
  return result;
}

bool TakesValue(const CLI::Option& option) {
  return option.get_type_size() != 0 && option.get_expected_max() != 0;
}

// Flags that are followed by a value, as alternatives of a shell pattern.
std::string ValueFlags(const CLI::App& app) {
  std::string names;
  for (const CLI::Option* option : AllOptions(app)) {
    if (!TakesValue(*option)) continue;
    for (const std::string& name : option->get_lnames()) {
      names += Cat(names.empty() ? "" : "|", "--", name);
    }
  }
  return names;
}

// What an option may be, "a b c"; empty if it may be anything. Its type says "TEXT:{a,b,c}".
std::string Choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  if (begin == std::string::npos) return "";
  std::string choices = type.substr(begin + 1, type.find('}') - begin - 1);
  std::replace(choices.begin(), choices.end(), ',', ' ');
  return choices;
}

// What may stand behind a verb without a flag: the verbs below it, or the choices of its argument.
std::string Words(const CLI::App& verb) {
  std::string words;
  for (const CLI::App* below : VerbsOf(verb)) {
    words += Cat(words.empty() ? "" : " ", below->get_name());
  }
  for (const CLI::Option* option : verb.get_options()) {
    if (words.empty() && option->get_positional()) words = Choices(*option);
  }
  return words;
}

// Lines "FLAG) `before`CHOICES`after`" of a case over the word in front.
std::string FlagCases(const CLI::App& app, std::string_view before, std::string_view after) {
  std::string cases;
  for (const CLI::Option* option : AllOptions(app)) {
    const std::string choices = Choices(*option);
    if (choices.empty() || option->get_lnames().empty()) continue;
    cases += Cat("    --", option->get_lnames()[0], ") ", before, choices, after, " ;;\n");
  }
  return cases;
}

std::string Bash(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* verb : VerbsOf(app)) {
    cases += Cat("    ", verb->get_name(), ") words='", FlagNames(AllOptions(*verb)), "' values='",
                 Words(*verb), "' ;;\n");
  }
  return Cat(
      "_kerf() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} verb= words= values= word= skip=\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    if [ -n \"$skip\" ]; then skip=; continue; fi\n"
      "    case $word in\n"
      "      ",
      ValueFlags(app),
      ") skip=1 ;;\n"
      "      -*) ;;\n"
      "      *) verb=${verb:-$word} ;;\n"
      "    esac\n"
      "  done\n"
      "  case $verb in\n",
      cases, "    *) values='", Words(app), "' ;;\n  esac\n  words+=' ",
      FlagNames(app.get_options()),
      "'\n"
      "  [ -z \"$skip\" ] || values=\n"
      "  case $word in\n",
      FlagCases(app, "values='", "'"),
      "  esac\n"
      "  case $current in\n"
      "    -*) values=$words ;;\n"
      "  esac\n"
      "  if [ -n \"$values\" ]; then COMPREPLY=($(compgen -W \"$values\" -- \"$current\"))\n"
      "  else local IFS=$'\\n'; COMPREPLY=($(compgen -f -- \"$current\")); fi\n"
      "}\n"
      "complete -o filenames -F _kerf kerf");
}

std::string Zsh(const CLI::App& app) {
  std::string verbs;
  std::string cases;
  for (const CLI::App* verb : VerbsOf(app)) {
    verbs += Cat("    '", verb->get_name(), ":", Quoted(verb->get_description()), "'\n");
    cases += Cat("    ", verb->get_name(), ") flags=(", FlagNames(AllOptions(*verb)), ") values=(",
                 Words(*verb), ") ;;\n");
  }
  return Cat(
      "#compdef kerf\n"
      "_kerf() {\n"
      "  local -a verbs flags values\n"
      "  local verb= word= skip=\n"
      "  verbs=(\n",
      verbs,
      "  )\n"
      "  for word in ${words[2,CURRENT-1]}; do\n"
      "    if [[ -n $skip ]]; then skip=; continue; fi\n"
      "    case $word in\n"
      "      (",
      ValueFlags(app),
      ") skip=1 ;;\n"
      "      (-*) ;;\n"
      "      (*) verb=${verb:-$word} ;;\n"
      "    esac\n"
      "  done\n"
      "  case $verb in\n",
      cases, "  esac\n  flags+=(", FlagNames(app.get_options()),
      ")\n"
      "  [[ -z $skip ]] || values=()\n"
      "  case $word in\n",
      FlagCases(app, "values=(", ")"),
      "  esac\n"
      "  if [[ -z $skip && $PREFIX == -* ]]; then compadd -- $flags\n"
      "  elif [[ -z $verb$skip ]]; then _describe 'verb' verbs\n"
      "  elif (( $#values )); then compadd -- $values\n"
      "  else _files; fi\n"
      "}\n"
      "_kerf \"$@\"");
}

std::string Fish(const CLI::App& app) {
  std::string text;
  const auto add = [&text](const CLI::App& owner, const std::string& condition) {
    for (const CLI::Option* option : owner.get_options()) {
      std::string names;
      for (const std::string& name : option->get_lnames()) names += Cat(" -l ", name);
      for (const std::string& name : option->get_snames()) names += Cat(" -s ", name);
      const std::string choices = Choices(*option);
      if (names.empty() && choices.empty()) continue;
      text += Cat("complete -c kerf", condition, names);
      if (!names.empty() && TakesValue(*option)) text += " -r";
      if (!choices.empty()) text += Cat(" -f -a '", choices, "'");
      text += Cat(" -d '", Quoted(option->get_description()), "'\n");
    }
  };
  add(app, "");
  for (const CLI::App* verb : VerbsOf(app)) {
    text += Cat("complete -c kerf -f -n __fish_use_subcommand -a ", verb->get_name(), " -d '",
                Quoted(verb->get_description()), "'\n");
    const std::string seen = Cat(" -n '__fish_seen_subcommand_from ", verb->get_name(), "'");
    add(*verb, seen);
    for (const CLI::App* below : VerbsOf(*verb)) {
      text += Cat("complete -c kerf -f", seen, " -a ", below->get_name(), " -d '",
                  Quoted(below->get_description()), "'\n");
      add(*below, seen);
    }
  }
  text.pop_back();
  return text;
}

}  // namespace

void AddCompletionVerb(Context& context) {
  const Verb verb = AddVerb(context, "completion", "Print a completion script", kExamples);
  auto shell = std::make_shared<std::string>();
  verb.AddOption("shell", *shell, "bash, zsh or fish").Required().Choices({"bash", "zsh", "fish"});
  verb.OnRun([&context, shell] {
    const std::string script = *shell == "bash"  ? Bash(context.app)
                               : *shell == "zsh" ? Zsh(context.app)
                                                 : Fish(context.app);
    context.reporter.Json("summary", {{"shell", *shell}, {"script", script}});
    context.reporter.Result(script);
    return ExitCode::kOk;
  });
}

}  // namespace kerf::agent
