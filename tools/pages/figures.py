"""Figures that a page repeats are those of the page that has machine, date and command."""

import re

# Page, section -> where its figures are from.
_REPEATED = {("docs/comparison.md", "Measured"): "docs/performance.md",
             ("docs/profiles.md", "Savings, measured"): "docs/adr/0007-default-profile.md"}
_FIGURE = re.compile(r"\d")


def _rows(text):
    """The cells of each row that has figures."""
    for line in text.splitlines():
        cells = tuple(cell.strip().replace("*", "") for cell in line.strip().strip("|").split("|"))
        if line.startswith("|") and any(_FIGURE.search(cell) for cell in cells[1:]):
            yield cells


def findings(root):
    for (page, section), source in _REPEATED.items():
        text = (root / page).read_text(encoding="utf-8")
        _, _, part = text.partition(f"\n## {section}\n")
        rows = list(_rows(part.partition("\n## ")[0]))
        measured = list(_rows((root / source).read_text(encoding="utf-8")))
        if not rows:
            yield f"{page}: no figures under '{section}'"
        for row in rows:
            # The source's row may go on; headings are the page's own.
            if _is_heading(row):
                continue
            if not any(other[:len(row)] == row for other in measured):
                yield f"{page}: {source} has no row '{' | '.join(row)}'"


def _is_heading(row):
    return all(re.search("[a-z]{3}", cell) for cell in row[1:])
