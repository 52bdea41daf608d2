"""The numbered rules of docs/spec: no number twice in a page, and each test that a page names is there."""

import pathlib
import re

import threat_model

FOLDER = pathlib.Path("docs/spec")
TEST = re.compile(r"`([A-Z][A-Za-z0-9]*\.(?:[A-Z]|test_)\w*)`")
# Of Go, which has no suites.
GO_TEST = re.compile(r"`(Test[A-Z]\w*)`")
SUITE = re.compile(r"`([A-Z][A-Za-z0-9]*Test)`")
RULE = re.compile(r"^(?:\| |\*\*)([A-Z]{3}-\d+)(?: \||\.\*\*)", re.MULTILINE)
GO = re.compile(r"^func (Test[A-Z]\w*)\(", re.MULTILINE)
PYTHON = re.compile(r"^class (\w+)\(|^    (?:async )?def (test_\w+)", re.MULTILINE)


def python_tests(files):
    suite = ""
    for path in files:
        if not path.name.endswith("_test.py") or not path.is_file():
            continue
        for found in PYTHON.finditer(path.read_text(encoding="utf-8")):
            suite = found[1] or suite
            if found[2]:
                yield f"{suite}.{found[2]}"


def go_tests(files):
    return {name for path in files if path.name.endswith("_test.go") and path.is_file()
            for name in GO.findall(path.read_text(encoding="utf-8"))}


def findings(root, files):
    go = go_tests(files)
    known = threat_model.tests(files) | set(python_tests(files))
    suites = {name.split(".")[0] for name in known}
    for page in sorted((root / FOLDER).glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for name in sorted(set(TEST.findall(text)) - known):
            yield f"{FOLDER / page.name}: there is no test {name}"
        for name in sorted(set(GO_TEST.findall(text)) - go):
            yield f"{FOLDER / page.name}: there is no test {name}"
        for name in sorted(set(SUITE.findall(text)) - suites):
            yield f"{FOLDER / page.name}: there are no tests {name}"
        rules = RULE.findall(text)
        for rule in sorted({rule for rule in rules if rules.count(rule) > 1}):
            yield f"{FOLDER / page.name}: {rule} is the number of two rules"
