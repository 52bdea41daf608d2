"""The numbered rules of docs/spec: no number twice, each test and each case of the conformance kit that a page names is there, such
a case judges the rule at which it stands, and each rule is held by a test that it names, or by a case that names it."""

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
# None of these is SHA-256, nor a case.
NUMBER = re.compile(r"\b(?!SHA-|CON-)[A-Z]{3}-\d+\b")
HEADING = re.compile(r"^#+ ", re.MULTILINE)
# The tests of a whole section, in italics behind it.
OF_SECTION = re.compile(r"^\*[^*\n](?:.|\n(?!\n))*", re.MULTILINE)
CASE = re.compile(r"\bCON-\d+\b")
# What nobody holds, as a page says it.
NOBODY = re.compile(r"\bno test\b")
# Neither by a test nor by a case, and why.
BY_NOBODY = {
    "COL-42": "of network file systems no test has one",
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


def rules_in(node):
    is_list = isinstance(node, ast.Constant) and isinstance(node.value, str) and RULES.fullmatch(node.value)
    return node.value.split() if is_list else []


def cases_of(root):
    """Rules that cases of the kit name, and where; the case's number, where it stands there as one."""
    for path in sorted((root / CASES).glob("cases_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            for rule in rules_in(node):
                yield rule, f"{path.relative_to(root)}:{node.lineno}", None
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                for rule in [rule for argument in node.args[1:] for rule in rules_in(argument)]:
                    yield rule, f"{path.relative_to(root)}:{node.lineno}", f"CON-{node.args[0].value}"


def names_a_test(text):
    return any(pattern.search(text) for pattern in (TEST, GO_TEST, SUITE, PROGRAM))


def texts_of_rules(text):
    """(rule, its row or paragraphs, and what is said of the tests of its whole section) of each of one page."""
    for section in HEADING.split(text):
        tests = OF_SECTION.findall(section)
        starts = [*RULE.finditer(section)]
        for found, following in zip(starts, [*starts[1:], None]):
            is_row = section[found.start()] == "|"
            end = section.find("\n", found.start()) if is_row else following.start() if following else len(section)
            # One that names rules speaks of those alone.
            of_section = [] if is_row else [one for one in tests
                                            if found[1] in NUMBER.findall(one) or not NUMBER.search(one)]
            text_of_rule = section[found.start():end if end > 0 else None]
            yield found[1], text_of_rule if is_row else OF_SECTION.sub("", text_of_rule), " ".join(of_section)


def findings_of_rule(page, rule, text, of_section, in_cases, judged):
    """Whether nobody holds it, of those that no case names either."""
    for case in sorted(set(CASE.findall(text))):
        if rule not in judged.get(case, ()):
            yield f"{page}: {rule} is not what {case} judges"
    if NOBODY.search(text) and rule not in BY_NOBODY:
        yield f"{page}: {rule} says that no test holds it: name one, or a case"
    elif rule not in BY_NOBODY and not names_a_test(text) and not names_a_test(of_section) and rule not in in_cases:
        yield f"{page}: no test is named at {rule}, and no case of {CASES} names it"


def findings(root, files):
    in_cases, judged, is_new = {}, {}, {}
    for rule, where, case in cases_of(root):
        in_cases.setdefault(rule, where)
        if case:
            judged.setdefault(case, set()).add(rule)
    go = go_tests(files)
    known = threat_model.tests(files) | set(python_tests(files))
    suites = {name.split(".")[0] for name in known}
    by_nobody = set()
    for path in sorted((root / FOLDER).glob("*.md")):
        page, text = FOLDER / path.name, path.read_text(encoding="utf-8")
        for name in sorted(set(TEST.findall(text)) - known):
            yield f"{page}: there is no test {name}"
        for name in sorted(set(GO_TEST.findall(text)) - go):
            yield f"{page}: there is no test {name}"
        for name in sorted(set(SUITE.findall(text)) - suites):
            yield f"{page}: there are no tests {name}"
        for rule, of_rule, of_section in texts_of_rules(text):
            if rule in is_new:
                yield f"{page}: {rule} is the number of two rules"
            is_new[rule] = page
            if not names_a_test(of_rule) and not names_a_test(of_section) and rule not in in_cases:
                by_nobody.add(rule)
            yield from findings_of_rule(page, rule, of_rule, of_section, in_cases, judged)
    for rule in sorted(set(in_cases) - set(is_new)):
        yield f"{in_cases[rule]}: there is no rule {rule}"
    for rule in sorted(set(is_new) & set(BY_NOBODY) - by_nobody):
        yield f"tools/ci/spec_rules.py: {rule} is held by a test or a case by now: it need not stand in BY_NOBODY"
