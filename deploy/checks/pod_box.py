"""A network and a process tree of its own for the containers of a pod, without a cluster: as root.

What runs there is what the rendered manifest says: command, arguments, environment and files, each container in a root of its
own with the programs of this machine. All of it ends with the box.
"""

import ctypes
import fcntl
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import tempfile
import time
import traceback

_CLONE = {"mount": 0x00020000, "pid": 0x20000000, "net": 0x40000000}
BIND = 4096
_MS_RDONLY, _MS_REMOUNT, _MS_REC, _MS_PRIVATE = 1, 32, 16384, 1 << 18
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_LISTENS, _UNCONNECTED = "0A", "07"
# Of this machine: programs, and what they need.
_SHARED = ("/usr", "/dev", "/proc")
_LIBC = ctypes.CDLL(None, use_errno=True)


class Missing(Exception):
    """What a manifest wants and the way for production does not make."""


def _call(name, *arguments):
    if getattr(_LIBC, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind=None, flags=0):
    _call("mount", str(source).encode(), str(target).encode(), kind and kind.encode(), flags, None)


def inside(function, *arguments):
    """What `function(folder, ...)` returns, called in a network of its own, with a folder that is gone with it."""
    read_end, write_end = os.pipe()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kerf-box-"))
    child = os.fork()
    if child == 0:
        os.close(read_end)
        try:
            _call("unshare", sum(_CLONE.values()))
            # The first one in its process tree: all others end with it.
            first = os.fork()
            if first == 0:
                _be_first(folder, function, arguments, write_end)
            os.close(write_end)
            os.waitpid(first, 0)
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    folder.rmdir()
    if not said:
        raise RuntimeError("a box has ended without a word")
    result = json.loads(said)
    if "failed" in result:
        raise Missing(result["failed"]) if result["is_missing"] else RuntimeError(result["failed"])
    return result["value"]


def _be_first(folder, function, arguments, write_end):
    try:
        _call("prctl", 1, signal.SIGKILL, 0, 0, 0)
        mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
        mount("tmpfs", folder, "tmpfs")
        mount("proc", "/proc", "proc")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as interfaces:
            fcntl.ioctl(interfaces, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
        result = {"value": function(folder, *arguments)}
    # Whatever it is: the test that waits at the other end tells of it.
    except BaseException as error:
        result = {"failed": str(error) if isinstance(error, Missing) else traceback.format_exc(),
                  "is_missing": isinstance(error, Missing)}
    with os.fdopen(write_end, "w", encoding="utf-8") as pipe:
        json.dump(result, pipe)
    os._exit(0)


def make_root(root, hosts):
    """A file system in which nothing of this machine is but its programs."""
    for name in ("etc", "tmp", "run", "root", "home", "var/lib"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        if pathlib.Path("/", name).is_symlink():
            (root / name).symlink_to(os.readlink(f"/{name}"))
    for name in _SHARED:
        place = root / name.lstrip("/")
        place.mkdir()
        mount(name, place, flags=BIND | _MS_REC)
    mount("none", root / "usr", flags=BIND | _MS_REMOUNT | _MS_RDONLY)
    (root / "etc/alternatives").mkdir()
    mount("/etc/alternatives", root / "etc/alternatives", flags=BIND)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n", encoding="utf-8")
    (root / "etc/nsswitch.conf").write_text("hosts: files\n", encoding="utf-8")
    (root / "etc/hosts").write_text("".join(f"127.0.0.1 {name}\n" for name in ["localhost", *hosts]), encoding="utf-8")


def start(root, command, environment, log):
    def enter():
        os.chroot(root)
        os.chdir("/")

    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=enter)


def _sockets(kind, state):
    for name in (kind, kind + "6"):
        for line in pathlib.Path("/proc/net", name).read_text(encoding="ascii").splitlines()[1:]:
            words = line.split()
            if words[3] == state:
                yield int(words[1].rpartition(":")[2], 16)


def listening():
    """Ports at which somebody in this network takes connections, or packets from anybody."""
    return sorted({("TCP", port) for port in _sockets("tcp", _LISTENS)} | {("UDP", port) for port in _sockets("udp", _UNCONNECTED)})


def await_ports(wanted, processes, patience_s):
    """The ports of `wanted` at which nobody listens in the end."""
    until = time.monotonic() + patience_s
    while True:
        missing = sorted(set(wanted) - {port for kind, port in listening() if kind == "TCP"})
        if not missing or time.monotonic() > until or any(one.poll() is not None for one in processes):
            return missing
        time.sleep(0.02)


class Pod:
    """The containers of one workload. `secrets` are those of the operator; those of the overlay are in the manifests."""

    def __init__(self, folder, manifests, workload, secrets, programs, hosts):
        self.folder = folder / workload.name.replace(" ", "-")
        self.manifests, self.workload, self.secrets, self.programs, self.hosts = manifests, workload, secrets, programs, hosts
        self.name = f"{workload.thing['metadata']['name']}-0"
        self.volumes, self.processes = {}, {}
        self.folder.mkdir()

    def start(self):
        for container in self.workload.containers:
            root = self.folder / container["name"]
            root.mkdir()
            make_root(root, self.hosts)
            for one in container.get("volumeMounts", []):
                self._mount(root, one)
            command = [self.programs.get(word, word) for word in container["command"][:1]] + container["command"][1:]
            if command[0] != container["command"][0]:
                (root / "program").touch()
                mount(command[0], root / "program", flags=BIND)
                command[0] = "/program"
            environment = {"PATH": "/usr/bin:/bin", **{one["name"]: self._value(container, one) for one in container.get("env", [])}}
            with open(self.log_path(container["name"]), "wb") as log:
                self.processes[container["name"]] = start(root, [*command, *container.get("args", [])], environment, log)

    def log_path(self, name):
        return self.folder / f"{name}.log"

    def log(self, name):
        return self.log_path(name).read_text(encoding="utf-8", errors="replace")

    def _value(self, container, variable):
        if "value" in variable:
            return variable["value"]
        source = variable["valueFrom"]
        if "fieldRef" in source:
            return {"status.podIP": "127.0.0.1", "metadata.name": self.name}[source["fieldRef"]["fieldPath"]]
        kind, resource = source["resourceFieldRef"]["resource"].split(".")
        return str(container["resources"][kind][resource])

    def _mount(self, root, one):
        source = self._volume(one["name"])
        source = source / one["subPath"] if one.get("subPath") else source
        target = root / one["mountPath"].strip("/")
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        mount(source, target, flags=BIND)

    def _volume(self, name):
        if name in self.volumes:
            return self.volumes[name]
        place = self.volumes[name] = self.folder / f"volume-{name}"
        place.mkdir()
        volume = self.workload.volumes[name]
        for field, key in (("configMap", "name"), ("secret", "secretName")):
            if source := volume.get(field):
                for path, data in self._files(field, source[key], source.get("items")):
                    (place / path).write_bytes(data)
                    (place / path).chmod(0o440)
        return place

    def _files(self, field, name, items):
        if field == "configMap":
            thing = self.manifests.get("ConfigMap", name)
            data = {key: value.encode() for key, value in thing["data"].items()}
        else:
            data = self.secrets.get(name)
        if data is None:
            raise Missing(f"{self.workload.name} needs the Secret {name}, which the way does not make")
        for key in [item["key"] for item in items] if items else data:
            if key not in data:
                raise Missing(f"{self.workload.name} needs {key} of the Secret {name}, which the way does not make")
        named = [(item["path"], item["key"]) for item in items] if items else [(key, key) for key in data]
        return [(path, data[key]) for path, key in named]
