#!/usr/bin/env python3
"""Records what a release writes and says, for e2e/release_test.cc: stores, an index, and the messages between its
programs. README.md beside this says what is in the archive.

As root, with the binaries of the release: e2e/releases/record.py OUT/kerf OUT/kerfd e2e/releases/0.1.0.tar.gz
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))

import processes  # noqa: E402
import recording_proxy  # noqa: E402
import tree  # noqa: E402

# A snapshot says where its files were, so the place is always the same.
WORK = pathlib.Path("/tmp/kerf-release")
TREE = WORK / "tree"
RESULT = WORK / "result"
HOST = "kerf"
# One stream, so that calls have an order.
BACKUP = ["backup", TREE, "--streams", "1", "--host", HOST]


class Release:
    def __init__(self, kerf, kerfd):
        self._kerf, self._kerfd = kerf, kerfd

    def command(self, store, *arguments):
        return [self._kerf, *map(str, arguments), "--store", str(store), "--json"]

    def run(self, store, *arguments):
        return processes.run(self.command(store, *arguments)).stdout

    def serve(self, data_dir, *flags):
        """A server at a port of loopback."""
        return Server([self._kerfd, "--listen", "127.0.0.1:0", "--worker-name", HOST, "--backend", "scalar",
                       *(["--data-dir", str(data_dir)] if data_dir else []), *flags])


class Server:
    def __init__(self, command):
        self._ready = WORK / "ready"
        self._command = [*command, "--ready-file", str(self._ready)]

    def __enter__(self):
        self._ready.unlink(missing_ok=True)
        self._process = subprocess.Popen(self._command, cwd=WORK, stderr=subprocess.DEVNULL)
        processes.wait_until(self._ready.exists, 30, "kerfd serves", processes=[self._process])
        self.address = self._ready.read_text().split()[0]
        self.port = int(self.address.rpartition(":")[2]) if ":" in self.address else 0
        return self

    def __exit__(self, *_):
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(timeout=30) == 0


def write_log(proxy, name, service=""):
    """Of the calls of one service, or of all."""
    path = RESULT / "messages" / name
    path.parent.mkdir(exist_ok=True)
    wanted = {line.split()[1] for line in proxy.log.lines if line.startswith("call ") and service in line}
    assert wanted
    path.write_text("".join(line + "\n" for line in proxy.log.lines if line.split()[1] in wanted))


def keep_tree(version):
    """A copy that tar shall pack: cp keeps all that tar does."""
    (RESULT / "trees").mkdir(exist_ok=True)
    processes.run(["cp", "--archive", "--sparse=auto", str(TREE), str(RESULT / f"trees/{version}")])


def keep_lists(release, name):
    """What `kerf snapshots` and `kerf ls` say of a store."""
    folder = RESULT / "lists" / name
    folder.mkdir(parents=True)
    store = RESULT / "stores" / name
    (folder / "snapshots").write_text(release.run(store, "snapshots"))
    for snapshot in sorted((store / "snapshots").iterdir()):
        (folder / snapshot.stem).write_text(release.run(store, "ls", snapshot.stem))


def remember(name, version):
    """Which tree the newest snapshot of a store is of."""
    newest = max((RESULT / "stores" / name / "snapshots").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    with open(RESULT / "snapshots", "a", encoding="utf-8") as file:
        file.write(f"{name} {newest.stem} {version}\n")
    return newest


def interrupt_collection(release, server, store):
    """Kills a collection when it has planned, raised the epochs, and is about to make the index forget."""
    collections = []

    def kill(method):
        if method.endswith("/ForgetChunks"):
            collections[0].kill()
            # The call does not reach the server.
            raise ConnectionAbortedError

    with recording_proxy.RecordingProxy(server.port, on_call=kill) as proxy:
        # The proxy's thread needs the process only after the first calls.
        collections.append(subprocess.Popen(
            release.command(store, "gc", "--server", proxy.address, "--max-waste", "0.01"), stdout=subprocess.DEVNULL))
        assert collections[0].wait(timeout=60) == -signal.SIGKILL
    assert (store / "gc/plan").exists()


def record_stores(release, data_dir):
    stores = RESULT / "stores"
    with release.serve(data_dir) as server, recording_proxy.RecordingProxy(server.port) as proxy:
        there = ["--server", server.address]

        def collect(*flags):
            return json.loads(release.run(stores / "collected", "gc", *there, *flags).splitlines()[-1])

        for version in (1, 2, 3):
            if version > 1:
                tree.change(os.fsencode(TREE), version)
            keep_tree(version)
            release.run(stores / "plain", *BACKUP, "--server", proxy.address)
            remember("plain", version)
            release.run(stores / "collected", *BACKUP, *there, "--digest", "sha256", "--profile", "seqcdc-8k",
                        "--compression", "19")
            remember("collected", version)
            release.run(stores / "interrupted", *BACKUP, *there, "--digest", "xxh3-128", "--profile",
                        "fastcdc2020-4k", "--compression", "1")
            newest = remember("interrupted", version)
            if version == 1:
                oldest = newest
            if version == 2:
                # One that dies between two renames leaves its snapshot so.
                release.run(stores / "collected", "forget", "--keep-last", "1")
                assert collect("--max-waste", "0.01")["rewritten_packs"] > 0
        # Small packs, so that a collection merges them. The trees of these snapshots are not kept.
        for number in range(4):
            (TREE / "files/new").write_bytes(b"%d" % number * 1000)
            release.run(stores / "collected", *BACKUP, *there)
        release.run(stores / "collected", "forget", "--keep-last", "5")
        assert collect()["merged_packs"] > 0
        release.run(stores / "plain", "index", "stats", "--server", proxy.address)
        release.run(stores / "plain", "index", "check", "--server", proxy.address)
        write_log(proxy, "empty-index")
        release.run(stores / "interrupted", "forget", oldest.stem)
        interrupt_collection(release, server, stores / "interrupted")
    # What an agent leaves that dies between publishing and checking.
    newest.rename(stores / "interrupted/pending" / newest.name)


def record_further(release, data_dir):
    """Calls that need a past, on copies of what is kept."""
    store = WORK / "copy"
    shutil.copytree(RESULT / "stores/plain", store)
    with release.serve(data_dir) as server, recording_proxy.RecordingProxy(server.port) as proxy:
        there = ["--server", proxy.address]
        release.run(store, *BACKUP, *there, "--force")
        release.run(store, "index", "export", *there)
        release.run(store, "forget", "--keep-last", "1")
        release.run(store, "gc", *there, "--max-waste", "0.01")
        release.run(store, "index", "rebuild", *there)
        release.run(store, *BACKUP, *there)
        write_log(proxy, "kept-index")


def record_front(release):
    # The worker's address stands in an answer: relative, so that it is everywhere the same.
    (WORK / "server").mkdir()
    worker = release.serve(None, "--listen", "unix:server/worker.sock")
    with worker, release.serve(None, "--role", "front", "--workers", "unix:server/worker.sock") as front:
        with recording_proxy.RecordingProxy(front.port) as proxy:
            processes.run(release.command(WORK / "direct", *BACKUP, "--server", proxy.address, "--direct"))
            write_log(proxy, "front", "/kerf.v1.RoutingService/")


def pack(archive):
    for log in RESULT.glob("index/**/LOG*"):
        log.unlink()
    # Byte for byte the same for the same files.
    with open(archive, "wb") as out:
        tar = subprocess.Popen(["tar", "--create", "--format=posix", "--pax-option=delete=atime,delete=ctime",
                                "--sort=name", "--numeric-owner", "--sparse", "--xattrs", "--xattrs-include=*", "--acls",
                                "--directory", str(RESULT), "."], stdout=subprocess.PIPE)
        subprocess.run(["gzip", "-9n"], stdin=tar.stdout, stdout=out, check=True)
        assert tar.wait() == 0


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    if "KERF_RECORDS" not in os.environ:
        # RocksDB writes the machine's name down.
        os.environ["KERF_RECORDS"] = "1"
        os.execvp("unshare", ["unshare", "--uts", sys.executable, "-B", *sys.argv])
    socket.sethostname(HOST)
    kerf, kerfd, archive = (str(pathlib.Path(argument).resolve()) for argument in sys.argv[1:])
    WORK.mkdir()
    try:
        RESULT.mkdir()
        tree.make(TREE)
        release = Release(kerf, kerfd)
        data_dir = RESULT / "index"
        record_stores(release, data_dir)
        for name in ("plain", "collected", "interrupted"):
            keep_lists(release, name)
        shutil.copytree(data_dir, WORK / "data")
        record_further(release, WORK / "data")
        record_front(release)
        pack(archive)
    finally:
        shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
