"""Each row of docs/threat_model.md about an attack ends in tests that exist, or in "not defended"."""

import pathlib
import re

PAGE = pathlib.Path("docs/threat_model.md")
HELD_BY = "held by"
NOT_DEFENDED = "**not defended**"
TEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
QUOTED = re.compile(r"`([^`]+)`")


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rows(text):
    """(line, last cell) of each row of the tables whose last column is HELD_BY."""
    is_of_attacks = False
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("|"):
            is_of_attacks = False
        elif cells(line)[-1] == HELD_BY:
            is_of_attacks = True
        elif is_of_attacks and not cells(line)[-1].startswith("---"):
            yield number, cells(line)[-1]


def tests(files):
    """Of suites that several tests share, too, which lie in testing/."""
    sources = [path for path in files
               if path.is_file() and (path.name.endswith("_test.cc") or path.suffix == ".cc" and path.parent.name == "testing")]
    return {".".join(match) for path in sources for match in TEST.findall(path.read_text(encoding="utf-8", errors="replace"))}


def findings(root, files):
    page = root / PAGE
    if not page.is_file():
        return
    known = tests(files)
    text = page.read_text(encoding="utf-8")
    for number, held_by in rows(text):
        named = QUOTED.findall(held_by)
        if not named and not held_by.startswith(NOT_DEFENDED):
            yield f"{PAGE}:{number}: a row ends in the name of a test, or in {NOT_DEFENDED}"
        for name in named:
            is_there = (root / name).is_file() if "/" in name else name in known or name.startswith("--")
            if not is_there:
                yield f"{PAGE}:{number}: there is no test {name}"
