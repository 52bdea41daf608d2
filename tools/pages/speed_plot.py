"""docs/img/speed.svg, the plot of README.md: drawn of docs/img/speed.toml, whose figures are those of the page that it names."""

import tomllib
import xml.sax.saxutils

import prose

DATA = "docs/img/speed.toml"
PLOT = "docs/img/speed.svg"
# Where it has to be seen without scrolling, beside how to start, and which lines that is: GitHub shows some forty.
SHOWN_BY = "README.md"
FIRST_LINES = 40
START = "    kerf backup "
_WIDTH, _MARGIN, _TOP, _FOOT = 960, 20, 84, 34
_PANEL_GAP = 24
_LABELS, _VALUE = 136, 44
_BAR, _GROUP_GAP = 13, 12
_UNIT = ", s"
# Of its own background, so that it can be read on any page, and dark where its reader asks for that.
_STYLE = """
    .back{fill:#ffffff} text{fill:#1f2328} .small{fill:#59636e;font-size:12px} .head{font-weight:bold}
    .axis{stroke:#8c959f} .p0{fill:#0969da} .p1{fill:#9198a1} .p2{fill:#d1a054} .own{font-weight:bold}
    @media (prefers-color-scheme: dark){
      .back{fill:#0d1117} text{fill:#f0f6fc} .small{fill:#9198a1} .axis{stroke:#656c76} .p0{fill:#58a6ff} .p1{fill:#6e7681} .p2{fill:#b58a45}
    }
"""


def read(root):
    return tomllib.loads((root / DATA).read_text(encoding="utf-8"))


def _figures(cell):
    return cell.split(" / ")


def _text(x, y, words, kind="", anchor="start"):
    of = "".join(f' {key}="{value}"' for key, value in (("class", kind), ("text-anchor", "" if anchor == "start" else anchor)) if value)
    return f'  <text x="{x:g}" y="{y:g}"{of}>{xml.sax.saxutils.escape(words)}</text>'


def _bar(x, y, width, height, kind):
    return f'  <rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'


def _legend(programs):
    x = _MARGIN
    for number, name in enumerate(programs):
        yield _bar(x, 43, 12, 12, f"p{number}")
        yield _text(x + 18, 54, name)
        x += 40 + 7 * len(name)


def _panel(panel, left, width, most):
    """One table's column: a group of bars for each row."""
    scale = (width - _LABELS - _VALUE) / most
    yield _text(left, _TOP, panel["title"], "head")
    y = _TOP + 14
    for row, cell in panel["rows"].items():
        figures = _figures(cell)
        yield _text(left + _LABELS - 8, y + len(figures) * _BAR / 2 + 5, row.removesuffix(_UNIT), anchor="end")
        for number, figure in enumerate(figures):
            length = round(float(figure) * scale, 1)
            yield _bar(left + _LABELS, y, length, _BAR - 2, f"p{number}")
            yield _text(left + _LABELS + length + 5, y + _BAR - 3, figure, "small own" if number == 0 else "small")
            y += _BAR
        y += _GROUP_GAP
    yield f'  <path class="axis" d="M{left + _LABELS} {_TOP + 10}V{y - _GROUP_GAP + 2}"/>'


def draw(data):
    """The plot, as SVG; the same bytes for the same figures."""
    panels = data["panels"]
    most = max(float(figure) for panel in panels for cell in panel["rows"].values() for figure in _figures(cell))
    rows = max(len(panel["rows"]) for panel in panels)
    height = _TOP + 14 + rows * (len(data["programs"]) * _BAR + _GROUP_GAP) + _FOOT
    width = (_WIDTH - 2 * _MARGIN - (len(panels) - 1) * _PANEL_GAP) / len(panels)
    title = xml.sax.saxutils.escape(f"{data['title']}: {', '.join(data['programs'])}")
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="14" role="img">',
             f"  <title>{title}</title>", f"  <style>{_STYLE}  </style>", _bar(0, 0, _WIDTH, height, "back"), _text(_MARGIN, 28, data["title"], "head")]
    lines += _legend(data["programs"])
    for number, panel in enumerate(panels):
        lines += _panel(panel, _MARGIN + number * (width + _PANEL_GAP), width, most)
    lines.append(_text(_MARGIN, height - 16, f"{data['machine']}, {data['date']}, {data['command']}, {data['runs']}: {data['page']}", "small"))
    return "\n".join([*lines, "</svg>", ""])


def _table(part):
    """(row's name, column's name) -> cell, of all tables of a part of a page."""
    cells, heading = {}, []
    for line in part.splitlines():
        if not line.startswith("|"):
            heading = []
            continue
        row = [cell.strip().replace("*", "") for cell in line.strip().strip("|").split("|")]
        heading = heading or row
        cells |= {(row[0], column): cell for column, cell in zip(heading, row)}
    return cells


def _in_page(root, data):
    """What the page does not say of it."""
    page = (root / data["page"]).read_text(encoding="utf-8")
    _, _, part = page.partition(f"\n## {data['section']}\n")
    part = part.partition("\n## ")[0]
    if not part:
        yield f"{DATA}: {data['page']} has no section '{data['section']}'"
        return
    for key in ("date", "command", "runs"):
        if data[key] not in part:
            yield f"{DATA}: '{data['section']}' of {data['page']} does not say '{data[key]}'"
    for name in data["programs"]:
        if name not in part:
            yield f"{DATA}: '{data['section']}' of {data['page']} does not name {name}"
    if data["machine"] not in page:
        yield f"{DATA}: {data['page']} has no machine '{data['machine']}'"
    measured = _table(part)
    for panel in data["panels"]:
        for row, cell in panel["rows"].items():
            if (there := measured.get((row, panel["column"]))) != cell:
                yield f"{DATA}: '{row}' of '{panel['column']}' is {cell}, and {there or 'nothing'} in {data['page']}"


def findings(root):
    data = read(root)
    yield from _in_page(root, data)
    there = root / PLOT
    if not there.is_file() or there.read_text(encoding="utf-8") != draw(data):
        yield f"{PLOT}: not what is made of {DATA}: tools/site --write"
    first = (root / SHOWN_BY).read_text(encoding="utf-8").splitlines()[:FIRST_LINES]
    if PLOT not in prose.links("\n".join(first)):
        yield f"{SHOWN_BY}: its first {FIRST_LINES} lines do not show {PLOT}"
    if not any(line.startswith(START) for line in first):
        yield f"{SHOWN_BY}: its first {FIRST_LINES} lines do not say how to start:{START.rstrip()}"
