"""The numbered rules of docs/spec: no number twice in a page, each test that a page names is there, and each rule is held by a test
that it names, or by a case of the conformance kit that names it."""

import ast
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
# A program of whole processes.
PROGRAM = re.compile(r"`((?:e2e|client|deploy|tools|loadtest)/[\w/]+(?:\.py)?)`|`([a-z_]+_test\.py)`")
CASES = pathlib.Path("client/conformance")
RULES = re.compile(r"[A-Z]{3}-\d+(?: [A-Z]{3}-\d+)*")
HEADING = re.compile(r"^#+ ", re.MULTILINE)
# The tests of a whole section, in italics behind it.
OF_SECTION = re.compile(r"^\*[^*\n](?:.|\n(?!\n))*", re.MULTILINE)
# Neither by a test nor by a case, and why.
BY_NOBODY = {
    "CLI-4": "no test waits for the pings of a client; what a server does about too many: PRO-5",
    "COL-42": "of network file systems no test has one",
    "PRO-95": "a front puts in Drain alone, which 0.1.0 has",
    "ROU-6": "says what a front cannot do, and what its operator does instead",
}


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


def cases_of(root):
    """Rules that cases of the kit name, and where."""
    for path in sorted((root / CASES).glob("cases_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and RULES.fullmatch(node.value):
                for rule in node.value.split():
                    yield rule, f"{path.relative_to(root)}:{node.lineno}"


def names_a_test(text):
    return any(pattern.search(text) for pattern in (TEST, GO_TEST, SUITE, PROGRAM))


def rules_without_tests(text):
    """Of one page."""
    for section in HEADING.split(text):
        of_all = any(names_a_test(found) for found in OF_SECTION.findall(section))
        starts = [*RULE.finditer(section)]
        for found, following in zip(starts, [*starts[1:], None]):
            is_row = section[found.start()] == "|"
            end = section.find("\n", found.start()) if is_row else following.start() if following else len(section)
            if not names_a_test(section[found.start():end if end > 0 else None]) and (is_row or not of_all):
                yield found[1]


def findings(root, files):
    in_cases = dict(cases_of(root))
    numbers, by_nobody = set(), set()
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
        numbers.update(rules)
        for rule in rules_without_tests(text):
            if rule in BY_NOBODY:
                by_nobody.add(rule)
            elif rule not in in_cases:
                yield f"{FOLDER / page.name}: no test is named at {rule}, and no case of {CASES} names it"
    for rule in sorted(set(in_cases) - numbers):
        yield f"{in_cases[rule]}: there is no rule {rule}"
    for rule in sorted(numbers & set(BY_NOBODY) - (by_nobody - set(in_cases))):
        yield f"tools/ci/spec_rules.py: {rule} is held by a test or a case by now: it need not stand in BY_NOBODY"
