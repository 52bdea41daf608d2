"""One `kerf`, from its start to what it has said."""

import base64
import json
import os
import pathlib
import signal
import subprocess
import time

import processes

# Nothing here takes longer than some seconds; what does is stuck.
HANG_S = 90
STOPPED_POLL_S = 0.002
STOP_PATIENCE_S = 20
GO_ON_S = 0.5
OK, FAILURE, PARTIAL, UNAVAILABLE, DAMAGED, DISK_FULL = 0, 1, 3, 5, 6, 7
TELLING = (FAILURE, PARTIAL, 4, UNAVAILABLE, DAMAGED, DISK_FULL)
SHARED_MEMORY = pathlib.Path("/dev/shm")
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


class Wrong(Exception):
    """The invariant does not hold."""


def exact(line, key):
    """A path as bytes (docs/json.md)."""
    return base64.b64decode(line[key + "_base64"]) if key + "_base64" in line else line[key].encode()


class Run:
    """`kerf VERB ARGUMENTS --json`; with an offset of its clock in seconds."""

    def __init__(self, kerf, log, *arguments, home, clock_s=0):
        self.arguments = [os.fsdecode(word) for word in arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": os.fspath(home), "TZ": "UTC"}
        if clock_s:
            environment |= {"LD_PRELOAD": FAKETIME, "FAKETIME": f"{clock_s:+d}", "DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}
        self.clock_s = clock_s
        self._out, self._errors = log.with_suffix(".out"), log.with_suffix(".err")
        with open(self._out, "wb") as out, open(self._errors, "wb") as errors:
            self._process = subprocess.Popen([kerf, "--json", "--no-progress", *self.arguments], stdin=subprocess.DEVNULL,
                                             stdout=out, stderr=errors, env=environment)
        self.was_killed = False

    def __str__(self):
        clock = f" (clock {self.clock_s:+d} s)" if self.clock_s else ""
        return f"kerf {' '.join(self.arguments)}{clock}"

    def is_over(self):
        return self._process.poll() is not None

    def is_stopped(self):
        found = processes.state(self._process.pid)
        return found is not None and found[0] == "T"

    def until_stopped(self, patience_s=STOP_PATIENCE_S):
        """Whether a fault has stopped it; false: it is over, or still running then."""
        deadline = time.monotonic() + patience_s
        while not self.is_over() and time.monotonic() < deadline:
            if self.is_stopped():
                return True
            time.sleep(STOPPED_POLL_S)
        return False

    def go_on(self):
        if not self.is_over():
            self._process.send_signal(signal.SIGCONT)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def _remove_clock(self):
        """What libfaketime leaves of a process that was killed or ends by itself, under the number of that one."""
        if self.clock_s:
            for name in ("faketime_shm_", "sem.faketime_sem_"):
                (SHARED_MEMORY / f"{name}{self._process.pid}").unlink(missing_ok=True)

    def wait(self, timeout_s):
        """Whether it is over."""
        try:
            self._process.wait(timeout_s)
            return True
        except subprocess.TimeoutExpired:
            return False

    def finish(self):
        """Waits for its end and reads what it has said. Raises Wrong if it is stuck, crashes, or is silent."""
        deadline = time.monotonic() + HANG_S
        # A fault may stop it once more.
        self.go_on()
        while not self.wait(GO_ON_S):
            self.go_on()
            if time.monotonic() > deadline:
                self.kill()
                raise Wrong(f"{self}: not over within {HANG_S} s")
        self._remove_clock()
        code = self._process.returncode
        self.was_killed = code == -signal.SIGKILL
        self.lines = self._read_lines()
        said = self._errors.read_text(errors="replace")
        self.warnings = [line for line in self.lines if line["message_type"] == "warning"]
        self.errors = [line for line in self.lines if line["message_type"] == "error"]
        self.summary = next((line for line in self.lines if line["message_type"] == "summary"), None)
        self.code = code
        if self.was_killed:
            return self
        if code != OK and code not in TELLING:
            raise Wrong(f"{self}: ended with {code}: {said[-500:]} {self.tell()}")
        if code != OK and not any(line["message"].strip() for line in self.lines if "message" in line):
            raise Wrong(f"{self}: ended with {code} and does not say why: {said!r} {self.tell()}")
        if code == PARTIAL and not self.warnings and not self.errors:
            raise Wrong(f"{self}: is partial, without a warning: {self.tell()}")
        # That a second copy is gone is no failure as long as the first one is sound; that it cannot be made again is one.
        if code == OK and any("could not be made" in line["message"] for line in self.warnings):
            raise Wrong(f"{self}: ended with 0, and could not make what the store lacks: {self.tell()}")
        if code == OK and (self.errors or said):
            raise Wrong(f"{self}: ended with 0 and says {said[-500:]} {self.tell()}")
        return self

    def _read_lines(self):
        lines = self._out.read_bytes().splitlines()
        if self.was_killed and lines and not lines[-1].endswith(b"}"):
            lines.pop()
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise Wrong(f"{self}: prints what is no JSON: {error}: {lines[-1][:300]!r}") from error

    def warned(self, root):
        """Paths below the root, relative to it, of which it has warned; b"" is the root itself, and so is what is above. What it
        says of other places, as of its store, excuses nothing."""
        found = set()
        for line in self.warnings:
            path = exact(line, "path") if line.get("path") else b"/"
            if path.startswith(root + b"/"):
                found.add(path[len(root) + 1:])
            elif (root + b"/").startswith(path.rstrip(b"/") + b"/"):
                found.add(b"")
        return found

    def tell(self):
        """The end of what it has said, for people."""
        return " ".join(json.dumps(line)[:400] for line in self.lines[-3:])
