"""The client program that is judged: a process that is told what to do, line by line (docs/spec/conformance.md)."""

import base64
import json
import os
import queue
import shlex
import subprocess
import threading

PROTOCOL = 1
# A client waits some seconds before it tries again; one that has not come back after so long is taken for hung.
PATIENCE_S = 180
LARGEST_LINE_BYTES = 64 << 20


class Failed(Exception):
    """The client did what a rule forbids, or not what it demands."""


class Refusal(Exception):
    """What the client says of a thing that it could not do."""

    def __init__(self, error):
        super().__init__(f"{error.get('class')}: {error.get('text', '')}")
        self.kind, self.reason = error.get("class", ""), error.get("reason", "")


def to_text(data):
    return base64.b64encode(data).decode()


def to_bytes(text):
    return base64.b64decode(text, validate=True)


class Driven:
    """`answer(ask)` is what a callback of the client is answered: a dict, or an exception. `environment`: what it has besides the
    kit's."""

    def __init__(self, command, folder, answer, patience_s=PATIENCE_S, environment=None):
        self._answer = answer
        self._patience_s = patience_s
        self._lines = queue.Queue()
        self._stderr = open(os.path.join(folder, "stderr"), "ab")  # noqa: SIM115
        self._process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
                                         env={**os.environ, **(environment or {})})
        threading.Thread(target=self._read, daemon=True).start()
        hello = self._next("its first line")
        if hello.get("protocol") != PROTOCOL or not isinstance(hello.get("can"), list):
            raise Failed(f"the first line of a client says protocol {PROTOCOL} and what it can: {hello}")
        self.name = str(hello.get("client", "?"))
        self.can = frozenset(hello["can"])

    def _read(self):
        try:
            while line := self._process.stdout.readline(LARGEST_LINE_BYTES):
                self._lines.put(line)
        except (OSError, ValueError):
            pass
        self._lines.put(None)

    def _next(self, what):
        try:
            line = self._lines.get(timeout=self._patience_s)
        except queue.Empty:
            self.kill()
            raise Failed(f"hung: nothing for {self._patience_s} s, and {what} is owed") from None
        if line is None:
            raise Failed(f"the client has ended with {self._process.wait()}, and {what} is owed")
        try:
            said = json.loads(line)
        except ValueError:
            raise Failed(f"no JSON: {line[:200]!r}") from None
        if not isinstance(said, dict):
            raise Failed(f"no object: {line[:200]!r}")
        return said

    def do(self, action, **arguments):
        """What it answers; Refusal if it says that it could not."""
        self._send({"do": action, **arguments})
        while True:
            said = self._next(f"an answer to {action}")
            if "ask" in said:
                self._send(self._answered(said))
            elif "ok" in said:
                return said["ok"]
            elif "error" in said:
                raise Refusal(said["error"])
            else:
                raise Failed(f"neither ask, ok nor error: {said}")

    def _answered(self, ask):
        try:
            return self._answer(ask)
        except Failed:
            self.kill()
            raise
        except Exception as error:  # A callback that fails is what many cases are about.
            return {"error": str(error) or type(error).__name__}

    def _send(self, said):
        try:
            self._process.stdin.write(json.dumps(said).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise Failed(f"the client has ended with {self._process.wait()}") from None

    def kill(self):
        self._process.kill()
        self._process.wait()

    def close(self):
        """It ends when its standard input does."""
        try:
            self._process.stdin.close()
            self._process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            self.kill()
        self._process.stdout.close()
        self._stderr.close()
