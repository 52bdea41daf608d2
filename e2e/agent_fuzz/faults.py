"""A fault file system (e2e/fault_fs) and the faults that are asked of it."""

import contextlib
import pathlib
import signal
import socket
import subprocess

import processes

START_TIMEOUT_S = 20
ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EACCES", "EROFS", "ESTALE", "EIO", "ENOSPC")
# What runs here do of each operation, about: one that goes wrong is among them.
SOURCE = {"getattr": 300, "getxattr": 12, "listxattr": 40, "lseek": 16, "open": 20, "opendir": 10, "read": 20, "readdir": 8,
          "readlink": 5, "*": 400}
STORE_CHANGES = {"write": 12, "flush": 12, "fsync": 5, "fsyncdir": 13, "rename": 6, "link": 2, "create": 5, "mkdir": 9,
                 "unlink": 2, "*": 300}
STORE_LOOKS = {"read": 17, "open": 10, "getattr": 100, "opendir": 15, "readdir": 7, "*": 200}
TARGET = {"write": 25, "flush": 18, "fsync": 18, "fsyncdir": 10, "create": 18, "mkdir": 12, "mknod": 6, "symlink": 4, "link": 6,
          "chmod": 40, "chown": 40, "utimens": 40, "setxattr": 8, "truncate": 3, "getattr": 200, "opendir": 20, "rename": 10,
          "unlink": 5, "*": 500}


# (operation, part of the path, first and last of them): where the order matters, and how often one of them is taken.
# Of a collection: its plan, its epochs, packs that come and packs that go.
OF_COLLECTOR = {("fsync", "tmp/", 1, 1): 4, ("rename", "gc/plan", 1, 2): 3, ("rename", "epoch", 1, 2): 1, ("rename", "epoch", 3, 4): 4,
                ("fsync", "tmp/", 2, 6): 2, ("rename", "packs/", 1, 2): 1, ("fsyncdir", "packs/", 1, 3): 1,
                ("unlink", "packs/", 1, 2): 4, ("unlink", "gc/plan", 1, 1): 1}
# Of a backup: what it knows of chunks, and what others know of it.
OF_BACKUP = {("create", "tmp/", 1, 2): 3, ("fsync", "tmp/", 1, 3): 3, ("rename", "packs/", 1, 2): 1, ("rename", "pending/", 1, 1): 1,
             ("rename", "snapshots/", 1, 1): 1}


class FaultFs:
    """`backing` is what is in it, `mount` where faults happen."""

    def __init__(self, program, folder):
        self.backing, self.mount = folder / "backing", folder / "mount"
        self._socket, self._log = folder / "control", folder / "log"
        self._peer, self._answers = socket.socket(socket.AF_UNIX), None
        for path in (self.backing, self.mount, folder / "unsynced"):
            path.mkdir(parents=True)
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen([program, self.backing, self.mount, self._socket, folder / "unsynced"],
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            processes.wait_until(self.mount.is_mount, START_TIMEOUT_S, f"the mount of {self.mount}",
                                 lambda: processes.log_tail(self._log), poll_s=0.01, processes=[self._process])
            self._peer.connect(str(self._socket))
            self._answers = self._peer.makefile("r", encoding="ascii")
        except BaseException:
            self.end()
            raise

    def say(self, line):
        """What it answers behind its ok."""
        self._peer.sendall(f"{line}\n".encode())
        verdict, _, rest = self._answers.readline().strip().partition(" ")
        if verdict != "ok":
            raise processes.Failed(f"fault_fs: {line}: {verdict} {rest}: {processes.log_tail(self._log)}")
        return rest

    def arm(self, fault):
        self.say(f"arm {fault}")

    def clear(self):
        """How many operations went wrong since the last time."""
        hits = int(self.say("hits"))
        self.say("clear")
        return hits

    @contextlib.contextmanager
    def silent(self):
        """Whoever asks waits, as for a disk that does not answer."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def end(self):
        if self._answers is not None:
            self._answers.close()
        self._peer.close()
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        if self.mount.is_mount():
            subprocess.run(["umount", "--lazy", self.mount], check=False)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def times(random):
    return random.choice((1, 1, 1, 2, 5, 0))


def moment(random, operations):
    """(operation, which one of them)."""
    operation = random.choice(list(operations))
    return operation, random.randint(1, operations[operation])


def of_source(random):
    """What reading a tree may meet. Not ENOENT: such an entry is gone, and nobody needs to be told."""
    operation, nth = moment(random, SOURCE)
    action = random.choice(("EIO", "EIO", "EACCES", "ESTALE", "EINTR", "short", "late:EIO"))
    if action == "EINTR":
        return f"{random.choice(('read', 'open'))} {nth} {random.choice((1, 2))} {action}"
    return f"{'read' if action == 'short' else operation} {nth} {times(random)} {action}"


def of_changes(random, operations):
    """What writing may meet: a store's or a target's."""
    if random.random() < 0.2:
        return of_keeping(random, operations)
    operation, nth = moment(random, operations)
    action = ("late:" if random.random() < 0.2 else "") + random.choice(ERRORS)
    if operation == "write" and random.random() < 0.3:
        action = "short"
    return f"{operation} {nth} {times(random)} {action}"


def of_keeping(random, operations):
    """What was taken is lost, and close or fsync says so."""
    operation, nth = moment(random, {name: operations[name] for name in ("flush", "fsync")})
    return f"{operation} {nth} {times(random)} drop:{random.choice(('EIO', 'ENOSPC', 'EDQUOT'))}"


def of_looks(random):
    """What reading a store may meet: also bytes that are wrong."""
    operation, nth = moment(random, STORE_LOOKS)
    action = random.choice(("EIO", "EIO", "EACCES", "ESTALE", "late:EIO", "short", "zeros", "flip", "flip"))
    if action not in ("short", "zeros", "flip"):
        return f"{operation} {nth} {times(random)} {action}"
    # Mostly in packs, where the bytes of files are.
    return f"read {nth} {times(random)} {action}{random.choice((' packs/', ' packs/', ''))}"


def of_failed_looks(random):
    operation, nth = moment(random, STORE_LOOKS)
    return f"{operation} {nth} {times(random)} {random.choice(('EIO', 'EIO', 'EACCES', 'ESTALE', 'late:EIO'))}"


def of_store(random):
    return of_changes(random, STORE_CHANGES) if random.random() < 0.6 else of_looks(random)


def of_power(random, operations):
    """The process that does the n-th operation is gone in the middle of it, and whoever would go on."""
    operation, nth = moment(random, operations)
    return f"{operation} {nth} 0 kill"


def at_moment(random, moments, actions):
    operation, path, first, last = random.choices(list(moments), list(moments.values()))[0]
    return f"{operation} {random.randint(first, last)} 1 {random.choice(actions)} {path}"


def stop(random, operations):
    operation, nth = moment(random, operations)
    return f"{operation} {nth} 1 stop"
