#!/usr/bin/env python3
"""Speeds of kerf's kernels and of public implementations on one thread, measured by turns.

Called by tools/compare_kernels. Each figure is the best of all rounds, from memory; kerf and its peer
have as many tries. Of kerf's backends one is measured: the fastest of as many rounds before.
"""

import argparse
import collections
import datetime
import json
import subprocess
import sys

OPENSSL = "openssl"
# What kerf calls it, what the peer is called and whose it is, and what each does.
Row = collections.namedtuple("Row", "name peer owner what")
ROWS = [
    Row("blake3", "blake3", "crate blake3", "8 KiB; 64 chunks a call beside 1, all that it offers"),
    Row("blake3/1", "blake3", "crate blake3", "8 KiB; 1 chunk a call"),
    Row("sha256", OPENSSL, "OpenSSL", "8 KiB; 64 chunks a call beside 1, all that it offers"),
    Row("sha256/1", OPENSSL, "OpenSSL", "8 KiB; 1 chunk a call"),
    Row("fastcdc2020-8k", "fastcdc2020-8k", "crate fastcdc", "cuts"),
    Row("mincdc-8k", "mincdc-8k", "crate mincdc", "cuts"),
]


def json_lines(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def kerf_figures(options, *arguments):
    """From memory: (name, backend, bytes a second)."""
    bench = [options.kerf, "bench", "kernels", "--json", "--size", f"{options.size}M",
             *arguments]
    return [(line["name"], line["backend"], line["bytes_per_second"]) for line in json_lines(bench)
            if line["message_type"] == "figure" and line["source"] == "dram"]


def choose_backends(options):
    """For each row the backend of kerf that is fastest now; that time does not count."""
    fastest = {}
    names = [row.name for row in ROWS]
    rounds = ["--rounds", str(options.rounds)]
    for name, backend, speed in kerf_figures(options, *rounds, "--algorithm", *names):
        # kerf's own measurement of the library.
        if backend != OPENSSL and speed > fastest.get(name, (0, ""))[0]:
            fastest[name] = (speed, backend)
    return {name: backend for name, (_, backend) in fastest.items()}


def one_try(options, name, backend):
    figures = kerf_figures(options, "--rounds", "1", "--algorithm", name, "--backend", backend)
    return figures[0][2]


def measure(options):
    """The best speeds of each row: kerf's by name and its peer's by what that is called."""
    kerf, peers = collections.Counter(), collections.Counter()
    backends = choose_backends(options)
    for _ in range(options.rounds):
        for name, backend in backends.items():
            kerf[name] = max(kerf[name], one_try(options, name, backend))
        peers[OPENSSL] = max(peers[OPENSSL], one_try(options, "sha256/1", OPENSSL))
        for line in json_lines([options.peers, str(options.size)]):
            peers[line["peer"]] = max(peers[line["peer"]], line["bytes_per_second"])
    return backends, kerf, peers


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
    backends, kerf, peers = measure(options)
    if not options.json:
        print(f"{datetime.date.today()}, one thread, {options.size} MiB of random bytes in memory, "
              f"best of {options.rounds} tries each, by turns")
        print(f"{'kernel':16} {'kerf':>11} {'backend':12} {'peer':>11} {'':14} ratio  what")
    for row in ROWS:
        if row.name not in kerf:
            print(f"{row.name}: kerf has no kernel of its own on this processor", file=sys.stderr)
            continue
        speed, peer_speed = kerf[row.name], peers[row.peer]
        if options.json:
            print(json.dumps({"kernel": row.name, "kerf_bytes_per_second": speed,
                              "backend": backends[row.name], "peer": row.owner,
                              "peer_bytes_per_second": peer_speed, "ratio": speed / peer_speed,
                              "tries": options.rounds, "what": row.what}))
        else:
            print(f"{row.name:16} {speed / 1e9:6.2f} GB/s {backends[row.name]:12} "
                  f"{peer_speed / 1e9:6.2f} GB/s {row.owner:14} {speed / peer_speed:5.2f}  "
                  f"{row.what}")


if __name__ == "__main__":
    main()
