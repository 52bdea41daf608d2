"""Each row of docs/threat_model.md about an attack, and of docs/upgrade.md about two releases, ends in tests that exist and
that something runs, or in "not defended" and "not tested"."""

import pathlib
import re

HELD_BY = "held by"
# Each with what a row says that nothing holds.
PAGES = {pathlib.Path("docs/threat_model.md"): "**not defended**", pathlib.Path("docs/upgrade.md"): "**not tested**"}
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


def is_built(path):
    build = path.parent / "BUILD"
    return build.is_file() and re.search(rf'"{re.escape(path.stem)}(\.cc)?"', build.read_text(encoding="utf-8")) is not None


def tests(files):
    """Of suites that several tests share, too, which lie in testing/."""
    sources = [path for path in files
               if path.is_file() and (path.name.endswith("_test.cc") or path.suffix == ".cc" and path.parent.name == "testing")
               and is_built(path)]
    return {".".join(match) for path in sources for match in TEST.findall(path.read_text(encoding="utf-8", errors="replace"))}


def is_run(path, files):
    """Whether tools/test, a BUILD or another program names it."""
    word = re.compile(rf"\b{re.escape(path.stem)}\b")
    programs = (file for file in files if file.is_file() and file != path and file.suffix in ("", ".py") and not file.is_symlink())
    return any(word.search(file.read_text(encoding="utf-8", errors="replace")) for file in programs)


def findings(root, files):
    known = tests(files)
    for page, nothing in PAGES.items():
        if (root / page).is_file():
            yield from findings_of(page, nothing, known, root, files)


def findings_of(page, nothing, known, root, files):
    for number, held_by in rows((root / page).read_text(encoding="utf-8")):
        # An option may be told of; it holds nothing.
        named = [name for name in QUOTED.findall(held_by) if not name.startswith("--")]
        if not named and not held_by.startswith(nothing):
            yield f"{page}:{number}: a row ends in the name of a test, or in {nothing}"
        for name in named:
            if "/" in name and (root / name).is_file():
                if not is_run(root / name, files):
                    yield f"{page}:{number}: nothing runs {name}"
            elif name not in known:
                yield f"{page}:{number}: there is no test {name}"
