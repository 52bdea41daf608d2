"""Real agents, `kerf backup`, that back up again and again while there is trouble, and what became of it.

Each has a tree that changes between two backups and never during one, so that it is known what each snapshot
must hold."""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import threading
import time

# A backup takes about a second here. What meets fault after fault goes on behind each of them.
BACKUP_DEADLINE_S = 300
COMMAND_DEADLINE_S = 150
PAUSE_S = 0.3
SMALL_FILES = 24
SMALL_BYTES = 40_000
BIG_FILES = 3
EDITED_FILES = 4
FILLING = bytes(1 << 20)
EXIT_PARTIAL, EXIT_UNAVAILABLE, EXIT_FULL = 3, 5, 7


def manifest(tree):
    """{relative path: digest of the content}"""
    return {str(path.relative_to(tree)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(tree.rglob("*")) if path.is_file()}


class Agent:
    """Every other backup goes past the fronts. `fronts()` are the addresses to choose from; `may_be_full()`: whether its disk has been full since the call
    before."""

    def __init__(self, name, kerf, store, work, seed, fronts, big_bytes, may_be_full=lambda: False):
        self.name, self.kerf, self.store = name, kerf, store
        self.tree, self.work = work / f"{name}-tree", work
        self.fronts, self.big_bytes, self.may_be_full = fronts, big_bytes, may_be_full
        self.random = random.Random(f"{seed}/{name}")
        # Snapshot -> what it must hold.
        self.committed = {}
        self.exit_codes = {}
        self.longest_s = 0.0
        # Of backups that ended well: streams past a front, and all.
        self.direct_streams = self.streams = 0
        self._backups = 0
        self.problems = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self.tree.mkdir()
        for number in range(SMALL_FILES):
            self.write(f"small-{number}", self.random.randrange(SMALL_BYTES))
        for number in range(BIG_FILES):
            self.write(f"big-{number}", big_bytes)

    def write(self, name, size):
        (self.tree / name).write_bytes(self.random.randbytes(size))

    def next_day(self):
        self.write(f"big-{self.random.randrange(BIG_FILES)}", self.big_bytes)
        for _ in range(EDITED_FILES):
            file = self.random.choice(sorted(self.tree.iterdir()))
            content = file.read_bytes()
            place = self.random.randrange(len(content) + 1)
            file.write_bytes(content[:place] + self.random.randbytes(self.random.randint(1, 100)) + content[place:])

    def start(self):
        self._thread.start()

    def give_up(self):
        """After the backup that is under way."""
        self._ending.set()

    def join(self):
        self._thread.join()

    def _run(self):
        try:
            while not self._ending.is_set():
                self.back_up()
                self._ending.wait(self.random.uniform(0, PAUSE_S))
                self.next_day()
        except Exception as error:  # Whatever it is: an agent less than there should be.
            self.problem(repr(error))

    def problem(self, text):
        self.problems.append(f"{self.name}: {text}")
        print(f"faults: PROBLEM: {self.name}: {text}", flush=True)

    def run(self, *arguments, deadline_s=COMMAND_DEADLINE_S):
        """(exit code, messages); the code is None if it hung."""
        try:
            done = subprocess.run([self.kerf, "--json", *arguments, "--store", self.store], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=deadline_s, check=False)
        except subprocess.TimeoutExpired:
            self.problem(f"kerf {arguments[0]} was not done after {deadline_s} s")
            return None, []
        messages = []
        for line in done.stdout.splitlines():
            try:
                messages.append(json.loads(line))
            except ValueError:
                self.problem(f"kerf {arguments[0]} printed what is no JSON: {line[:200]}")
        return done.returncode, messages

    def back_up(self):
        """The exit code."""
        held = manifest(self.tree)
        self.may_be_full()
        began = time.monotonic()
        self._backups += 1
        direct = ["--direct"] if self._backups % 2 else []
        # It gives up by itself well before the deadline.
        code, messages = self.run("backup", str(self.tree), "--server", self.random.choice(self.fronts()),
                                  "--retry-for", "60s", *direct, deadline_s=BACKUP_DEADLINE_S)
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        self.exit_codes[code] = self.exit_codes.get(code, 0) + 1
        summary = [message for message in messages if message["message_type"] == "summary"]
        # A server that was lost at the very end: the snapshot is whole, and its index has not heard of all of it.
        is_index_behind = code == EXIT_PARTIAL and len(summary) == 1 and summary[0]["index_warning"] and not summary[0]["warnings"]
        if code == 0 or is_index_behind:
            if len(summary) == 1 and summary[0].get("snapshot"):
                self.committed[summary[0]["snapshot"]] = held
                self.streams += summary[0]["streams"]
                self.direct_streams += summary[0]["direct_streams"]
                if summary[0]["direct_streams"] and not direct:
                    self.problem("a stream went past the front that was to go through it")
            else:
                self.problem(f"exit code {code} without a snapshot: {messages[-1:]}")
            return 0
        allowed = {EXIT_UNAVAILABLE, EXIT_FULL} if self.may_be_full() else {EXIT_UNAVAILABLE}
        said = [message for message in messages if message["message_type"] == "error"]
        if code is not None and (code not in allowed or not said):
            self.problem(f"exit code {code}: {said or messages[-2:]}")
        return code

    def check(self):
        """Restores every snapshot and compares it; how many there are."""
        code, messages = self.run("verify", "--read-data")
        if code != 0:
            self.problem(f"kerf verify: exit code {code}: {messages[-3:]}")
        _, messages = self.run("snapshots")
        listed = {message["snapshot"] for message in messages if message["message_type"] == "snapshot"}
        if lost := self.committed.keys() - listed:
            self.problem(f"snapshots are gone: {', '.join(sorted(lost))}")
        if unsaid := listed - self.committed.keys():
            self.problem(f"snapshots of which no backup said so: {', '.join(sorted(unsaid))}")
        target = self.work / f"{self.name}-restored"
        for snapshot, held in self.committed.items():
            code, messages = self.run("restore", snapshot, "--target", str(target))
            restored = pathlib.Path(f"{target}{self.tree}")
            if code != 0 or manifest(restored) != held:
                self.problem(f"snapshot {snapshot} was not restored as it was: exit code {code}: {messages[-2:]}")
            shutil.rmtree(target, ignore_errors=True)
        return len(self.committed)


class SmallDisk:
    """A small tmpfs in a mount namespace of its own: what was mounted goes with the process that holds it."""

    def __init__(self, folder, size_bytes):
        folder.mkdir()
        # Whoever is not root is root of a user namespace.
        users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        self._holder = subprocess.Popen(
            ["unshare", *users, "--mount", "sh", "-c",
             f'mount -t tmpfs -o size={size_bytes} kerf-faults "$1" && echo ready && exec sleep infinity', "sh", folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self._holder.stdout.readline() != "ready\n":
            raise OSError(f"no small file system: {self._holder.stderr.read().strip()}: run as root, or where user "
                          "namespaces are allowed")
        self.path = pathlib.Path(f"/proc/{self._holder.pid}/root{folder}")
        self._filler = self.path / "filler"
        self._lock = threading.Lock()
        self._is_full = self._was_full = False

    def fill(self):
        with self._lock:
            self._is_full = self._was_full = True
        with contextlib.suppress(OSError), open(self._filler, "wb", buffering=0) as file:
            while file.write(FILLING):
                pass

    def free(self):
        self._filler.unlink(missing_ok=True)
        with self._lock:
            self._is_full = False

    def take_was_full(self):
        """Whether it has been full since the last call."""
        with self._lock:
            was_full, self._was_full = self._was_full, self._is_full
            return was_full

    def end(self):
        self._holder.kill()
        self._holder.wait()
