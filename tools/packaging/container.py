"""systemd in a folder: booted by systemd-nspawn, with a network of its own that has nothing but loopback."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

BOOT_TIMEOUT_S = 60
COMMAND_TIMEOUT_S = 60
POLL_S = 0.1
CGROUPS = pathlib.Path("/sys/fs/cgroup")
# A host without systemd has nobody to register with; the container's processes stay in the unit or group of ours.
WORDS = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", "--console=pipe", "--boot")


class Failed(Exception):
    """What a person is told."""


def _remove_groups():
    """Those that nspawn has made below our own, which it leaves where no systemd looks after them."""
    for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, name, path = line.split(":", 2)
        hierarchy = {"": "unified", "name=systemd": "systemd"}.get(name)
        for top in (CGROUPS / hierarchy, CGROUPS) if hierarchy else ():
            for made in ("payload", "supervisor"):
                below = top / path.lstrip("/") / made
                for folder in sorted((found for found in below.glob("**/") if below.is_dir()), reverse=True):
                    with contextlib.suppress(OSError):
                        folder.rmdir()


class Container:
    """One, from its boot to its end. As root."""

    def __init__(self, root, log, binds=()):
        self._log = pathlib.Path(log)
        self._init = None
        name = f"kerf-{root.name}"[:60].replace("_", "-")
        with self._log.open("w", encoding="utf-8") as output:
            self._nspawn = subprocess.Popen([*WORDS, f"--directory={root}", f"--machine={name}", *[f"--bind={bind}" for bind in binds]],
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            self._wait_for("systemd's start", self._is_running)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _is_running(self):
        # Looked for each time: systemd-nspawn has another child first, which begins the container's first process and ends.
        found = subprocess.run(["pgrep", "--parent", str(self._nspawn.pid)], capture_output=True, text=True, check=False)
        self._init = found.stdout.split()[0] if found.stdout else None
        return self._init and self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")

    def _wait_for(self, what, condition):
        until = time.monotonic() + BOOT_TIMEOUT_S
        while not (found := condition()):
            if self._nspawn.poll() is not None or time.monotonic() > until:
                raise Failed(f"{what} in the container: not there; {self._log.read_text(encoding='utf-8', errors='replace')}")
            time.sleep(POLL_S)
        return found

    def run(self, *words, check=True, text_in=None):
        """A command of the container, as root; raises for one that fails."""
        # -a would also want what this kernel may not have (time namespaces).
        enter = ["nsenter", "--target", self._init, "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd", "--"]
        clean = ["env", "-i", "PATH=/usr/sbin:/usr/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "HOME=/root"]
        done = subprocess.run([*enter, *clean, *map(str, words)], capture_output=True, text=True, check=False,
                              timeout=COMMAND_TIMEOUT_S, input=text_in)
        if check and done.returncode != 0:
            raise Failed(f"{' '.join(map(str, words))}: exit code {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def close(self):
        """Its first process takes all others along: a halt would take systemd some seconds, and nothing is to be kept."""
        if self._nspawn.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(self._init) if self._init else self._nspawn.pid, signal.SIGKILL)
        self._nspawn.wait(COMMAND_TIMEOUT_S)
        _remove_groups()
