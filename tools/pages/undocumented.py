"""What nothing else compares with the pages: types of kerf's JSON, commands of tools/, and functions of kerf.h."""

import re

import repository

_JSON = "docs/json.md"
_TYPE = re.compile(r"\b(?:Json|FormatMessage)\(\s*\"([a-z_]+)\"")
_ROW = re.compile(r"^\| `([a-z_]+)` \|", re.MULTILINE)
# The heading of its table, which is no type.
_HEADING = "message_type"
_COMMANDS = "docs/hacking.md"
# A path from the root; another one, as out/tools/go, has its own.
_COMMAND = re.compile(r"(?<![\w/-])tools/([a-z][a-z0-9_-]*)")
_EXECUTABLE = 0o100
_C_PAGE = "docs/c_client.md"
_HEADER = "client/c/kerf.h"
_DECLARED = r"^KERF_API [^()]*?\b(kerf_\w+)\("


def _types(root):
    """That the programs print: the words that each is given where it is made."""
    for path in repository.files(root, "client/*.cc", "client/*.h", "base/*.cc", "kernels/*.cc"):
        if not path.stem.endswith("_test") and "testing" not in path.parts:
            yield from _TYPE.findall((root / path).read_text(encoding="utf-8"))


def _commands(root):
    return {path.name for path in repository.files(root, "tools/*") if len(path.parts) == 2 and (root / path).stat().st_mode & _EXECUTABLE}


def _both_ways(page, told, there, what):
    for name in sorted(there - told):
        yield f"{page}: does not tell of the {what} {name}"
    for name in sorted(told - there):
        yield f"{page}: there is no {what} {name}"


def _functions(root, text):
    """Of C; that there is what the page names, named.py says."""
    for name in sorted(set(repository.words(root, _DECLARED, _HEADER)) - set(re.findall(r"\bkerf_\w+", text))):
        yield f"{_C_PAGE}: does not tell of the function {name}"


def findings(root, texts):
    """`texts`: path -> text, of the pages."""
    told = set(_ROW.findall(texts[_JSON])) - {_HEADING}
    yield from _both_ways(_JSON, told, set(_types(root)), "type of message")
    commands = _commands(root)
    for name in sorted(commands - set(_COMMAND.findall(texts[_COMMANDS]))):
        yield f"{_COMMANDS}: does not tell of the command tools/{name}"
    yield from _functions(root, texts[_C_PAGE])
    for page, text in texts.items():
        for name in sorted(set(_COMMAND.findall(text))):
            if name not in commands and not (root / "tools" / name).is_dir():
                yield f"{page}: there is no tools/{name}"
