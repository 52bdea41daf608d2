#!/usr/bin/env python3
"""Speeds of kerf's kernels and of public implementations on one thread, measured by turns.

Called by tools/compare_kernels. Each figure is the best of all rounds, from memory.
"""

import argparse
import datetime
import json
import subprocess
import sys

OPENSSL = "openssl"
# What kerf calls it, and whose peer it is measured against.
ROWS = [("blake3", "crate blake3"), ("sha256", "OpenSSL"), ("fastcdc2020-8k", "crate fastcdc"),
        ("mincdc-8k", "crate mincdc")]


def json_lines(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class Best:
    """The fastest figure of each name, with its backend."""

    def __init__(self):
        self.figures = {}

    def add(self, name, speed, backend):
        if speed > self.figures.get(name, (0, ""))[0]:
            self.figures[name] = (speed, backend)


def measure(options):
    kerf, peers = Best(), Best()
    bench = [options.kerf, "bench", "kernels", "--json", "--size", f"{options.size}M",
             "--rounds", "1", "--algorithm", *(name for name, _ in ROWS)]
    for _ in range(options.rounds):
        for line in json_lines(bench):
            if line["message_type"] != "figure" or line["source"] != "dram":
                continue
            # kerf's own measurement of the library.
            of = peers if line["backend"] == OPENSSL else kerf
            of.add(line["name"], line["bytes_per_second"], line["backend"])
        for line in json_lines([options.peers, str(options.size)]):
            peers.add(line["peer"], line["bytes_per_second"], "")
    return kerf, peers


def main():
    parser = argparse.ArgumentParser(prog="tools/compare_kernels", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="each figure is the best of so many")
    parser.add_argument("--size", type=int, default=64, metavar="MIB", help="bytes of a pass")
    parser.add_argument("--json", action="store_true", help="lines of JSON in place of a table")
    parser.add_argument("--kerf", help=argparse.SUPPRESS)
    parser.add_argument("--peers", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rounds < 1 or not 1 <= options.size <= 4096:
        parser.error("--rounds is at least 1, and --size from 1 to 4096")
    kerf, peers = measure(options)
    if not options.json:
        print(f"{datetime.date.today()}, one thread, {options.size} MiB of random bytes in memory, "
              f"best of {options.rounds}")
        print(f"{'kernel':16} {'kerf':>10} {'backend':12} {'peer':>10} {'':14} ratio")
    for name, peer_name in ROWS:
        if name not in kerf.figures:
            print(f"{name}: kerf has no kernel of its own on this processor", file=sys.stderr)
            continue
        speed, backend = kerf.figures[name]
        peer_speed = peers.figures[name][0]
        if options.json:
            print(json.dumps({"kernel": name, "kerf_bytes_per_second": speed, "backend": backend,
                              "peer": peer_name, "peer_bytes_per_second": peer_speed,
                              "ratio": speed / peer_speed}))
        else:
            print(f"{name:16} {speed / 1e9:6.2f} GB/s {backend:12} {peer_speed / 1e9:6.2f} GB/s "
                  f"{peer_name:14} {speed / peer_speed:.2f}")


if __name__ == "__main__":
    main()
