"""Manual pages of kerf and kerfd: what --help prints, as troff; of libkerf: its header. There is no second text that could
become another one.

Each verb has a page, as `man kerf-backup`, and so has each that is below one: `man kerf-index-check`.
"""

import functools
import gzip
import os
import re
import subprocess

HELP_TIMEOUT_S = 30
# Where help is printed with a value of the machine, or of who asks.
HOME = "/home-of-the-page"
OF_MACHINE = [(re.compile(re.escape(f"={HOME}/")), "=~/"), (re.compile(r"(--worker-name TEXT)=\S+"), r"\1=HOST-PROCESS")]
SECTION = re.compile(r"(Positionals|Options|Subcommands):$")
ITEM = re.compile(r" {2}(\S.*?)(?: {2,}(\S.*))?$")
CONTINUED = re.compile(r" {30}(\S.*)$")
TITLES = {"Positionals": "ARGUMENTS", "Options": "OPTIONS", "Subcommands": "COMMANDS"}


class Failed(Exception):
    """What a person is told."""


class Help:
    """One --help, read."""

    def __init__(self, text):
        lines = text.rstrip("\n").split("\n")
        usage = [number for number, line in enumerate(lines) if line.startswith("Usage: ")]
        if not usage:
            raise Failed(f"help without a usage: {lines[0]!r}")
        self.summary = " ".join(lines[:usage[0]]).strip()
        self.usage = lines[usage[0]].removeprefix("Usage: ")
        # (title, [[head, text]])
        self.sections = []
        rest = lines[usage[0] + 1:]
        while rest:
            line = rest[0]
            if found := SECTION.match(line):
                self.sections.append((found[1], []))
            elif line and self.sections and (found := CONTINUED.match(line)) and self.sections[-1][1]:
                item = self.sections[-1][1][-1]
                item[1] = f"{item[1]} {found[1]}".strip()
            elif line and self.sections and (found := ITEM.match(line)):
                self.sections[-1][1].append([found[1], found[2] or ""])
            elif line:
                break
            rest.pop(0)
        self.footer = rest

    def verbs(self):
        return [head.split()[0] for title, items in self.sections if title == "Subcommands" for head, _ in items]


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def _footer(lines):
    """Paragraphs are filled; a title over lines that are indented becomes a section, and these stay as they are."""
    made = []
    is_plain = False
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        is_title = line.endswith(":") and following.startswith("  ")
        if is_plain and not line.startswith("  "):
            made.append(".fi")
            is_plain = False
        if is_title and line == "Examples:":
            made.append(".SH EXAMPLES")
        elif line.startswith("  "):
            if not is_plain:
                made.append(".nf")
                is_plain = True
            made.append(escaped(line[2:]))
        elif line:
            if number == 0 or lines[number - 1].startswith("  ") or not lines[number - 1]:
                made.append(".PP" if number else ".SH NOTES")
            made.append(escaped(line))
    if is_plain:
        made.append(".fi")
    return made


def page(words, number, text, date, version, see_also):
    """The page of a program or verb (`words`, as kerf index check), as troff."""
    parsed = Help(text)
    name = "-".join(words)
    made = [f'.TH {name.upper()} {number} "{date}" "kerf {version}" kerf', ".SH NAME",
            f"{escaped(name)} \\- {escaped(parsed.summary)}", ".SH SYNOPSIS", f".B {escaped(parsed.usage)}"]
    for title, items in parsed.sections:
        made.append(f".SH {TITLES[title]}")
        for head, said in items:
            made += [".TP", f".B {escaped(head)}", escaped(said)]
            if title == "Subcommands":
                made.append(f"See {escaped(f'{name}-{head.split()[0]}')}({number}).")
    made += _footer(parsed.footer)
    if see_also:
        made += [".SH SEE ALSO", ", ".join(f"{escaped(other)}({section})" for other, section in see_also)]
    return "\n".join(made) + "\n"


@functools.cache
def help_of(program, verbs):
    """What it prints for that verb: `verbs` is a tuple of words. Asked for once."""
    environment = {"HOME": HOME, "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    done = subprocess.run([program, *verbs, "--help"], capture_output=True, text=True, check=False, env=environment,
                          timeout=HELP_TIMEOUT_S)
    if done.returncode != 0 or not done.stdout:
        raise Failed(f"{program} {' '.join(verbs)} --help: exit code {done.returncode}: {done.stderr.strip()}")
    text = done.stdout
    for pattern, told in OF_MACHINE:
        text = pattern.sub(told, text)
    return text


def pages(program, number, date, version):
    """{file name: text} of a program and all its verbs."""
    name = program.name
    made = {}

    def add(verbs):
        text = help_of(program, tuple(verbs))
        parent = [("-".join([name, *verbs[:-1]]), number)] if verbs else [("kerfd", 8)] if name == "kerf" else [("kerf", 1)]
        made[f"{'-'.join([name, *verbs])}.{number}"] = page([name, *verbs], number, text, date, version, parent)
        for verb in Help(text).verbs():
            add([*verbs, verb])

    add([])
    return made


def header_page(name, header, date, version):
    """The page of a library, as troff: how a program is made with it, and its header as it is."""
    lines = [escaped(line) if line else "" for line in header.rstrip("\n").split("\n")]
    return "\n".join([
        f'.TH {name.upper()} 3 "{date}" "kerf {version}" kerf', ".SH NAME",
        f"{escaped(name)} \\- cuts, fingerprints and deduplicates what a backup program sends to kerfd", ".SH SYNOPSIS", ".nf",
        ".B #include <kerf.h>", "", escaped("cc -o program program.c $(pkg-config --cflags --libs kerf)"), ".fi",
        ".SH DESCRIPTION", ".nf", *lines, ".fi", ".SH SEE ALSO", "\\&kerfd(8)"]) + "\n"


def compressed(text):
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)
