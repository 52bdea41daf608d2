#include <memory>

#include "base/strings.h"
#include "client/agent/verbs/verbs.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf completion bash > /etc/bash_completion.d/kerf\n"
    "  kerf completion zsh > ~/.zfunc/_kerf\n"
    "  kerf completion fish > ~/.config/fish/completions/kerf.fish";

struct FlagText {
  std::string name;
  std::string description;
};

std::vector<const CLI::App*> VerbsOf(const CLI::App& app) {
  // Those of no group are hidden.
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

// A verb's own, then those of what stands below it.
std::vector<FlagText> FlagsOf(const CLI::App& app, bool with_below = false) {
  std::vector<FlagText> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      flags.push_back({Cat("--", name), option->get_description()});
    }
    for (const std::string& name : option->get_snames()) {
      flags.push_back({Cat("-", name), option->get_description()});
    }
  }
  if (!with_below) return flags;
  for (const CLI::App* below : VerbsOf(app)) {
    for (FlagText& flag : FlagsOf(*below, true)) {
      if (flag.name != "--help" && flag.name != "-h") flags.push_back(std::move(flag));
    }
  }
  return flags;
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

std::string Names(const std::vector<FlagText>& flags) {
  std::string names;
  for (const FlagText& flag : flags) names += Cat(names.empty() ? "" : " ", flag.name);
  return names;
}

// Flags that are followed by a value.
std::string ValueFlags(const CLI::App& app) {
  std::string names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_type_size() == 0 || option->get_expected_max() == 0) continue;
    for (const std::string& name : option->get_lnames()) {
      names += Cat(names.empty() ? "" : "|", "--", name);
    }
  }
  for (const CLI::App* below : VerbsOf(app)) {
    if (const std::string more = ValueFlags(*below); !more.empty()) {
      names += Cat(names.empty() ? "" : "|", more);
    }
  }
  return names;
}

std::string VerbNames(const CLI::App& app) {
  std::string names;
  for (const CLI::App* verb : VerbsOf(app)) {
    names += Cat(names.empty() ? "" : " ", verb->get_name());
  }
  return names;
}

std::string Bash(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* verb : VerbsOf(app)) {
    cases += Cat("    ", verb->get_name(), ") words='", Names(FlagsOf(*verb, true)), "' below='",
                 VerbNames(*verb), "' ;;\n");
  }
  return Cat(
      "_kerf() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} verb= words= below= word= skip=\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    if [ -n \"$skip\" ]; then skip=; continue; fi\n"
      "    case $word in\n"
      "      ",
      ValueFlags(app),
      ") skip=1 ;;\n"
      "      -*) ;;\n"
      "      *) verb=$word; break ;;\n"
      "    esac\n"
      "  done\n"
      "  case $verb in\n",
      cases, "    *) words='", VerbNames(app), "' ;;\n  esac\n  words+=' ", Names(FlagsOf(app)),
      "'\n"
      "  case $current in\n"
      "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$current\")) ;;\n"
      "    *) if [ -z \"$verb$skip\" ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "       elif [ -n \"$below\" ]; then COMPREPLY=($(compgen -W \"$below\" -- \"$current\"))\n"
      "       else local IFS=$'\\n'; COMPREPLY=($(compgen -f -- \"$current\")); fi ;;\n"
      "  esac\n"
      "}\n"
      "complete -o filenames -F _kerf kerf");
}

std::string Zsh(const CLI::App& app) {
  std::string verbs;
  std::string cases;
  for (const CLI::App* verb : VerbsOf(app)) {
    verbs += Cat("    '", verb->get_name(), ":", Quoted(verb->get_description()), "'\n");
    cases += Cat("    ", verb->get_name(), ") flags=(", Names(FlagsOf(*verb, true)), ") below=(",
                 VerbNames(*verb), ") ;;\n");
  }
  return Cat("#compdef kerf\n_kerf() {\n  local -a verbs flags below\n  verbs=(\n", verbs,
             "  )\n  if (( CURRENT == 2 )); then\n    _describe 'verb' verbs\n    return\n  fi\n"
             "  case $words[2] in\n",
             cases, "  esac\n  flags+=(", Names(FlagsOf(app)),
             ")\n  if [[ $PREFIX == -* ]]; then compadd -- $flags\n"
             "  elif (( $#below )); then compadd -- $below\n  else _files; fi\n}\n"
             "_kerf \"$@\"");
}

std::string Fish(const CLI::App& app) {
  std::string text;
  const auto add = [&text](const CLI::App& owner, const std::string& condition) {
    for (const FlagText& flag : FlagsOf(owner)) {
      const bool is_long = flag.name.starts_with("--");
      text += Cat("complete -c kerf", condition, is_long ? " -l " : " -s ",
                  flag.name.substr(is_long ? 2 : 1), " -d '", Quoted(flag.description), "'\n");
    }
  };
  add(app, "");
  for (const CLI::App* verb : VerbsOf(app)) {
    text += Cat("complete -c kerf -n __fish_use_subcommand -a ", verb->get_name(), " -d '",
                Quoted(verb->get_description()), "'\n");
    const std::string seen = Cat(" -n '__fish_seen_subcommand_from ", verb->get_name(), "'");
    add(*verb, seen);
    for (const CLI::App* below : VerbsOf(*verb)) {
      text += Cat("complete -c kerf", seen, " -a ", below->get_name(), " -d '",
                  Quoted(below->get_description()), "'\n");
      add(*below, seen);
    }
  }
  text.pop_back();
  return text;
}

}  // namespace

void AddCompletionVerb(Context& context) {
  CLI::App& verb = AddVerb(context, "completion", "Print a completion script", kExamples);
  auto shell = std::make_shared<std::string>();
  verb.add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb.callback([&context, shell] {
    context.run = [&context, shell] {
      const std::string script = *shell == "bash"  ? Bash(context.app)
                                 : *shell == "zsh" ? Zsh(context.app)
                                                   : Fish(context.app);
      context.reporter.Json("summary", {{"shell", *shell}, {"script", script}});
      context.reporter.Result(script);
      return ExitCode::kOk;
    };
  });
}

}  // namespace kerf::agent
