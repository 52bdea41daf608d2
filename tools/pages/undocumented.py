"""What nothing else compares with the pages, mostly both ways: types of kerf's JSON, commands of tools/, keys of the file of
--access, variables of what is deployed, what /readyz says, functions of kerf.h, and paths."""

import re

import prose
import repository

_JSON = "docs/json.md"
_TYPE = re.compile(r"\b(?:Json|FormatMessage)\(\s*\"([a-z_]+)\"")
_ROW = re.compile(r"^\| `([a-z_]+)` \|", re.MULTILINE)
# What stands in code there, as a key does; a path that is no text has one of its own beside it.
_JSON_KEY = re.compile(r"`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)`")
_OF_BYTES = "_base64"
_STRING = re.compile(r'"([a-z][a-z0-9_]*)')
# The heading of its table, which is no type.
_HEADING = "message_type"
_COMMANDS = "docs/hacking.md"
# A path from the root; another one, as out/tools/go, has its own.
_COMMAND = re.compile(r"(?<![\w/-])tools/([a-z][a-z0-9_-]*)")
_EXECUTABLE = 0o100
_C_PAGE = "docs/c_client.md"
_HEADER = "client/c/kerf.h"
_DECLARED = r"^KERF_API [^()]*?\b(kerf_\w+)\("
_ACCESS = "docs/spec/access.md"
_KNOWN_KEYS = re.compile(r"CheckKeys\([^{;]*\{([^}]*)\}")
_QUOTED = re.compile(r'"([a-z0-9_]+)"')
_KEYS_ROW = re.compile(r"^\| (`[^|]*`) \|", re.MULTILINE)
_KEY = re.compile(r"`(?:grant\.)?([a-z0-9_]+)`")
_KEY_OF_TOML = re.compile(r"^ +([a-z0-9_]+) = |^ +\[\[(?:\w+\.)?(\w+)\]\]", re.MULTILINE)
_NOT_READY = "docs/runbooks/alerts/KerfNotReady.md"
_SAID = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
_VARIABLE = re.compile(r"\bKERF_[A-Z0-9_]*[A-Z0-9]\b")
# Of containers and units: whoever deploys them meets these names.
_DEPLOYED = ("deploy/base", "deploy/components", "deploy/overlays", "deploy/package", "deploy/drain", "deploy/redis-password")
_ROOTS = "base|bazel|client|deploy|docs|e2e|kernels|loadtest|proto|server|tools"
_PATH = re.compile(rf"(?<![\w/.-])((?:{_ROOTS})/[\w./-]*\w)(?![\w*{{<-])")
# Records of what was decided, with files that were planned.
_OF_THEIR_DAY = "docs/adr/"
# In the place of a word that the reader has, and what becomes of a page.
_NO_PATH = re.compile(r"[A-Z]{4}|\.html$|/n$")


def _types(root):
    """That the programs print: the words that each is given where it is made."""
    for path in repository.files(root, "client/*.cc", "client/*.h", "base/*.cc", "kernels/*.cc"):
        if not path.stem.endswith("_test") and "testing" not in path.parts:
            yield from _TYPE.findall((root / path).read_text(encoding="utf-8"))


def _json_keys(root, text):
    """Those of one word may be values; what the programs never say in a string is no key of theirs."""
    said = set()
    for path in repository.files(root, "client/*.cc", "client/*.h", "base/*.cc", "base/*.h", "kernels/*.cc", "server/*.cc"):
        if not path.stem.endswith("_test"):
            said |= set(_STRING.findall((root / path).read_text(encoding="utf-8")))
    types = set(_ROW.findall(text))
    for key in sorted({key.removesuffix(_OF_BYTES) for key in _JSON_KEY.findall(text)} - said - types):
        yield f"{_JSON}: nothing prints the key {key}"


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


def _access_keys(root, text):
    source = (root / "server/access/access_rules.cc").read_text(encoding="utf-8")
    there = {key for keys in _KNOWN_KEYS.findall(source) for key in _QUOTED.findall(keys)}
    tables = re.findall(r"^\| key \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    told = {key for table in tables for row in _KEYS_ROW.findall(table) for key in _KEY.findall(row)}
    told |= {key for pair in _KEY_OF_TOML.findall(text) for key in pair if key}
    yield from _both_ways(_ACCESS, told, there, "key")


def _not_ready(root, text):
    """The words by which a reader finds his row."""
    said = "".join((root / path).read_text(encoding="utf-8") for path in repository.files(root, "server/*.cc"))
    for words in _SAID.findall(text):
        if words not in said:
            yield f"{_NOT_READY}: kerfd never says: {words}"


def _variables(root, texts):
    told = {name for text in texts.values() for name in _VARIABLE.findall(text)}
    for path in repository.files(root, *_DEPLOYED):
        if path.suffix != ".py" and path.suffix != ".md":
            for name in sorted(set(_VARIABLE.findall((root / path).read_text(encoding="utf-8"))) - told):
                yield f"{path}: no page tells of the variable {name}"


def _is_there(root, page, path):
    """Also without what several files end with, as server/redis/walk."""
    places = [root / path, (root / page).parent / path]
    return any(place.exists() or any(place.parent.glob(f"{place.name}[._-]*")) for place in places)


def _paths(root, texts):
    for page, text in texts.items():
        for piece in prose.code(text) if not page.startswith(_OF_THEIR_DAY) else ():
            for path in _PATH.findall(piece.text) if piece.is_inline else ():
                if not _NO_PATH.search(path) and not _COMMAND.fullmatch(path) and not _is_there(root, page, path):
                    yield f"{page}:{piece.line}: there is no {path}"


def findings(root, texts):
    """`texts`: path -> text, of the pages."""
    told = set(_ROW.findall(texts[_JSON])) - {_HEADING}
    yield from _both_ways(_JSON, told, set(_types(root)), "type of message")
    yield from _json_keys(root, texts[_JSON])
    yield from _access_keys(root, texts[_ACCESS])
    yield from _not_ready(root, texts[_NOT_READY])
    yield from _variables(root, texts)
    yield from _paths(root, texts)
    commands = _commands(root)
    for name in sorted(commands - set(_COMMAND.findall(texts[_COMMANDS]))):
        yield f"{_COMMANDS}: does not tell of the command tools/{name}"
    yield from _functions(root, texts[_C_PAGE])
    for page, text in texts.items():
        for name in sorted(set(_COMMAND.findall(text))):
            if name not in commands and not (root / "tools" / name).is_dir():
                yield f"{page}: there is no tools/{name}"
