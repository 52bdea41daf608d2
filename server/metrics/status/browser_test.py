#!/usr/bin/env python3
"""The status page in a browser without a screen, beside what the port says.

    server/metrics/status/browser_test.py [--programs out] [--screenshot FILE.png]

Starts kerfds of its own on loopback, backs up through them, lets Chromium run the page and reads what it has made.
"""

import argparse
import html.parser
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

STATUS = Path(__file__).resolve().parent
PROGRAMS = STATUS.parents[2] / "out"
SCREENSHOT = None
BROWSERS = ("chromium-headless-shell", "chromium")
WAIT_SECONDS = 60
# In the page's own time, which goes as fast as answers come: some polls.
PAGE_MS = 9_000


class Page(html.parser.HTMLParser):
    """The page as it is in the end: texts of elements by id, and the rows of each card."""

    def __init__(self, source):
        super().__init__()
        self.texts, self.cards, self.tags = {}, {}, []
        self._stack, self._term = [], None
        self.feed(source)

    VOID = {"meta", "link", "br", "img", "input", "hr"}

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if tag not in self.VOID:
            self._stack.append((tag, attributes.get("id"), attributes.get("class") or ""))

    def handle_endtag(self, tag):
        while self._stack and self._stack.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for tag, name, kind in self._stack:
            if name:
                self.texts[name] = self.texts.get(name, "") + data
        section = next((name for tag, name, _ in self._stack if tag == "section"), None)
        if not section or not self._stack:
            return
        card = self.cards.setdefault(section, {})
        tag, _, kind = self._stack[-1]
        if tag == "dt":
            self._term = data
        elif tag == "dd":
            card[self._term] = (data, kind)
        elif tag == "p":
            card["large"] = (data, kind)

    def row(self, card, name):
        return self.cards[card][name][0]


def browser():
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    sys.exit("there is no Chromium: tools/deps test installs chromium-headless-shell")


class World(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kerf-status-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.count = 0

    def kerfd(self, *arguments):
        """A kerfd; returns (its URL, the address of its service)."""
        self.count += 1
        own = self.folder / f"kerfd{self.count}"
        own.mkdir()
        ready, metrics, log = own / "ready", own / "metrics", (own / "log").open("w")
        process = subprocess.Popen(
            [PROGRAMS / "kerfd", "--listen", f"unix:{own}/s", "--ready-file", ready, "--metrics-listen", "127.0.0.1:0",
             "--metrics-ready-file", metrics, *arguments], stderr=log)
        log.close()
        self.addCleanup(lambda: (process.kill(), process.wait()))
        end = time.monotonic() + WAIT_SECONDS
        while not (ready.exists() and metrics.exists()):
            self.assertIsNone(process.poll(), (own / "log").read_text())
            self.assertLess(time.monotonic(), end, "kerfd does not start")
            time.sleep(0.05)
        return f"http://{metrics.read_text().strip()}/", f"unix:{own}/s"

    def kerf(self, *arguments):
        done = subprocess.run([PROGRAMS / "kerf", *arguments], cwd=self.folder, capture_output=True, text=True,
                              env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"}, timeout=WAIT_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)

    def browse(self, url, *arguments):
        """What Chromium says of the page; (standard output, what the page's console said)."""
        done = subprocess.run(
            [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
             "--no-first-run", "--hide-scrollbars", "--enable-logging=stderr", "--lang=en-US", f"--user-data-dir={self.folder}/browser",
             f"--virtual-time-budget={PAGE_MS}", *arguments, url],
            capture_output=True, text=True, timeout=WAIT_SECONDS, env={**os.environ, "HOME": str(self.folder)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    def page(self, url):
        source, console = self.browse(url, "--dump-dom")
        self.assertEqual(console, [], "the page's console")
        return Page(source)


def metrics_of(url):
    with urllib.request.urlopen(url + "metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"([^#\s]+) (\S+)", line):
            found[match[1]] = float(match[2])
    return found


class StatusPage(World):
    def back_up_twice(self, server):
        (self.folder / "tree").mkdir()
        (self.folder / "tree/file").write_bytes(os.urandom(8_000_000))
        for store in ("one", "two"):
            # Another store with the same identity: the index knows it all the second time.
            if store == "two":
                shutil.copytree(self.folder / "one", self.folder / "two")
                (self.folder / "tree/file2").write_bytes((self.folder / "tree/file").read_bytes())
            self.kerf("backup", "tree", "--store", store, "--server", server)

    def test_shows_what_the_metrics_say(self):
        url, server = self.kerfd("--data-dir", str(self.folder / "index"))
        self.back_up_twice(server)
        # What the index counts, it counts every ten seconds.
        end = time.monotonic() + WAIT_SECONDS
        while not metrics_of(url).get("kerf_index_entries"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.2)
        page, said = self.page(url), metrics_of(url)
        self.assertEqual(page.texts["state"], "ready")
        self.assertRegex(page.texts["about"], r"^\d+\.\d+\.\d+\S*, role all, started \d+ s ago$")
        self.assertEqual(set(page.cards), {"throughput", "deduplication", "sizes", "index", "memory", "waits", "process"})
        known = said['kerf_chunk_bytes_total{verdict="duplicate"}']
        total = sum(said[f'kerf_chunk_bytes_total{{verdict="{verdict}"}}'] for verdict in ("new", "duplicate", "unverified"))
        self.assertGreater(known, 8_000_000)
        self.assertEqual(page.row("deduplication", "large"), f"{100 * known / total:.1f} %")
        chunks = said["kerf_chunk_size_bytes_count"]
        self.assertEqual(page.row("sizes", "chunks since the start"), f"{chunks:,.0f}")
        self.assertAlmostEqual(float(page.row("sizes", "large").split()[0]), said["kerf_chunk_size_bytes_sum"] / chunks / 1024, delta=0.1)
        self.assertEqual(page.row("index", "large"), f"{said['kerf_index_entries']:,.0f} entries")
        self.assertEqual(page.row("index", "highest epoch"), f"{said['kerf_index_epoch']:,.0f}")
        self.assertEqual(page.row("index", "takes commits"), "yes")
        self.assertEqual(page.row("throughput", "streams"), f"0 of {said['kerf_max_streams']:,.0f}")
        self.assertEqual(page.row("throughput", "large"), "0 B/s", "nothing has gone on while it looked")
        self.assertEqual(page.row("waits", "large"), "nothing waits")
        self.assertIn(f"of {said['process_max_fds']:,.0f}", page.row("process", "open files"))
        bars = [attributes for tag, attributes in page.tags if tag == "rect"]
        self.assertGreaterEqual(len(bars), 3)
        self.assertLessEqual(max(float(bar["height"]) for bar in bars), 36)

    def port(self, metrics):
        """Its URL: the page, and at /metrics what metrics() says, or no answer for None."""
        types = {"html": "text/html; charset=utf-8", "js": "text/javascript", "css": "text/css", "txt": "text/plain"}

        class Port(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = {"/": "status.html", "/status.js": "status.js", "/status.css": "status.css"}.get(self.path, "x.txt")
                body = b"ready\n" if name == "x.txt" else (STATUS / name).read_bytes()
                if self.path == "/metrics":
                    body = metrics()
                if body is None:
                    self.close_connection = True
                    return
                self.send_response(200)
                self.send_header("Content-Type", types[name.split(".")[1]])
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        port = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Port)
        self.addCleanup(port.server_close)
        threading.Thread(target=port.serve_forever, daemon=True).start()
        self.addCleanup(port.shutdown)
        return f"http://127.0.0.1:{port.server_address[1]}/"

    def test_a_rate_is_of_what_has_come_meanwhile(self):
        """50 MB more each time that it is asked, and things that are none."""
        asked = []

        def metrics():
            asked.append(time.monotonic())
            return (f'kerf_build_info{{version="<b>9</b>",role="\\"a\\\\ll"}} 1\nprocess_start_time_seconds 5\n'
                    f'kerf_ingest_bytes_total {50_000_000 * len(asked)}\nkerf_streams 3\nkerf_max_streams 9\n'
                    'kerf_stalled_streams{place="<img src=x onerror=alert(1)>"} 2\n'
                    'nonsense\nkerf_x{ 3\n').encode()

        page = self.page(self.port(metrics))
        self.assertGreaterEqual(len(asked), 3)
        # The last answer may have come when the page was read.
        self.assertIn(page.row("throughput", "since the start"), {f"{50 * count} MB" for count in (len(asked), len(asked) - 1)})
        # 50 MB in each of the page's two seconds, which are shorter than those of the machine.
        amount, unit = re.fullmatch(r"([\d.]+) (\w+)/s", page.row("throughput", "large")).groups()
        self.assertEqual(unit, "MB")
        self.assertTrue(20 <= float(amount) <= 26, amount)
        self.assertEqual(page.row("throughput", "streams"), "3 of 9")
        self.assertTrue(page.texts["about"].startswith('<b>9</b>, role "a\\ll, '), page.texts["about"])
        self.assertEqual(page.row("waits", "waits for <img src=x onerror=alert(1)>"), "2")
        self.assertNotIn("img", [tag for tag, _ in page.tags])

    def test_a_kerfd_that_was_started_anew_counts_from_nothing(self):
        asked = []

        def metrics():
            asked.append(0)
            # After the second answer it is another process.
            start, total = (5, 8_000_000_000 * len(asked)) if len(asked) <= 2 else (6, 20_000_000 * len(asked))
            return f"process_start_time_seconds {start}\nkerf_ingest_bytes_total {total}\n".encode()

        page = self.page(self.port(metrics))
        self.assertGreaterEqual(len(asked), 4)
        amount, unit = re.fullmatch(r"([\d.]+) (\w+)/s", page.row("throughput", "large")).groups()
        self.assertEqual(unit, "MB", "the fall from one process to the next is no rate")
        self.assertTrue(8 <= float(amount) <= 11, amount)

    def test_says_that_nobody_answers_any_more(self):
        asked = []

        def metrics():
            asked.append(0)
            return b"process_start_time_seconds 5\nkerf_ingest_bytes_total 7\n" if len(asked) <= 2 else None

        source, _ = self.browse(self.port(metrics), "--dump-dom")
        page = Page(source)
        self.assertEqual(page.texts["state"], "no answer")
        self.assertIn("kerfd does not answer", page.texts["trouble"])
        self.assertEqual(page.row("throughput", "since the start"), "7 B", "what was last seen stays")

    def test_says_why_it_is_not_ready(self):
        """A front whose worker is not there: workers, no index, and the reason of /readyz."""
        url, _ = self.kerfd("--role", "front", "--workers", f"unix:{self.folder}/nobody")
        page = self.page(url)
        self.assertEqual(page.texts["state"], "not ready")
        self.assertIn("not ready: ", page.texts["trouble"])
        self.assertEqual(page.row("workers", "large"), "0 live")
        self.assertEqual(page.cards["workers"]["lost"], ("1", "bad"))
        self.assertNotIn("index", page.cards)

    def test_asks_nobody_else(self):
        for name in ("status.html", "status.css", "status.js"):
            text = (STATUS / name).read_text()
            foreign = [link for link in re.findall(r"(?:https?:)?//[\w.]+\S*", text)
                       if not link.startswith(("http://www.w3.org/2000/svg", "// "))]
            self.assertEqual(foreign, [], name)
            self.assertNotRegex(text, r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", name)

    def test_can_be_looked_at(self):
        url, server = self.kerfd("--data-dir", str(self.folder / "index"))
        self.back_up_twice(server)
        picture = Path(SCREENSHOT or self.folder / "status.png").resolve()
        self.browse(url, f"--screenshot={picture}", "--window-size=1180,900")
        data = picture.read_bytes()
        self.assertTrue(data.startswith(b"\x89PNG"))
        self.assertGreater(len(data), 10_000, "an empty picture")


def main():
    global PROGRAMS, SCREENSHOT
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, default=PROGRAMS, help="where kerf and kerfd lie")
    parser.add_argument("--screenshot", help="keep the picture here")
    known, rest = parser.parse_known_args()
    PROGRAMS, SCREENSHOT = known.programs.resolve(), known.screenshot
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
