#!/usr/bin/env python3
"""One front and one, two, three workers on this machine, with a Redis Cluster (tools/cluster): how fast `kerf bench
service` uploads through the front, and the CPU seconds a GB (10^9 bytes) of each part. All of it, the client
included, shares the machine's processors: with more workers than processors the rate does not grow, and what this
shows is what a worker more costs.

Then: which shard keys move when one of N workers is lost, and when one comes, asked of the front (Locate)."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools/python"))

import cluster
import settings
import wire
from processes import cpu_seconds, wait_until

PARTS = {"fronts": "front", "workers": "workers", "redis": "Redis"}
ONE_MIB = 1 << 20
LOCATE_TIMEOUT_S = 5
SETTLE_TIMEOUT_S = 30
POLL_S = 0.2


def parts_cpu(own):
    """Seconds so far."""
    found = json.loads(own.do("status", "--json"))
    return {name: sum(cpu_seconds(row["pid"]) for row in found[part]) for part, name in PARTS.items()}


def measure(own, options):
    """One run's figures."""
    before = parts_cpu(own)
    done = subprocess.run(
        [options.kerfd.with_name("kerf"), "bench", "service", "--json", "--server", own.fronts()[0], "--streams",
         str(options.streams), "--rounds", str(options.passes), "--size", f"{options.size_mib}M", "--idle-streams", "0",
         "--busy-streams", "0"], stdout=subprocess.PIPE, check=True)
    after = parts_cpu(own)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    summary = next(message for message in messages if message["message_type"] == "summary")
    row = next(row for row in summary["streams"][0]["rows"] if row["what"] == "kerfd")
    # One pass more than the rounds warms up.
    gigabytes = options.size_mib * ONE_MIB * (options.passes + 1) / 1e9
    figures = {name: (after[name] - before[name]) / gigabytes for name in after}
    return figures | {"client": row["client_cpu_seconds_per_gb"], "MB/s": row["mb_per_second"]}


def owners(front, keys):
    return [wire.locate(front, key, LOCATE_TIMEOUT_S) for key in keys]


def settled(front, keys, count):
    """The owners, once the front knows of `count` workers, and did all the while that it was asked."""
    last = None

    def settle():
        nonlocal last
        before, last = last, owners(front, keys)
        return last if len(set(last)) == count and last == before else None

    return wait_until(settle, SETTLE_TIMEOUT_S, f"loadtest/scaling: the front to see {count} workers", poll_s=POLL_S,
                      error=SystemExit)


def moves(own, options):
    """A line for each worker that was lost or has come."""
    front = own.fronts()[0]
    keys = [f"key-{number}" for number in range(options.keys)]
    before, count = settled(front, keys, options.workers), options.workers
    names = [f"worker-{number}" for number in range(1, options.workers + 1)]
    address = {row["name"]: row["address"] for row in json.loads(own.do("status", "--json"))["workers"]}
    steps = [("kill", name) for name in names[1:]] + [("start", name) for name in reversed(names[1:])]
    for verb, name in steps:
        own.do(verb, name)
        after_count = count - 1 if verb == "kill" else count + 1
        after = settled(front, keys, after_count)
        moved = [(old, new) for old, new in zip(before, after) if old != new]
        # The front knows workers of a static list by their addresses.
        strange = sum(address[name] != (old if verb == "kill" else new) for old, new in moved)
        ideal = 1 / max(count, after_count)
        print(f"{verb:<6} {name}: {count} -> {after_count} workers: {len(moved) / len(keys):.4f} of {len(keys)} keys moved "
              f"(one part in {max(count, after_count)} is {ideal:.4f}), {strange} of them that were not its own", flush=True)
        before, count = after, after_count


def main():
    parser = argparse.ArgumentParser(prog="loadtest/scaling", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=3, help="at most (default: 3)")
    parser.add_argument("--rounds", type=int, default=3, help="of all numbers of workers in turn (default: 3)")
    parser.add_argument("--passes", type=int, default=2, help="measured ones in a round (default: 2)")
    parser.add_argument("--streams", type=int, default=8, help="at once (default: 8)")
    parser.add_argument("--size-mib", type=int, default=256, help="of one pass (default: 256)")
    parser.add_argument("--keys", type=int, default=3000, help="that are asked for; 0: none (default: 3000)")
    parser.add_argument("--kerfd", type=pathlib.Path, default=ROOT / "out" / "kerfd",
                        help="kerf lies beside it (default: out/kerfd)")
    options = parser.parse_args()
    options.kerfd = options.kerfd.absolute()
    seen = {}
    with tempfile.TemporaryDirectory(prefix="kerf-scaling-", dir="/var/tmp") as work:
        for _ in range(options.rounds):
            for count in range(1, options.workers + 1):
                with cluster.own(settings.Cluster(workers=count, fronts=1), options.kerfd, work, work) as own:
                    seen.setdefault(count, []).append(measure(own, options))
        columns = ["MB/s", "client", "front", "workers", "Redis"]
        if seen:
            print(f"medians of {options.rounds} rounds; CPU seconds a GB\n{'workers':>7}"
                  + "".join(f"{column:>9}" for column in columns))
        for count, rounds in seen.items():
            middle = {column: statistics.median(figures[column] for figures in rounds) for column in columns}
            print(f"{count:>7}" + f"{middle['MB/s']:>9.0f}" + "".join(f"{middle[column]:>9.2f}" for column in columns[1:]))
        if options.keys:
            with cluster.own(settings.Cluster(workers=options.workers, fronts=1), options.kerfd, work, work) as own:
                moves(own, options)


if __name__ == "__main__":
    main()
