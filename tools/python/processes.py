"""Processes that a program starts, what it waits for, and ports for them: for the programs of tools/, loadtest/ and deploy/.

A program has this folder on its path wherever it is started from, and the modules that it imports then have it, too:

    ROOT = pathlib.Path(__file__).resolve().parents[2]  # the repository: as many folders up as the program lies deep
    sys.path.insert(0, str(ROOT / "tools/python"))

    import processes
"""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

HOST = "127.0.0.1"
POLL_S = 0.05
END_TIMEOUT_S = 20
LOG_TAIL_LINES = 30
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """What a person is told: what, where, and how to mend it."""


# Ports.


def free_ports(count):
    """Ports of loopback that nobody has now, all different. Somebody may have one a moment later: what can take port 0
    and say which it got is better off with that."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in held:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in held]


def free_port():
    return free_ports(1)[0]


# Waiting.


def wait_until(condition, timeout_s, what, why=lambda: "", *, poll_s=POLL_S, processes=(), error=Failed):
    """What `condition` returns once it is true. Raises `error` when that takes longer, and at once when one of
    `processes` (subprocess.Popen) has ended; `why` is asked only then, and may be of several lines."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        for process in processes:
            if process.poll() is not None:
                raise error(f"{what}: {process.args[0]} has ended with exit code {process.returncode}\n{why()}".rstrip())
        if time.monotonic() > deadline:
            raise error(f"{what}: not within {timeout_s} s\n{why()}".rstrip())
        time.sleep(poll_s)
    return found


# Processes of this program, which end with it or before.


def run(command, timeout_s=60, stdin=None, check=True):
    """The finished process, its output as text."""
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(map(str, command))}: not within {timeout_s} s") from error
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: exit code {done.returncode}\n"
                     f"{done.stderr.strip() or done.stdout.strip()}")
    return done


def stop(process, timeout_s=END_TIMEOUT_S):
    """SIGTERM; SIGKILL for what does not end of that. Whether it did."""
    process.terminate()
    try:
        process.wait(timeout_s)
        return True
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False


@contextlib.contextmanager
def running(command, log, timeout_s=END_TIMEOUT_S):
    """A process that is stopped at the end; the end of its log is shown if something fails meanwhile."""
    with open(log, "ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    except BaseException:
        print(log_tail(log), file=sys.stderr)
        raise
    finally:
        stop(process, timeout_s)


# Processes that outlive this program, and are known by their numbers later.


def start(command, log, **options):
    """A process with a session of its own, for Ctrl-C here is not meant for it; its pid."""
    with open(log, "ab") as output:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                 start_new_session=True, **options)
    # For a moment after exec a process has no command line yet, and nobody would recognize it.
    arguments = pathlib.Path(f"/proc/{child.pid}/cmdline")
    wait_until(lambda: arguments.read_bytes() or child.poll() is not None, END_TIMEOUT_S, f"the start of {command[0]}")
    return child.pid


def is_own(pid, folder):
    """Whether that process lives and was started for what lies in this folder."""
    found = state(pid)
    return found is not None and f"{folder}/" in command_line(pid) and found[0] != "Z"


def end(pids, folder):
    """Kills those of them that are the folder's: what they kept goes with them."""
    for pid in pids:
        if is_own(pid, folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(is_own(pid, folder) for pid in pids), END_TIMEOUT_S, f"the end of the processes of {folder}")


# What /proc says of any process.


def stat(pid):
    """The fields of /proc/PID/stat behind the name, which may hold anything; none if there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def state(pid):
    """(state letter, start time), which together with the number is one process' alone; None if there is none."""
    fields = stat(pid)
    return (fields[0], int(fields[19])) if fields else None


def cpu_seconds(pid):
    """So far, of user and system."""
    fields = stat(pid)
    if not fields:
        raise Failed(f"there is no process {pid}")
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def command_line(pid):
    """Its words, each with a zero byte behind it; empty if there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def log_tail(log, lines=LOG_TAIL_LINES):
    """With the log's name in front; empty if there is none."""
    try:
        text = pathlib.Path(log).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join([f"last lines of {log}:", *text.splitlines()[-lines:]])
