"""A box for a cluster with nodes: namespaces for its network, its mounts and its processes.

Whatever the nodes do - links, addresses, mounts, containers - they do in there, and it is gone when
the box's first process is; what remains are the cgroups, which `end` removes. The machine's own
network, mounts and kernel settings stay as they are.
"""

import hashlib
import os
import pathlib
import signal
import subprocess
import sys

# It is a program, too: the box's first process.
sys.path.insert(0, str(pathlib.Path(__file__).absolute().parents[1] / "python"))

from processes import Failed, end, is_own, log_tail, start, wait_until

START_TIMEOUT_S = 20
CGROUPS_TIMEOUT_S = 20
CGROUPS = pathlib.Path("/sys/fs/cgroup")
# Where all pods send what is not for themselves: the box routes, and its packet filter sees each packet.
GATEWAY = "10.77.0.1"
POD_NETWORK = "10.77.0.0/16"
# What the kubelet wants of the kernel. In the box it reads these and leaves the machine's alone.
KERNEL_SETTINGS = {"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10,
                   "kernel/panic_on_oops": 1, "kernel/keys/root_maxkeys": 1000000,
                   "kernel/keys/root_maxbytes": 25000000}


def node_address(number):
    return f"10.79.0.{number}"


class Box:
    def __init__(self, folder, pid=None):
        self.folder, self.pid = folder, pid
        self.cgroup = "kerf-kube-" + hashlib.sha256(str(folder).encode()).hexdigest()[:12]

    def start(self, node_count):
        """Its pid, which alone must be remembered."""
        if os.geteuid() != 0:
            raise Failed("a cluster with nodes needs root: it makes namespaces and containers; "
                         "`up --control-plane` does not")
        self._make_cgroups(node_count)
        (self.folder / "box").mkdir(parents=True, exist_ok=True)
        ready = self.folder / "box/ready"
        self.pid = start(["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child",
                          "--mount-proc", "--propagation", "private", sys.executable,
                          pathlib.Path(__file__).absolute(), self.folder / "box", str(node_count)],
                         self.folder / "box.log")
        wait_until(lambda: ready.exists() or not is_own(self.pid, self.folder), START_TIMEOUT_S,
                   "the box", lambda: log_tail(self.folder / "box.log"))
        if not ready.exists():
            raise Failed("the box cannot be made\n" + log_tail(self.folder / "box.log"))
        return self.pid

    def enter(self):
        """What a command line in the box begins with."""
        children = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children")
        try:
            first = children.read_text(encoding="ascii").split()[0]
        except (OSError, IndexError):
            raise Failed(f"the box of {self.folder} is gone: `down`, then `up` again") from None
        return ["nsenter", "--target", first, "--net", "--mount", "--pid", f"--wdns={os.getcwd()}",
                "--"]

    def end(self):
        if self.pid is not None:
            end([self.pid], self.folder)
        wait_until(self._remove_cgroups, CGROUPS_TIMEOUT_S, f"removing the cgroups {self.cgroup}")

    def _hierarchies(self):
        """The folders that cgroups are made in: one, or, with version 1, one for each controller."""
        if (CGROUPS / "cgroup.controllers").exists():
            return [CGROUPS]
        return [path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]

    def _make_cgroups(self, node_count):
        for hierarchy in self._hierarchies():
            for name in [self.cgroup] + [f"{self.cgroup}/node{1 + i}" for i in range(node_count)]:
                path = hierarchy / name
                path.mkdir(exist_ok=True)
                for setting in ("cpuset.cpus", "cpuset.mems"):
                    # Version 1 takes no process into a cgroup without them.
                    if hierarchy != CGROUPS and (path / setting).exists():
                        (path / setting).write_text(
                            (path.parent / setting).read_text(encoding="ascii"), encoding="ascii")

    def _remove_cgroups(self):
        """Whether none is left."""
        is_gone = True
        for hierarchy in self._hierarchies():
            for path, _, _ in os.walk(hierarchy / self.cgroup, topdown=False):
                try:
                    os.rmdir(path)
                except OSError:
                    is_gone = False
        return is_gone


def hold(folder, node_count):
    """The first process of the box: makes it, and waits to be killed."""
    def must(*command):
        subprocess.run(command, check=True)

    # Here are files of the nodes that have fixed places; the machine's stay hidden.
    for path in ("/run", "/var/log", "/var/lib/cni"):
        if path == "/var/lib/cni" and not pathlib.Path(path).is_dir():
            continue
        must("mount", "-t", "tmpfs", "tmpfs", path)
    for name, value in KERNEL_SETTINGS.items():
        stand_in = folder / name.replace("/", ".")
        stand_in.write_text(f"{value}\n", encoding="ascii")
        must("mount", "--bind", stand_in, f"/proc/sys/{name}")
    # So that an agent in the box finds Services by name, as a pod does.
    resolver = folder / "resolv.conf"
    resolver.write_text(f"nameserver {GATEWAY}\n", encoding="ascii")
    must("mount", "--bind", resolver, os.path.realpath("/etc/resolv.conf"))
    must("ip", "link", "set", "lo", "up")
    for number in range(1, 1 + node_count):
        must("ip", "address", "add", f"{node_address(number)}/32", "dev", "lo")
    must("ip", "address", "add", f"{GATEWAY}/32", "dev", "lo")
    (folder / "ready").touch()
    # It is the box's init, too: what nobody waits for must not stay a zombie.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        signal.pause()


if __name__ == "__main__":
    hold(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
