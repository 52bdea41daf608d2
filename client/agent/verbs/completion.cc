#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/cli/command_line.h"
#include "base/strings.h"
#include "client/agent/verbs/verbs.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf completion bash > /etc/bash_completion.d/kerf\n"
    "  kerf completion zsh > ~/.zfunc/_kerf\n"
    "  kerf completion fish > ~/.config/fish/completions/kerf.fish";

// Of `verb` and of all verbs below it.
std::vector<FlagDescription> AllFlags(const VerbDescription& verb) {
  std::vector<FlagDescription> flags = verb.flags;
  for (const VerbDescription& below : verb.verbs) {
    const std::vector<FlagDescription> more = AllFlags(below);
    flags.insert(flags.end(), more.begin(), more.end());
  }
  return flags;
}

// "--store -l", each once: verbs below a verb may have the same flag.
std::string FlagNames(const std::vector<FlagDescription>& flags) {
  std::string names;
  std::set<std::string> seen;
  const auto add = [&](std::string_view dashes, const std::vector<std::string>& some) {
    for (const std::string& name : some) {
      if (seen.insert(Cat(dashes, name)).second) {
        names += Cat(names.empty() ? "" : " ", dashes, name);
      }
    }
  };
  for (const FlagDescription& flag : flags) {
    add("--", flag.long_names);
    add("-", flag.short_names);
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

// Flags that are followed by a value, as alternatives of a shell pattern.
std::string ValueFlags(const VerbDescription& program) {
  std::string names;
  for (const FlagDescription& flag : AllFlags(program)) {
    if (!flag.takes_value) continue;
    for (const std::string& name : flag.long_names) {
      names += Cat(names.empty() ? "" : "|", "--", name);
    }
  }
  return names;
}

// What a flag may be, "a b c"; empty if it may be anything.
std::string Choices(const FlagDescription& flag) {
  std::string choices;
  for (const std::string& choice : flag.choices) choices += Cat(choices.empty() ? "" : " ", choice);
  return choices;
}

// What may stand behind a verb without a flag: the verbs below it, or the choices of its argument.
std::string Words(const VerbDescription& verb) {
  std::string words;
  for (const VerbDescription& below : verb.verbs) {
    words += Cat(words.empty() ? "" : " ", below.name);
  }
  for (const FlagDescription& flag : verb.flags) {
    if (words.empty() && flag.is_argument()) words = Choices(flag);
  }
  return words;
}

// Lines "FLAG) `before`CHOICES`after`" of a case over the word in front.
std::string FlagCases(const VerbDescription& program, std::string_view before,
                      std::string_view after) {
  std::string cases;
  for (const FlagDescription& flag : AllFlags(program)) {
    if (flag.choices.empty() || flag.long_names.empty()) continue;
    cases += Cat("    --", flag.long_names[0], ") ", before, Choices(flag), after, " ;;\n");
  }
  return cases;
}

std::string Bash(const VerbDescription& program) {
  std::string cases;
  for (const VerbDescription& verb : program.verbs) {
    cases += Cat("    ", verb.name, ") words='", FlagNames(AllFlags(verb)), "' values='",
                 Words(verb), "' ;;\n");
  }
  return Cat(
      "_kerf() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} verb= words= values= word= skip= rest=\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    if [ -n \"$skip\" ]; then skip=; continue; fi\n"
      "    case $word in\n"
      "      ",
      ValueFlags(program),
      ") skip=1 ;;\n"
      "      --) rest=1; break ;;\n"
      "      -*) ;;\n"
      "      *) verb=${verb:-$word} ;;\n"
      "    esac\n"
      "  done\n"
      "  case $verb in\n",
      cases, "    *) values='", Words(program), "' ;;\n  esac\n  words+=' ",
      FlagNames(program.flags),
      "'\n"
      "  [ -z \"$skip\" ] || values=\n"
      "  case $word in\n",
      FlagCases(program, "values='", "'"),
      "  esac\n"
      // There is no flag any more: files, and of a command its arguments.
      "  [ -z \"$rest\" ] || words= values=\n"
      "  case $current in\n"
      "    -*) values=$words ;;\n"
      "  esac\n"
      "  if [ -n \"$values\" ]; then COMPREPLY=($(compgen -W \"$values\" -- \"$current\"))\n"
      "  else local IFS=$'\\n'; COMPREPLY=($(compgen -f -- \"$current\")); fi\n"
      "}\n"
      "complete -o filenames -F _kerf kerf");
}

std::string Zsh(const VerbDescription& program) {
  std::string verbs;
  std::string cases;
  for (const VerbDescription& verb : program.verbs) {
    verbs += Cat("    '", verb.name, ":", Quoted(verb.description), "'\n");
    cases += Cat("    ", verb.name, ") flags=(", FlagNames(AllFlags(verb)), ") values=(",
                 Words(verb), ") ;;\n");
  }
  return Cat(
      "#compdef kerf\n"
      "_kerf() {\n"
      "  local -a verbs flags values\n"
      "  local verb= word= skip= rest=\n"
      "  verbs=(\n",
      verbs,
      "  )\n"
      "  for word in ${words[2,CURRENT-1]}; do\n"
      "    if [[ -n $skip ]]; then skip=; continue; fi\n"
      "    case $word in\n"
      "      (",
      ValueFlags(program),
      ") skip=1 ;;\n"
      "      (--) rest=1; break ;;\n"
      "      (-*) ;;\n"
      "      (*) verb=${verb:-$word} ;;\n"
      "    esac\n"
      "  done\n"
      "  case $verb in\n",
      cases, "  esac\n  flags+=(", FlagNames(program.flags),
      ")\n"
      "  [[ -z $skip ]] || values=()\n"
      "  case $word in\n",
      FlagCases(program, "values=(", ")"),
      "  esac\n"
      "  [[ -z $rest ]] || values=()\n"
      "  if [[ -z $skip$rest && $PREFIX == -* ]]; then compadd -- $flags\n"
      "  elif [[ -z $verb$skip ]]; then _describe 'verb' verbs\n"
      "  elif (( $#values )); then compadd -- $values\n"
      "  else _files; fi\n"
      "}\n"
      "_kerf \"$@\"");
}

std::string Fish(const VerbDescription& program) {
  std::string text;
  const auto add = [&text](const VerbDescription& owner, const std::string& condition) {
    for (const FlagDescription& flag : owner.flags) {
      std::string names;
      for (const std::string& name : flag.long_names) names += Cat(" -l ", name);
      for (const std::string& name : flag.short_names) names += Cat(" -s ", name);
      const std::string choices = Choices(flag);
      if (names.empty() && choices.empty()) continue;
      text += Cat("complete -c kerf", condition, names);
      if (!names.empty() && flag.takes_value) text += " -r";
      if (!choices.empty()) text += Cat(" -f -a '", choices, "'");
      text += Cat(" -d '", Quoted(flag.description), "'\n");
    }
  };
  add(program, "");
  for (const VerbDescription& verb : program.verbs) {
    text += Cat("complete -c kerf -f -n __fish_use_subcommand -a ", verb.name, " -d '",
                Quoted(verb.description), "'\n");
    const std::string seen = Cat(" -n '__fish_seen_subcommand_from ", verb.name, "'");
    add(verb, seen);
    for (const VerbDescription& below : verb.verbs) {
      text += Cat("complete -c kerf -f", seen, " -a ", below.name, " -d '",
                  Quoted(below.description), "'\n");
      add(below, seen);
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
    const VerbDescription program = context.line.Describe();
    const std::string script = *shell == "bash"  ? Bash(program)
                               : *shell == "zsh" ? Zsh(program)
                                                 : Fish(program);
    context.reporter.Json("summary", {{"shell", *shell}, {"script", script}});
    context.reporter.Result(script);
    return ExitCode::kOk;
  });
}

}  // namespace kerf::agent
