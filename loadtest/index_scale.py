#!/usr/bin/env python3
"""What a collection asks of an index in Redis, beside lookups, at a size that no test fills: three masters on this
machine and one kerfd, filled with made-up chunks of one repository.

Each step says how long it took, the longest time that a Redis gave no answer meanwhile (a PING each 10 ms to each
node, over a connection of its own), and the 99th percentile of lookups beside it, and for some seconds behind; the row
behind the filling has those of lookups alone. Lookups are of random chunks that are there, --batch in a call, one call
after the other. All share the machine's processors.

What must hold: every step ends and has its count; no Redis is without an answer for more than 2 s; the 99th
percentile of lookups is at most twice that of lookups alone; no chunk that is there is NEW to a lookup. Where one
does not, the exit code is 1.

Redis takes some 70 bytes a chunk: 1 GB at 12M, 8 GB at 100M (and 1.3 times that on the disk with --appendonly).
"""

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools/python"))

import grpc
import processes
import wire

REDIS_CLUSTER = ROOT / "tools/redis-cluster"
MASTERS = 3
REPOSITORY = {"repository": "scale", "digest_algorithm": wire.DIGEST_ALGORITHMS["blake3"]}
CHUNK_BYTES = 8192
LOCATOR_BYTES = 20
# As the agent sends them.
ENTRIES_A_CALL = 4096
SCAN_PAGE = 16_384
OLDER_PAGE = 65_536
START_TIMEOUT_S = 60
# As Redis has it unless told: a node that is silent is to be measured, not replaced.
NODE_TIMEOUT_MS = 15_000
# Of one attempt: more than kerfd's own (--index-timeout-ms).
CALL_TIMEOUT_S = 90
AGAIN_S = 0.5
PING_S = 0.01
MAX_SILENCE_S = 2.0
MAX_SLOWER = 2.0
SUFFIXES = {"k": 1000, "M": 1_000_000}
STEPS = ["epoch", "stats", "forget", "epoch-again", "forget-older", "check", "rebuild"]


def digest(number):
    return hashlib.blake2b(number.to_bytes(8, "big"), digest_size=32).digest()


def entries(numbers):
    return [wire.IndexEntry(digest=digest(number), length_bytes=CHUNK_BYTES,
                            locator=number.to_bytes(LOCATOR_BYTES, "big")) for number in numbers]


def percentile(sorted_values, share):
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))] if sorted_values else 0.0


class Patient:
    """Calls of the Index service, made again for as long as they may be; how often is counted."""

    def __init__(self, address, patience_s):
        self.address, self.patience_s, self.repeats = address, patience_s, 0

    def __call__(self, name, **fields):
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                return wire.index_call(self.address, name, CALL_TIMEOUT_S, repository=REPOSITORY, **fields)
            except grpc.RpcError as error:
                again = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED,
                                         grpc.StatusCode.RESOURCE_EXHAUSTED)
                if not again or time.monotonic() > deadline:
                    raise processes.Failed(f"{name}: {error.code().name}: {error.details()}") from error
            self.repeats += 1
            time.sleep(AGAIN_S)


# Processes of their own: what they measure is not this one's.


def commit_part(address, patience_s, epoch, first, end):
    call = Patient(address, patience_s)
    for begin in range(first, end, ENTRIES_A_CALL):
        call("CommitChunks", store_epoch=epoch, entries=entries(range(begin, min(end, begin + ENTRIES_A_CALL))))


def watch_node(host, port, pipe):
    """Asks a node whether it answers; says the longest time that it has taken when it is asked."""
    longest = 0.0
    with socket.create_connection((host, port)) as connection:
        while True:
            began = time.monotonic()
            connection.sendall(b"PING\r\n")
            if not connection.recv(64).startswith(b"+PONG"):
                raise processes.Failed(f"Redis at {host}:{port}: no PONG")
            longest = max(longest, time.monotonic() - began)
            if pipe.poll():
                if pipe.recv() == "end":
                    return
                pipe.send(longest)
                longest = 0.0
            time.sleep(PING_S)


def look_up(address, batch, first, end, epoch, pipe):
    """Looks chunks up, from `first` on: those before may go. Says how long that has taken."""
    choose, seconds, counts = random.Random(1), [], {"NEW": 0, "UNVERIFIED": 0, "failed": 0}
    while True:
        numbers = [choose.randrange(first, end) for _ in range(batch)]
        digests = [digest(number) for number in numbers]
        began = time.monotonic()
        try:
            answers = wire.index_call(address, "LookupChunks", CALL_TIMEOUT_S, repository=REPOSITORY,
                                      store_epoch=epoch.value, digests=digests).answers
            seconds.append(time.monotonic() - began)
            counts["NEW"] += sum(answer.verdict == wire.NEW for answer in answers)
            counts["UNVERIFIED"] += sum(answer.verdict == wire.UNVERIFIED for answer in answers)
        except grpc.RpcError:
            counts["failed"] += 1
        if not pipe.poll():
            continue
        if pipe.recv() == "end":
            return
        pipe.send((sorted(seconds), counts))
        seconds, counts = [], dict.fromkeys(counts, 0)


class Child:
    """One of them, and a pipe to it."""

    def __init__(self, function, *arguments):
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=function, args=(*arguments, other), daemon=True)
        self.process.start()

    def take(self):
        try:
            self.pipe.send("take")
            return self.pipe.recv()
        except (EOFError, OSError) as error:
            raise processes.Failed(f"{self.process.name} has ended with exit code {self.process.exitcode}") from error

    def end(self):
        with contextlib.suppress(OSError):
            self.pipe.send("end")
        self.process.join(START_TIMEOUT_S)
        self.process.kill()


class Scale:
    def __init__(self, options, address, nodes):
        self.options, self.address = options, address
        self.call = Patient(address, options.patience_s)
        self.epoch = multiprocessing.Value("Q", 1)
        # Of the first ones; and from which on they are there.
        self.to_forget, self.first_left = options.chunks // 100, 0
        self.watchers = [Child(watch_node, host, port) for host, port in nodes]
        self.lookups = None
        self.rows, self.missed = [], []

    def expect(self, step, what, found, wanted):
        if found != wanted:
            self.missed.append(f"{step}: {what}: {found}, not {wanted}")

    def run(self, step, action):
        """A row: how long it took, and what others have seen meanwhile."""
        for child in self.watchers:
            child.take()
        if self.lookups is not None:
            self.lookups.take()
        self.call.repeats = 0
        began = time.monotonic()
        action()
        row = {"step": step, "seconds": time.monotonic() - began, "repeats": self.call.repeats}
        # What an epoch leaves to lookups counts, too; and few of them say nothing.
        if self.lookups is not None:
            time.sleep(max(0.0, self.options.watch_s - row["seconds"]))
        row["silence_s"] = max(child.take() for child in self.watchers)
        if self.lookups is not None:
            seconds, counts = self.lookups.take()
            row |= {"lookups": len(seconds), "p50_ms": percentile(seconds, 0.5) * 1000,
                    "p99_ms": percentile(seconds, 0.99) * 1000, "max_ms": percentile(seconds, 1) * 1000, **counts}
        self.rows.append(row)
        self.judge(row)
        say(row)

    def judge(self, row):
        step = row["step"]
        if row.get("NEW") or row.get("failed"):
            self.missed.append(f"{step}: of lookups {row['NEW']} chunks NEW that are there, {row['failed']} calls failed")
        if self.options.judge == "ends":
            return
        if row["silence_s"] > MAX_SILENCE_S:
            self.missed.append(f"{step}: a Redis gave no answer for {row['silence_s']:.2f} s (at most {MAX_SILENCE_S:.0f})")
        alone = next((other["p99_ms"] for other in self.rows if other["step"] == "lookups alone"), None)
        if alone and row.get("p99_ms", 0.0) > MAX_SLOWER * alone:
            self.missed.append(f"{step}: p99 of lookups {row['p99_ms']:.1f} ms; without: {alone:.1f}")

    def commit(self, first):
        """All from `first` on, in this epoch."""
        count = self.options.writers
        ends = [first + (self.options.chunks - first) * part // count for part in range(count + 1)]
        arguments = (self.address, self.options.patience_s, self.epoch.value)
        parts = [multiprocessing.Process(target=commit_part, args=(*arguments, *ends[part:part + 2]), daemon=True)
                 for part in range(count)]
        for part in parts:
            part.start()
        for part in parts:
            part.join()
        if any(part.exitcode for part in parts):
            raise processes.Failed("a process that fills the index has failed: see above")

    def tell_epoch(self):
        epoch = self.epoch.value + 1
        self.call("AdvanceEpoch", store_epoch=epoch, min_previous_epoch=epoch - 1 if epoch > 2 else 0)
        self.epoch.value = epoch

    def told(self):
        """The epoch that the index should have."""
        return self.epoch.value if self.epoch.value > 1 else 0

    def left(self):
        return self.options.chunks - self.first_left

    def stats(self, step):
        found = self.call("GetIndexStats")
        self.expect(step, "entries", found.entry_count, self.left())
        self.expect(step, "epoch", found.epoch, self.told())

    def forget(self):
        for begin in range(0, self.to_forget, ENTRIES_A_CALL):
            end = min(self.to_forget, begin + ENTRIES_A_CALL)
            gone = [wire.IndexEntry(digest=digest(number)) for number in range(begin, end)]
            self.expect("forget", "epoch", self.call("ForgetChunks", entries=gone).epoch, self.told())
        self.first_left = self.to_forget

    def forget_older(self, step, epoch):
        """Reads all there is; nothing is of an earlier epoch."""
        count, after = 0, b""
        while True:
            answer = self.call("ForgetOlderChunks", before_epoch=epoch, after=after, limit=OLDER_PAGE)
            count += answer.forgotten_count
            self.expect(step, "epoch", answer.epoch, self.told())
            after = answer.last
            if not after:
                break
        self.expect(step, "forgotten", count, 0)

    def scan(self):
        count, after = 0, b""
        while True:
            answer = self.call("ScanChunks", after=after, limit=SCAN_PAGE)
            count += len(answer.entries)
            after = answer.last
            if not after:
                break
        self.expect("check", "entries", count, self.left())

    def rebuild(self):
        self.tell_epoch()
        self.commit(self.first_left)
        self.forget_older("rebuild", self.epoch.value)
        self.tell_epoch()

    def fill(self):
        self.run("fill", lambda: self.commit(0))
        self.stats("fill")

    def measure(self):
        self.lookups = Child(look_up, self.address, self.options.batch, self.to_forget, self.options.chunks, self.epoch)
        self.run("lookups alone", lambda: time.sleep(self.options.watch_s))
        actions = {"epoch": self.tell_epoch, "stats": lambda: self.stats("stats"), "forget": self.forget,
                   "epoch-again": self.tell_epoch, "forget-older": lambda: self.forget_older("forget-older", 1),
                   "check": self.scan, "rebuild": self.rebuild}
        for step in self.options.steps:
            self.run(step, actions[step])
        self.stats("end")

    def end(self):
        for child in [*self.watchers, *filter(None, [self.lookups])]:
            child.end()


HEAD = f"{'step':<14}{'s':>9}{'again':>6}{'silent ms':>10}{'lookups':>9}{'p50 ms':>8}{'p99 ms':>8}{'max ms':>8}{'unverified':>11}"


def say(row):
    if row["step"] == "fill":
        print(HEAD, file=sys.stderr)
    line = f"{row['step']:<14}{row['seconds']:>9.2f}{row['repeats']:>6}{row['silence_s'] * 1000:>10.0f}"
    if "lookups" in row:
        line += (f"{row['lookups']:>9}{row['p50_ms']:>8.1f}{row['p99_ms']:>8.1f}{row['max_ms']:>8.1f}"
                 f"{row['UNVERIFIED']:>11}")
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def redis_nodes(work, options):
    """Their addresses."""
    tool = [REDIS_CLUSTER, "--dir", work / "redis"]
    log = "--appendonly" if options.appendonly else "--no-appendonly"
    try:
        up = processes.run([*tool, "up", "--masters", str(MASTERS), "--replicas", "0", "--node-timeout-ms",
                            str(NODE_TIMEOUT_MS), log], 2 * START_TIMEOUT_S)
        yield up.stdout.strip().split(",")
    finally:
        subprocess.run([*tool, "down"], check=False)


def memory_of(work):
    status = processes.run([REDIS_CLUSTER, "--dir", work / "redis", "status", "--json"], START_TIMEOUT_S)
    return [node["used_memory_bytes"] for node in json.loads(status.stdout)["nodes"]]


def measured(work, options):
    """The table, and what did not hold."""
    with redis_nodes(work, options) as nodes:
        ready = work / "ready"
        command = [options.kerfd, "--listen", "127.0.0.1:0", "--ready-file", ready, "--redis-replicas", "0",
                   "--redis-layout", str(options.layout), "--redis-expected-chunks", str(options.chunks),
                   *(flag for node in nodes for flag in ("--redis", node))]
        with processes.running(command, work / "kerfd.log") as kerfd:
            processes.wait_until(ready.exists, START_TIMEOUT_S, f"the start of {options.kerfd}", processes=[kerfd])
            pairs = [(host, int(port)) for host, _, port in (node.rpartition(":") for node in nodes)]
            scale = Scale(options, ready.read_text().split()[0], pairs)
            try:
                empty = memory_of(work)
                scale.fill()
                memory = memory_of(work)
                scale.measure()
            finally:
                scale.end()
    bytes_per_chunk = (sum(memory) - sum(empty)) / options.chunks
    return {"chunks": options.chunks, "layout": options.layout, "redis_bytes_per_chunk": bytes_per_chunk,
            "largest_node_bytes": max(memory), "steps": scale.rows, "missed": scale.missed}


def number(text):
    """12M, 100k or a plain number."""
    factor = SUFFIXES.get(text[-1:], 1)
    value = int(float(text[:-1] if factor > 1 else text) * factor)
    if value < 1000:
        raise argparse.ArgumentTypeError(f"'{text}': want 1000 at least, as 12M or 100k")
    return value


def steps_of(text):
    steps = text.split(",")
    if unknown := [step for step in steps if step not in STEPS]:
        raise argparse.ArgumentTypeError(f"no step {', '.join(unknown)}; there are {', '.join(STEPS)}")
    return [step for step in STEPS if step in steps]


def main():
    parser = argparse.ArgumentParser(prog="loadtest/index_scale", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=number, default=12_000_000, metavar="N", help="12M, 100k (default: 12M)")
    parser.add_argument("--layout", type=int, choices=[1, 2, 3], default=3, help="kerfd's --redis-layout (default: 3)")
    parser.add_argument("--steps", type=steps_of, default=STEPS, metavar="STEP,...",
                        help=f"behind the filling (default: {','.join(STEPS)})")
    parser.add_argument("--judge", choices=["all", "ends"], default="all",
                        help="ends: not how fast it is, for machines that do other work beside (default: all)")
    parser.add_argument("--writers", type=int, default=4, help="processes that fill the index (default: 4)")
    parser.add_argument("--batch", type=int, default=256, help="chunks of one lookup (default: 256)")
    parser.add_argument("--watch-s", type=float, default=10,
                        help="of lookups alone, and at least of those beside and behind each step (default: 10)")
    parser.add_argument("--patience-s", type=float, default=600,
                        help="so long a call is made again that the index did not answer in time (default: 600)")
    parser.add_argument("--appendonly", action="store_true", help="Redis writes its log")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/var/tmp"),
                        help="where Redis keeps its files (default: /var/tmp)")
    parser.add_argument("--kerfd", type=pathlib.Path, default=ROOT / "out/kerfd", help="default: out/kerfd")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    multiprocessing.set_start_method("spawn")
    # As Ctrl-C: what was started ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with tempfile.TemporaryDirectory(prefix="kerf-scale-", dir=options.work) as work:
            result = measured(pathlib.Path(work), options)
    except processes.Failed as error:
        sys.exit(f"loadtest/index_scale: {error}")
    print(f"{result['redis_bytes_per_chunk']:.1f} bytes of Redis a chunk; the largest node has "
          f"{result['largest_node_bytes'] / 1e9:.2f} GB", file=sys.stderr)
    for missed in result["missed"]:
        print(f"MISSED: {missed}", file=sys.stderr)
    if options.json:
        print(json.dumps(result))
    sys.exit(1 if result["missed"] else 0)


if __name__ == "__main__":
    main()
