"""What stands in the repository that pages are held to: reasons of errors, alerts."""

import dataclasses
import pathlib
import re
import subprocess

import yaml

_ERRORS = pathlib.Path("server/errors/errors.cc")
_LIMITS = pathlib.Path("base/limits.h")
_PROTOCOL = pathlib.Path("docs/spec/protocol.md")
_COMPONENTS = pathlib.Path("deploy/components")
_REASON = re.compile(r'ReasonInfo\{Reason::k\w+,\s*"([A-Z_]+)",\s*([\w:]+),\s*(k\w+)\}')
_CODE = re.compile(r"constexpr auto (k\w+) = absl::StatusCode::k(\w+);")
_MEANING = re.compile(r"^\| ([A-Z_]+) \| [A-Z_]+ \| (.*) \|$", re.MULTILINE)
_NO_RETRY = "kNoRetry"


@dataclasses.dataclass(frozen=True)
class Reason:
    name: str
    # Of gRPC, as INVALID_ARGUMENT.
    code: str
    # How long a client waits, for people; empty: no delay is told.
    retry: str


@dataclasses.dataclass(frozen=True)
class Alert:
    name: str
    annotations: dict
    # Where it stands.
    path: pathlib.Path


def _delay(limits, name):
    if name == _NO_RETRY:
        return ""
    found = re.search(rf"milliseconds {name}\{{([\d']+)\}}", limits)
    if found is None:
        raise ValueError(f"{_LIMITS}: no {name} is to be seen")
    return f"{int(found[1].replace(chr(39), '')) / 1000:g} s"


def reasons(root):
    """In the order of the table."""
    source = (root / _ERRORS).read_text(encoding="utf-8")
    limits = (root / _LIMITS).read_text(encoding="utf-8")
    codes = dict(_CODE.findall(source))
    for name, code, retry in _REASON.findall(source):
        word = codes.get(code) or code.removeprefix("absl::StatusCode::k")
        yield Reason(name, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper(), _delay(limits, retry))


def meanings_of_reasons(root):
    return dict(_MEANING.findall((root / _PROTOCOL).read_text(encoding="utf-8")))


def alerts(root):
    for path in sorted((root / _COMPONENTS).glob("*/alerts.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            for group in document["spec"]["groups"]:
                for rule in group["rules"]:
                    if "alert" in rule:
                        yield Alert(rule["alert"], rule.get("annotations", {}), path.relative_to(root))


def files(root, *patterns):
    """Those that git has or would take, as paths below the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(pathlib.Path(name) for name in names.split("\0") if name and (root / name).is_file())


def words(root, pattern, *where):
    """Whatever matches it in a file that is no page, of all or of some."""
    for path in files(root, *(where or [":!*.md"])):
        yield from re.findall(pattern, (root / path).read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
