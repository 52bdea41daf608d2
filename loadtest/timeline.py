"""What happened in each second of a run, which Locust's charts, averages over ten seconds, do not show: bytes
answered, streams lost and resumed, and who was restarted meanwhile. timeline.csv and timeline.html beside the report."""

import collections
import csv
import html
import time

COLUMNS = ["answered bytes", "streams lost", "streams resumed"]
# Of two machines; processes report every second.
MAX_CLOCK_DIFFERENCE_S = 10
WIDTH, HEIGHT, MARGIN = 1200, 300, 60
STYLE = """body { font: 14px sans-serif; margin: 2em; color: #222 } svg { display: block; margin-bottom: 1em }
.rate { fill: none; stroke: #1668b8; stroke-width: 1.5 } .lost { fill: #c0392b } .resumed { fill: #2e8b57 }
.away { fill: #f0b429; opacity: .3 } .axis { stroke: #999 } text { font-size: 12px; fill: #444 } td, th { padding: .2em 1em .2em 0; text-align: left }"""


class Timeline:
    """Of one process, or of all whose parts were added."""

    def __init__(self):
        self.seconds = collections.defaultdict(collections.Counter)

    def count(self, column, by):
        self.seconds[int(time.time())][column] += by

    def take(self):
        """What was counted since it was taken last, as what add() takes and JSON holds."""
        taken = {str(second): dict(counts) for second, counts in self.seconds.items()}
        self.seconds.clear()
        return taken

    def add(self, taken, now=None):
        """`now`: the second since the epoch. What is far from it comes from a machine whose clock is wrong, and counts
        now."""
        now = int(time.time()) if now is None else now
        for second, counts in taken.items():
            is_near = abs(int(second) - now) <= MAX_CLOCK_DIFFERENCE_S
            self.seconds[int(second) if is_near else now].update(counts)

    def rows(self):
        """[(second since the epoch, a number for each of COLUMNS)], without gaps."""
        if not self.seconds:
            return []
        return [(second, *(self.seconds[second][column] if second in self.seconds else 0 for column in COLUMNS))
                for second in range(min(self.seconds), max(self.seconds) + 1)]

    def write(self, path):
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["unix time in s", *COLUMNS])
            writer.writerows(self.rows())


def read(path):
    """The rows of a file that write() made."""
    with open(path, newline="", encoding="utf-8") as file:
        return [tuple(int(cell) for cell in row) for row in list(csv.reader(file))[1:]]


def draw(rows, absences):
    """An HTML page. `absences`: [(name, begin, end)] in seconds since the epoch, when a part did not serve."""
    begin, end = rows[0][0], rows[-1][0] + 1
    most_bytes = max(max(row[1] for row in rows), 1)
    most_streams = max(max(max(row[2:]) for row in rows), 1)

    def x(second):
        return MARGIN + (min(max(second, begin), end) - begin) * (WIDTH - 2 * MARGIN) / (end - begin)

    def chart(title, highest, shapes):
        away = [f'<rect class="away" x="{x(first):.1f}" y="20" width="{max(x(last) - x(first), 1):.1f}" '
                f'height="{HEIGHT - 40}"><title>{html.escape(name)} restarts</title></rect>'
                for name, first, last in absences]
        times = [f'<text x="{x(second):.0f}" y="{HEIGHT - 4}" text-anchor="middle">{second - begin} s</text>'
                 for second in range(begin, end, max(1, (end - begin) // 12))]
        axis = (f'<line class="axis" x1="{MARGIN}" y1="{HEIGHT - 20}" x2="{WIDTH - MARGIN}" y2="{HEIGHT - 20}"/>'
                f'<text x="{MARGIN - 6}" y="28" text-anchor="end">{highest}</text>'
                f'<text x="{MARGIN - 6}" y="{HEIGHT - 20}" text-anchor="end">0</text>')
        return (f"<h3>{title}</h3><svg viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}'>"
                f"{''.join(away)}{axis}{''.join(times)}{''.join(shapes)}</svg>")

    def y(value, highest):
        return HEIGHT - 20 - value * (HEIGHT - 40) / highest

    line = " ".join(f"{x(edge):.1f},{y(row[1], most_bytes):.1f}" for row in rows for edge in (row[0], row[0] + 1))
    bar = (x(begin + 1) - x(begin)) / 2
    bars = [f'<rect class="{kind}" x="{x(row[0]) + place * bar:.1f}" y="{y(row[2 + place], most_streams):.1f}" '
            f'width="{bar:.1f}" height="{row[2 + place] * (HEIGHT - 40) / most_streams:.1f}"/>'
            for row in rows for place, kind in enumerate(["lost", "resumed"]) if row[2 + place]]
    restarts = "".join(f"<tr><td>{html.escape(name)}</td><td>{first - begin:.1f} s</td><td>{last - first:.1f} s</td></tr>"
                       for name, first, last in absences)
    table = f"<h3>Restarts</h3><table><tr><th>part</th><th>at</th><th>until it served</th></tr>{restarts}</table>"
    return (f"<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>kerf under load, second by second</title>"
            f"<style>{STYLE}</style><h2>kerf under load, second by second</h2>"
            + chart("MiB answered in each second; yellow: a part restarts", f"{most_bytes / 2**20:.0f}",
                    [f'<polyline class="rate" points="{line}"/>'])
            + chart("streams lost (red) and resumed (green) in each second", most_streams, bars)
            + (table if absences else "") + "</html>\n")
