"""The reference pages, made of what the programs, the table of errors and the protos say: nobody writes them by hand."""

import re

import help_text
import protos
import repository

FOLDER = "docs/reference"
_MADE = "Made by `tools/site --write`; `tools/site` fails where it is not as the programs say."
# kerfd's flags that are no settings.
_NO_SETTINGS = {"--help", "--version", "--config", "--print-config", "--print-metrics"}


def _cell(text):
    return text.replace("|", r"\|").replace("<", "&lt;")


def _row(*cells):
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _table(headings, rows):
    return "\n".join([_row(*headings), _row(*["---"] * len(headings)), *(_row(*row) for row in rows)])


def _code(text):
    return f"`{text}`" if text else ""


def kerf_page(verbs):
    parts = ["# Flags of kerf",
             f"Every verb of `kerf` with its flags, as `kerf VERB --help` prints them. Look here for what a flag does. {_MADE}",
             _table(["verb", "what it does"],
                    [(f"[{verb.command}](#{verb.command.replace(' ', '-')})", verb.summary) for verb in verbs[1:]])]
    for verb in verbs:
        parts.append(f"## {verb.command}\n\n```text\n{verb.text}\n```")
    return "\n\n".join(parts) + "\n"


def kerfd_page(verb):
    return (f"# Flags of kerfd\n\nLook here for what a flag of kerfd does: all that `kerfd --help` prints, with each default. "
            f"The same as a table, with variables and keys: [settings](settings.md). {_MADE}\n\n```text\n{verb.text}\n```\n")


def _variables(verbs):
    """Of kerf: variable -> (flag, what it is, the verbs that read it)."""
    found = {}
    for verb in verbs:
        for option in verb.options:
            if option.environment:
                flag, description, users = found.setdefault(option.environment, (option.name, option.description, []))
                users.append(verb.command)
    return found


def settings_of_kerfd(verb):
    return [option for option in verb.options if option.name.startswith("--") and option.name not in _NO_SETTINGS]


def variable_of_kerfd(option):
    return "KERFD_" + option.name.removeprefix("--").replace("-", "_").upper()


def settings_page(kerf_verbs, kerfd):
    rows = [(f"{_code(option.name)} {_code(variable_of_kerfd(option))}", _code(option.kind.replace("UINT:", "").strip(":")),
             _code(option.default), option.description) for option in settings_of_kerfd(kerfd)]
    variables = [(_code(name), _code(flag), description, ", ".join(_code(user) for user in users) if len(users) < 6 else f"{len(users)} verbs")
                 for name, (flag, description, users) in sorted(_variables(kerf_verbs).items())]
    return "\n\n".join([
        "# Settings",
        f"What can be set, where, and what holds if it is not. Look here when you write a configuration file or a unit of a service. {_MADE}",
        "## kerfd",
        "Each is a flag, an environment variable and a key of the TOML file of `--config`; the first goes before the second, that "
        "before the third. The key is the flag's name without its dashes. A list in a variable has commas. `kerfd --print-config` "
        "prints what is in force, as such a file. Why it is so: [ADR 0015](../adr/0015-settings.md).",
        _table(["flag, variable", "value", "default", "meaning"], rows),
        "## kerf",
        "Every flag may stand in the file of `--config`: TOML, keys are the long names of flags, those of one verb in a table of "
        "its name. These have an environment variable, too, which goes before the file and behind the flag:",
        _table(["variable", "flag", "meaning", "read by"], variables)]) + "\n"


def errors_page(reasons, meanings):
    rows = [(f"[{reason.name}](../runbooks/reasons/{reason.name}.md)", _code(reason.code), reason.retry,
             meanings[reason.name].replace("](", "](../spec/")) for reason in reasons]
    return "\n\n".join([
        "# Errors",
        "Every reason that an error of kerfd's can have, with its gRPC code and what it means. Look here for a word that a log, "
        f"a program or `kerf` shows; its own page says what to do. {_MADE}",
        "How errors are carried, and which of them a client tries again, is said in [the protocol](../spec/protocol.md#errors). "
        "What `kerf` then ends with: [exit codes](../exit_codes.md). *Delay* is the least that a client waits; without one, trying "
        "again makes no sense or is the client's choice.",
        _table(["reason", "code", "delay", "meaning"], rows)]) + "\n"


def c_page(root):
    header = (root / "client/c/kerf.h").read_text(encoding="utf-8")
    return (f"# kerf.h\n\nLook here for what a function of libkerf does, which thread calls back, who owns what, and which errors there are: the header, "
            f"as programs in C include it. How it is used: [kerf for C](../c_client.md). {_MADE}\n\n```c\n{header.strip()}\n```\n")


def make(root, kerf, kerfd):
    """Page -> text."""
    verbs = list(help_text.verbs_of(kerf, "kerf"))
    server = help_text.parse("kerfd", help_text.run(kerfd, "--help"))
    pages = {
        "kerf.md": kerf_page(verbs),
        "kerfd.md": kerfd_page(server),
        "settings.md": settings_page(verbs, server),
        "errors.md": errors_page(repository.reasons(root), repository.meanings_of_reasons(root)),
        "proto.md": protos.page(root, _MADE),
        "c.md": c_page(root),
    }
    return {f"{FOLDER}/{name}": text for name, text in pages.items()}


def findings(root, made, kerfd):
    """What is not as it would be made."""
    for name, text in made.items():
        path = root / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            yield f"{name}: not what the programs say: tools/site --write"
    if (root / "docs/metrics.md").read_text(encoding="utf-8") != help_text.run(kerfd, "--print-metrics"):
        yield "docs/metrics.md: not what kerfd says: kerfd --print-metrics > docs/metrics.md"
    for path in sorted((root / FOLDER).glob("*.md")):
        if f"{FOLDER}/{path.name}" not in made:
            yield f"{FOLDER}/{path.name}: nothing makes it"
    keys = set(re.findall(r"^(?:# )?([a-z-]+) = ", help_text.run(kerfd, "--print-config"), re.MULTILINE))
    flags = {option.name.removeprefix("--") for option in settings_of_kerfd(help_text.parse("kerfd", help_text.run(kerfd, "--help")))}
    for name in sorted(keys ^ flags):
        yield f"kerfd: '{name}' is {'a key of --print-config and no flag' if name in keys else 'a flag that --print-config leaves out'}"
