#!/usr/bin/env python3
"""Backups of one large file with the index in a Redis Cluster of this machine, three masters with a replica
each: the first, then a version with seeded insertions, then that version once more. kerfd, agent and Redis
share the machine's processors; times are those of `kerf backup --force`, medians of rounds.

Every version is restored and compared before its time counts."""

import argparse
import filecmp
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import quickstart
from processes import cpu_seconds

STEPS = ["first", "edited", "unchanged"]
MAX_INSERT_BYTES = 64
# What a backup of one file stores beside its content.
MAX_METADATA_BYTES = 64 * 1024
MIB = 1024 * 1024


def make_tar(trees, path, max_bytes):
    """An archive of the trees, cut off behind max_bytes: what is measured is one file."""
    with open(path, "wb") as out:
        tar = subprocess.Popen(["tar", "--create", *trees], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        left = max_bytes
        while left > 0 and (block := tar.stdout.read(min(left, MIB))):
            out.write(block)
            left -= len(block)
        tar.kill()
        tar.wait()
    if path.stat().st_size == 0:
        sys.exit(f"bench_redis: nothing to read in {' '.join(trees)}")


def insert(source, target, count, seed):
    """A copy with `count` insertions of a few bytes, anywhere."""
    choose = random.Random(seed)
    content = source.read_bytes()
    last = 0
    with open(target, "wb") as out:
        for position in sorted(choose.randrange(len(content) + 1) for _ in range(count)):
            out.write(content[last:position])
            out.write(choose.randbytes(choose.randint(1, MAX_INSERT_BYTES)))
            last = position
        out.write(content[last:])


def measure(work, versions, profile, address, server_pid):
    """A backup of each version at one path into a new store; what each said, and kerfd's CPU seconds."""
    store, file, target = work / "store", work / "source" / "file.tar", work / "restored"
    file.parent.mkdir(exist_ok=True)
    results = []
    last = None
    for version in versions:
        if version != last:
            shutil.copyfile(version, file)
            # Or the store's fsync waits for this copy, too, where a file system orders its journal.
            os.sync()
        last = version
        before = cpu_seconds(server_pid)
        summary = quickstart.kerf_json(["backup", "--force", str(file), "--store", str(store), "--server", address,
                                        "--profile", profile])
        cpu = cpu_seconds(server_pid) - before
        quickstart.kerf_json(["restore", "latest", "--store", str(store), "--target", str(target)])
        if not filecmp.cmp(target / str(file).lstrip("/"), version, shallow=False):
            sys.exit(f"bench_redis: what was restored is not what was backed up: {version}")
        shutil.rmtree(target)
        results.append({"seconds": summary["seconds"], "server_cpu_seconds": cpu, "bytes": summary["total_bytes"],
                        "new_bytes": summary["new_bytes"], "new_chunks": summary["new_chunks"]})
    shutil.rmtree(store)
    if results[-1]["new_bytes"] > MAX_METADATA_BYTES:
        sys.exit(f"bench_redis: the unchanged version has new chunks: {results[-1]}")
    return results


def run(work, arguments):
    """Rows of medians."""
    first, edited = work / "first", work / "edited"
    make_tar(arguments.trees, first, arguments.max_mib * MIB)
    insert(first, edited, arguments.edits, arguments.seed)
    seeds = quickstart.redis_cluster(work, "up").split(",")
    index = [argument for seed in seeds for argument in ("--redis", seed)]
    servers = []
    try:
        hints = {"auto": [], "off": ["--hint-memory", "0"]}
        for name, flags in hints.items():
            servers.append((name, *quickstart.start_server(work, name, index + flags)))
        seen = {}
        for _ in range(arguments.rounds):
            for profile in arguments.profile:
                for name, server, address in servers:
                    results = measure(work, [first, edited, edited], profile, address, server.pid)
                    seen.setdefault((profile, name), []).append(results)
        rows = []
        for (profile, name), rounds in seen.items():
            row = {"profile": profile, "hints": name, "bytes": rounds[0][0]["bytes"]}
            for number, step in enumerate(STEPS):
                for key in ("seconds", "server_cpu_seconds"):
                    row[f"{step}_{key}"] = statistics.median(results[number][key] for results in rounds)
            row["edited_saved"] = 1 - rounds[0][1]["new_bytes"] / rounds[0][1]["bytes"]
            ratios = [results[0]["seconds"] / results[1]["seconds"] for results in rounds]
            row["edited_speedup"] = statistics.median(ratios)
            rows.append(row)
        return rows
    finally:
        for _, server, _ in servers:
            quickstart.stop_server(server)
        quickstart.redis_cluster(work, "down")


def print_table(rows):
    print(f"\n{rows[0]['bytes'] / 1e6:,.0f} MB; seconds of the backup, and of kerfd's CPU\n")
    print(f"{'profile':<14}{'hints':<7}" + "".join(f"{step:>17}" for step in STEPS) + f"{'saved':>9}{'first/edited':>14}")
    for row in rows:
        cells = "".join(f"{row[step + '_seconds']:>9.2f}  {row[step + '_server_cpu_seconds']:>6.2f}" for step in STEPS)
        print(f"{row['profile']:<14}{row['hints']:<7}{cells}{row['edited_saved']:>9.1%}{row['edited_speedup']:>14.2f}")


def main():
    parser = argparse.ArgumentParser(prog="tools/bench_redis", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", action="append", help="(repeatable; default: fastcdc-8k and mincdc-8k)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--edits", type=int, default=200, help="insertions of 1 to 64 bytes (default: 200)")
    parser.add_argument("--max-mib", type=int, default=256, help="of the archive (default: 256)")
    parser.add_argument("--seed", type=int, default=1, help="of the insertions")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("trees", nargs="*", metavar="TREE", default=quickstart.DEFAULT_TREES,
                        help=f"what the archive is made of (default: {' '.join(quickstart.DEFAULT_TREES)})")
    arguments = parser.parse_args()
    if min(arguments.rounds, arguments.max_mib) < 1 or arguments.edits < 0:
        parser.error("--rounds and --max-mib are at least 1, --edits at least 0")
    arguments.profile = arguments.profile or ["fastcdc-8k", "mincdc-8k"]
    os.umask(0o077)
    work = pathlib.Path(tempfile.mkdtemp(prefix="kerf-bench-", dir=os.environ.get("TMPDIR", "/var/tmp")))
    try:
        rows = run(work, arguments)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print_table(rows)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
