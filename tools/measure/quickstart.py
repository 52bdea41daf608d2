#!/usr/bin/env python3
"""Shows kerf at work; called by tools/quickstart once out/kerf and out/kerfd are built.

Starts kerfd with the embedded index, backs up real trees, changes files in a copy, backs that up,
restores both, compares everything with diff and tar, prints a table, and stops the server.

With --redis the index is in a real Redis Cluster, three masters with a replica each. Two kerfd share it:
what the first has learned the second knows. In between a master is killed.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))

import processes

KERF = str(ROOT / "out" / "kerf")
KERFD = str(ROOT / "out" / "kerfd")
REDIS_CLUSTER = str(ROOT / "tools" / "redis-cluster")
DEFAULT_TREES = ["/usr/include", "/usr/share"]
CHANGED_SHARE = 0.03
START_TIMEOUT_S = 30
MIB = 1024 * 1024


def say(text):
    print(f"quickstart: {text}", flush=True)


def redis_cluster(work, *verb):
    """What tools/redis-cluster says to the verb."""
    result = subprocess.run([REDIS_CLUSTER, "--dir", str(work / "redis"), *verb], stdout=subprocess.PIPE, check=True)
    return result.stdout.decode().strip()


def start_server(work, name, index):
    """kerfd on a unix socket, with these flags for its index; returns (process, address)."""
    ready = work / f"{name}.ready"
    server = subprocess.Popen(
        [KERFD, "--listen", f"unix:{work}/{name}.sock", *index, "--ready-file", str(ready), "--log-level", "warning"])
    try:
        processes.wait_until(ready.exists, START_TIMEOUT_S, "the start of kerfd", processes=[server])
    except processes.Failed as error:
        server.kill()
        sys.exit(f"quickstart: {error}")
    return server, f"unix:{work}/{name}.sock"


def stop_server(server):
    if not processes.stop(server, START_TIMEOUT_S):
        say("kerfd did not stop in time and was killed")


def kerf_json(arguments):
    """Runs kerf with --json and returns its last summary message."""
    result = subprocess.run([KERF, "--json", *arguments], stdout=subprocess.PIPE, check=False)
    messages = [json.loads(line) for line in result.stdout.decode().splitlines()]
    if result.returncode != 0:
        for message in messages:
            if message["message_type"] in ("error", "warning"):
                print(json.dumps(message), file=sys.stderr)
        sys.exit(f"quickstart: kerf {arguments[0]} ended with {result.returncode}")
    return [message for message in messages if message["message_type"] == "summary"][-1]


def backup(trees, store, server):
    summary = kerf_json(["backup", *map(str, trees), "--store", str(store), "--server", server])
    return summary


def change_files(tree, seed=1):
    """Small edits in a share of the files: inserts, overwrites, new and removed files."""
    choose = random.Random(seed)
    files = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    for path in choose.sample(files, max(1, int(len(files) * CHANGED_SHARE))):
        content = path.read_bytes()
        position = choose.randrange(len(content) + 1)
        edit = choose.randbytes(choose.randint(1, 64))
        path.chmod(path.stat().st_mode | 0o200)
        path.write_bytes(content[:position] + edit + content[position:])
    for path in choose.sample(files, 10):
        path.unlink()
    for number in range(10):
        (tree / f"kerf-quickstart-new-{number}").write_bytes(choose.randbytes(20_000))
    return len(files)


def is_same(tree, copy):
    """Content by diff, everything else by tar; both are outside tools, and print what differs."""
    if subprocess.run(["diff", "-r", "--brief", "--no-dereference", str(tree), str(copy)], check=False).returncode != 0:
        return False
    archive = subprocess.Popen(["tar", "--create", "--xattrs", "-C", str(tree), "."], stdout=subprocess.PIPE)
    compared = subprocess.run(["tar", "--compare", "--xattrs", "-C", str(copy)], stdin=archive.stdout, check=False)
    archive.stdout.close()
    if archive.wait() != 0:
        sys.exit(f"quickstart: tar could not read {tree}")
    return compared.returncode == 0


def touched_since(tree, since_s):
    """What of the tree, its folders included, was written, renamed or made in or after that second of this machine's clock."""
    return [path for path in [tree, *sorted(tree.rglob("*"))] if path.lstat().st_ctime >= int(since_s)]


def compare(trees, restored, since_s):
    """Ends the show when a tree was not restored as it is now; says so when that tree is no longer what was backed up."""
    for tree in trees:
        copy = restored / str(tree).lstrip("/")
        if is_same(tree, copy):
            continue
        touched = touched_since(tree, since_s)
        if not touched:
            sys.exit(f"quickstart: {copy} is not what was backed up of {tree}: a fault of kerf")
        sys.exit(f"quickstart: {tree} was changed by another program while it was backed up ({len(touched)} paths, {touched[0]} one of "
                 "them), so that it cannot be compared; run this again, or name a tree that stays as it is")


def tree_bytes(path):
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def print_table(rows):
    columns = ["step", "files", "MiB", "new chunks", "saved", "time", "MiB/s"]
    table = [columns]
    for step, files, size, new_chunks, saved, seconds in rows:
        table.append([
            step, f"{files:,}", f"{size / MIB:,.0f}",
            "-" if new_chunks is None else f"{new_chunks:,}",
            "-" if saved is None else f"{saved:.1%}",
            f"{seconds:.2f} s", f"{size / MIB / seconds:,.0f}"])
    widths = [max(len(row[index]) for row in table) for index in range(len(columns))]
    print()
    for row in table:
        print("  ".join(cell.ljust(width) if index == 0 else cell.rjust(width)
                        for index, (cell, width) in enumerate(zip(row, widths))))
    print()


def run(work, trees, index, between):
    """The whole show; between() is called once all is backed up and before the edited copy is, and may return
    another server's address."""
    store = work / "store"
    server, address = start_server(work, "kerfd", index)
    rows = []
    since_s = time.time()
    try:
        for tree in trees:
            subprocess.run(["tar", "--create", "--file", "/dev/null", str(tree)], check=False,
                           stderr=subprocess.DEVNULL)  # warms the page cache
        say(f"backing up {' '.join(map(str, trees))}")
        first = backup(trees, store, address)
        again = backup(trees, store, address)

        say("changing files in a copy and backing that up")
        copies = []
        for index, tree in enumerate(trees):
            copy = work / "copy" / f"{index}-{tree.name}"
            copy.parent.mkdir(exist_ok=True)
            subprocess.run(["cp", "-a", str(tree), str(copy)], check=True)
            change_files(copy, seed=index + 1)
            copies.append(copy)
        changed = backup(copies, store, between() or address)

        for name, summary in [("first backup", first), ("unchanged backup", again), ("edited copy", changed)]:
            size = summary["total_bytes"]
            rows.append((name, summary["files"], size, summary["new_chunks"],
                         1 - summary["new_bytes"] / max(1, size), summary["seconds"]))

        for name, summary, originals in [("restore first", first, trees), ("restore edited", changed, copies)]:
            target = work / name.replace(" ", "-")
            say(f"{name} and compare with diff and tar")
            restored = kerf_json(["restore", summary["snapshot"], "--store", str(store), "--target", str(target)])
            compare(originals, target, since_s)
            rows.append((name, restored["files"], restored["bytes"], None, None, restored["seconds"]))
            shutil.rmtree(target)

        kerf_json(["verify", "--store", str(store), "--read-data"])
        print_table(rows)
        say(f"the store holds {tree_bytes(store) / MIB:,.0f} MiB; every file is identical")
    finally:
        stop_server(server)
    say("kerfd has stopped")


def run_with_redis(work, trees):
    others = []
    try:
        seeds = redis_cluster(work, "up").split(",")
        say(f"a Redis Cluster runs at {', '.join(seeds)}")
        index = [argument for seed in seeds for argument in ("--redis", seed)]

        def between():
            redis_cluster(work, "kill", "1")
            say("a master of Redis was killed; its replica takes over")
            server, address = start_server(work, "second", index)
            others.append(server)
            # Writes wait for a replica (--redis-replicas), and the one that was has become the master.
            redis_cluster(work, "start", "1")
            say("what was killed is back, as a replica")
            say("the edited copy goes to another kerfd, which shares the index")
            return address

        run(work, trees, index, between)
    finally:
        for server in others:
            stop_server(server)
        redis_cluster(work, "down")
    say("Redis has stopped")


def main():
    parser = argparse.ArgumentParser(prog="tools/quickstart", description=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--redis", action="store_true", help="keep the index in a Redis Cluster")
    parser.add_argument("trees", nargs="*", metavar="TREE", default=DEFAULT_TREES,
                        help=f"what to back up (default: {' '.join(DEFAULT_TREES)})")
    arguments = parser.parse_args()
    trees = [pathlib.Path(tree).resolve() for tree in arguments.trees]
    os.umask(0o077)
    work = pathlib.Path(tempfile.mkdtemp(prefix="kerf-quickstart-", dir=os.environ.get("TMPDIR", "/var/tmp")))
    try:
        if arguments.redis:
            run_with_redis(work, trees)
        else:
            run(work, trees, ["--data-dir", str(work / "kerfd")], lambda: None)
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", str(work)], check=False)
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
