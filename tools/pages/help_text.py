"""What `kerf --help` and `kerfd --help` say, taken apart: CLI11's layout, two columns."""

import dataclasses
import functools
import os
import re
import subprocess
import tempfile

TIMEOUT_S = 60
_DESCRIPTION_COLUMN = 30
_ENVIRONMENT = re.compile(r" \(Env:(\w+)\)")
# What is not the same on each machine, and what is written in its place.
_OF_THE_MACHINE = [
    (re.compile(r"(--threads UINT:UINT in \[\d+ - \d+\])=\d+"), r"\1=as many as there are cores"),
    # How long it is decides where the text behind it begins.
    (re.compile(r"(--worker-name \w+)=\S+\s+"), r"\1=the name of the machine\n" + " " * _DESCRIPTION_COLUMN),
]


class ProgramFailed(Exception):
    """A program that should say what it knows did not."""


@dataclasses.dataclass(frozen=True)
class Option:
    # With its dashes; of an argument without.
    name: str
    short: str
    # As the help has it; empty: it takes no value.
    kind: str
    default: str
    environment: str
    description: str


@dataclasses.dataclass(frozen=True)
class Verb:
    # All of it, as "kerf repo list".
    command: str
    text: str
    options: tuple
    # (name, what it is for)
    verbs: tuple

    @property
    def summary(self):
        return self.text.splitlines()[0]


@functools.cache
def run(*command):
    """Its standard output, in an environment that is the same everywhere; asked for once."""
    with tempfile.TemporaryDirectory() as home:
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                                stdin=subprocess.DEVNULL, env={"HOME": home, "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"})
        if result.returncode != 0:
            raise ProgramFailed(f"{' '.join(map(str, command))} ended with {result.returncode}: {result.stderr.strip()}")
        text = result.stdout.replace(home, "~")
    for pattern, replacement in _OF_THE_MACHINE:
        text = pattern.sub(replacement, text)
    return text


def _entries(text, heading):
    """(left column, right column) of the lines below a heading."""
    entries = []
    is_below = False
    for line in text.splitlines():
        if line == heading:
            is_below = True
        elif is_below and not line.strip():
            return entries
        elif is_below and line.startswith(" " * _DESCRIPTION_COLUMN):
            left, right = entries[-1]
            entries[-1] = left, f"{right} {line.strip()}".strip()
        elif is_below:
            left, _, right = line.strip().partition("  ")
            entries.append((left, right.strip()))
    return entries


def _option(left, description):
    environment = _ENVIRONMENT.search(left)
    left = _ENVIRONMENT.sub("", left)
    names, _, rest = left.partition(" ")
    short, _, name = names.rpartition(",")
    kind, _, default = rest.replace(" ...", "").replace("REQUIRED", "").strip().partition("=")
    return Option(name, short, kind, default, environment[1] if environment else "", description)


def parse(command, text):
    options = [_option(*entry) for heading in ("Positionals:", "Options:") for entry in _entries(text, heading)]
    return Verb(command, text.rstrip(), tuple(options), tuple(_entries(text, "Subcommands:")))


def verbs_of(program, name):
    """Each verb of a program, itself first, in the order of its help."""
    waiting = [(name, ())]
    while waiting:
        command, words = waiting.pop(0)
        verb = parse(command, run(program, *words, "--help"))
        yield verb
        waiting[:0] = [(f"{command} {below}", (*words, below)) for below, _ in verb.verbs]
