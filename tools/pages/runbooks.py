"""A runbook for each alert and each reason of an error, and none without one; each alert names its own, and each is tried."""

import re

import repository

ALERTS = "docs/runbooks/alerts"
REASONS = "docs/runbooks/reasons"
# Tests that make a fault and take the steps of its page, whose name they have.
TESTS = "e2e/runbooks"
# Says of the others that nothing tries them, and why.
_UNTRIED = "docs/runbooks/README.md"
# What each has, in this order: whoever is woken by it looks for the same in the same place.
SECTIONS = ["What it means", "What to look at", "What to do", "How to know that it is over"]
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_TITLE = re.compile(r"^# (\S+)$", re.MULTILINE)
_TEST = re.compile(r"^    def test_(\w+)\(", re.MULTILINE)
_ROW = re.compile(r"^\| ([A-Z][\w, ]*) \| [^-]", re.MULTILINE)


def url_of(alert):
    """Below whatever address the site is served at: docs/operations.md."""
    return f"docs/runbooks/alerts/{alert}.html"


def _both_ways(root, folder, names, what):
    there = {path.stem for path in (root / folder).glob("*.md")} - {"README"}
    for name in sorted(set(names) - there):
        yield f"{folder}/{name}.md: the {what} {name} has no runbook"
    for name in sorted(there - set(names)):
        yield f"{folder}/{name}.md: there is no {what} {name}"


def _shape(root, folder):
    for path in sorted((root / folder).glob("*.md")):
        text = path.read_text(encoding="utf-8")
        name = f"{folder}/{path.name}"
        if path.stem != "README" and _TITLE.findall(text) != [path.stem]:
            yield f"{name}: its title is not {path.stem}"
        if path.stem != "README" and _HEADING.findall(text) != SECTIONS:
            yield f"{name}: its sections are not: {', '.join(SECTIONS)}"


def _trials(root):
    pages = {path.stem for folder in (ALERTS, REASONS) for path in (root / folder).glob("*.md")}
    tried = {name for path in (root / TESTS).glob("*_test.py") for name in _TEST.findall(path.read_text(encoding="utf-8"))}
    untried = {name for row in _ROW.findall((root / _UNTRIED).read_text(encoding="utf-8")) for name in row.split(", ")}
    for name in sorted(pages - tried - untried):
        yield f"{TESTS}: no test_{name} tries that runbook, and {_UNTRIED} does not say why"
    for name in sorted(tried & untried):
        yield f"{_UNTRIED}: {name} is tried by {TESTS}"
    for name in sorted((tried | untried) - pages):
        yield f"{TESTS if name in tried else _UNTRIED}: there is no runbook {name}"


def findings(root):
    alerts = list(repository.alerts(root))
    yield from _both_ways(root, ALERTS, [alert.name for alert in alerts], "alert")
    yield from _both_ways(root, REASONS, [reason.name for reason in repository.reasons(root)], "reason")
    yield from _shape(root, ALERTS)
    yield from _shape(root, REASONS)
    yield from _trials(root)
    for alert in alerts:
        if alert.annotations.get("runbook_url") != url_of(alert.name):
            yield f"{alert.path}: runbook_url of {alert.name} is not {url_of(alert.name)}"
