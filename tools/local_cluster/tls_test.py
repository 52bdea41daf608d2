#!/usr/bin/env python3
"""What is to be seen of a cluster on the wire: tools/local_cluster/tls_test.py [FOLDER OF kerf AND kerfd]. As root, who
may listen to loopback."""

import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "tools" / "cluster"
PROGRAMS = ROOT / "out"
TIMEOUT_S = 120
# Of a packet of loopback.
MAX_PACKET_BYTES = 70_000
BUFFER_BYTES = 64 << 20
ETH_P_ALL = 3


class Capture:
    """All that goes over loopback while it lasts, as tcpdump would see it."""

    def __init__(self, needles):
        self._needles, self.found, self.packets = needles, set(), 0
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        # SO_RCVBUFFORCE: nothing is to be missed.
        self._socket.setsockopt(socket.SOL_SOCKET, 33, BUFFER_BYTES)
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.1)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        # What is on its way.
        time.sleep(0.3)
        self._is_over.set()
        self._thread.join()
        self._socket.close()

    def _run(self):
        while not self._is_over.is_set():
            try:
                packet = self._socket.recv(MAX_PACKET_BYTES)
            except TimeoutError:
                continue
            self.packets += 1
            for needle in self._needles:
                if needle in packet:
                    self.found.add(needle)


class TlsTest(unittest.TestCase):
    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="kerf-tls-test-"))
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        self.folder = self.work / "cluster"
        self.addCleanup(self.run_verb, "down", "--now")
        # Of data, so often that each packet of it has one; and of metadata, which is cut and sent as well.
        self.marker = secrets.token_hex(24).encode()
        self.name = secrets.token_hex(24)
        (self.work / "tree").mkdir()
        (self.work / "tree" / self.name).write_bytes(b"".join(self.marker + secrets.token_bytes(50) for _ in range(20_000)))

    def run_verb(self, verb, *arguments):
        if verb == "up":
            arguments = ("--kerfd", PROGRAMS / "kerfd", "--kerf", PROGRAMS / "kerf", "--drain-ms", "1000", *arguments)
        return subprocess.run([CLUSTER, verb, "--dir", self.folder, *arguments], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)

    def do(self, verb, *arguments):
        done = self.run_verb(verb, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def environment(self):
        """As a shell has it behind eval "$(tools/cluster env)"."""
        text = self.do("env")
        done = subprocess.run(["/bin/sh", "-c", f"{text}\nenv -0"], capture_output=True, text=True, check=True,
                              env={"PATH": os.environ["PATH"]})
        return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)

    def kerf(self, environment, *arguments):
        return subprocess.run([PROGRAMS / "kerf", *arguments], capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S, env=environment)

    def seen(self, *flags):
        """What a listener sees of a backup and all that the cluster does for it."""
        self.do("up", "--workers", "2", "--fronts", "1", *flags)
        environment = self.environment()
        store = self.work / ("store" + "".join(flags))
        first = self.kerf(environment, "init", "--store", store)
        self.assertEqual(first.returncode, 0, first.stderr)
        stats = json.loads(self.kerf(environment, "stats", "--store", store, "--json").stdout.splitlines()[-1])
        repository = stats["repository"].encode()
        with Capture({self.marker, self.name.encode(), repository}) as capture:
            for direct in ((), ("--direct",)):
                done = self.kerf(environment, "backup", self.work / "tree", "--store", store, *direct)
                self.assertEqual(done.returncode, 0, done.stderr)
            done = self.kerf(environment, "gc", "--store", store)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(capture.packets, 100)
        return capture.found, {self.marker, self.name.encode(), repository}, environment

    def test_a_backup_over_tls_shows_nothing(self):
        found, everything, environment = self.seen("--tls")
        self.assertEqual(found, set())
        with self.subTest("nobody is served in the clear"):
            plain = {name: value for name, value in environment.items() if not name.startswith("KERF_TLS")}
            self.assertNotEqual(self.kerf(plain, "ping").returncode, 0)
        with self.subTest("nor without a certificate"):
            bare = {name: value for name, value in environment.items() if name not in ("KERF_TLS_CERT", "KERF_TLS_KEY")}
            self.assertNotEqual(self.kerf(bare, "ping").returncode, 0)
        with self.subTest("Redis neither"):
            state = json.loads(self.do("status", "--json"))
            host, port = state["redis"][0]["address"].split(":")
            done = subprocess.run(["redis-cli", "-h", host, "-p", port, "PING"], capture_output=True, text=True, check=False,
                                  timeout=TIMEOUT_S)
            self.assertNotIn("PONG", done.stdout)
        with self.subTest("the test would have seen it"):
            self.do("down", "--now")
            found, everything, _ = self.seen()
            self.assertEqual(found, everything)


if __name__ == "__main__":
    if len(sys.argv) > 1 and pathlib.Path(sys.argv[1]).is_dir():
        PROGRAMS = pathlib.Path(sys.argv.pop(1)).absolute()
    unittest.main()
