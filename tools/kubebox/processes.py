"""Processes of a cluster: started with a log of their own, recognized by their cluster's folder."""

import os
import pathlib
import signal
import socket
import subprocess
import time

HOST = "127.0.0.1"
POLL_S = 0.05
END_TIMEOUT_S = 20
LOG_TAIL_LINES = 30


class KubeError(Exception):
    """What a person is told: what, where, and how to mend it."""


def free_ports(count):
    """Ports that nobody has now, all different."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind((HOST, 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def wait_until(condition, timeout_s, what, why=lambda: ""):
    """`why` is asked only when it took too long."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise KubeError(f"{what}: not within {timeout_s} s\n{why()}".rstrip())
        time.sleep(POLL_S)


def run(command, timeout_s=60, stdin=None, check=True):
    """The finished process, its output as text."""
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False,
                              timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise KubeError(f"{' '.join(map(str, command))}: not within {timeout_s} s") from error
    if check and done.returncode != 0:
        raise KubeError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n"
                        f"{done.stderr.strip() or done.stdout.strip()}")
    return done


def start(command, log):
    """A process that outlives this one; its pid."""
    with open(log, "ab") as output:
        # Its own session: Ctrl-C here is not meant for it.
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                 stderr=subprocess.STDOUT, start_new_session=True)
    # For a moment after exec a process has no command line yet, and nobody would recognize it.
    arguments = pathlib.Path(f"/proc/{child.pid}/cmdline")
    wait_until(lambda: arguments.read_bytes() or child.poll() is not None, END_TIMEOUT_S,
               f"the start of {command[0]}")
    return child.pid


def log_tail(log):
    try:
        lines = pathlib.Path(log).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join([f"last lines of {log}:"] + lines[-LOG_TAIL_LINES:])


def is_own(pid, folder):
    """Whether that process lives and was started for the cluster in this folder."""
    try:
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1]
    except (OSError, IndexError):
        return False
    return f"{folder}/" in command and state.split()[0] != "Z"


def end(pids, folder):
    """Kills those of them that are the cluster's: what they kept goes with them."""
    for pid in pids:
        if is_own(pid, folder):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    wait_until(lambda: not any(is_own(pid, folder) for pid in pids), END_TIMEOUT_S,
               "the end of the cluster's processes")
