"""How tools/compare drives each tool: kerf, restic, borg."""

import os
import pathlib
import subprocess
import time

import processes

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 30


class Measurement:
    """Of one command: wall seconds, CPU seconds and the largest resident set, in bytes."""

    def __init__(self, wall_s, cpu_s, peak_rss_bytes):
        self.wall_s, self.cpu_s, self.peak_rss_bytes = wall_s, cpu_s, peak_rss_bytes
        self.server_cpu_s, self.server_peak_rss_bytes = None, None


def measure(command, environment, cwd, log):
    start = time.monotonic()
    process = subprocess.Popen([str(part) for part in command], cwd=cwd, env=environment,
                               stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Measurement(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def folder_bytes(folder):
    return sum(os.lstat(os.path.join(path, name)).st_size
               for path, _, names in os.walk(folder) for name in names)


class Tool:
    """One fresh repository. Subclasses: name, version(), start(), backup(), restore()."""

    def __init__(self, work, log):
        self.work, self.log = work, log
        self.repository = work / "repository"
        self.environment = {**os.environ, "HOME": str(work / "home"), "LC_ALL": "C.UTF-8"}
        (work / "home").mkdir(parents=True)

    def run(self, command, cwd=None):
        return measure(command, self.environment, cwd or self.work, self.log)

    def start(self):
        """Makes the repository; not measured."""

    def stop(self):
        """Ends what start() began."""

    def stored_bytes(self):
        return folder_bytes(self.repository)

    def index_bytes(self):
        """What lies outside the repository and can be made again from it."""
        return 0


class Restic(Tool):
    name = "restic"

    def __init__(self, work, log):
        super().__init__(work, log)
        self.environment.update(RESTIC_PASSWORD="compare", RESTIC_REPOSITORY=str(self.repository),
                                RESTIC_CACHE_DIR=str(work / "cache"))

    @staticmethod
    def version():
        return subprocess.run(["restic", "version"], capture_output=True, text=True, check=True).stdout.strip()

    def start(self):
        self.run(["restic", "--quiet", "init"])

    def backup(self, folder):
        return self.run(["restic", "--quiet", "backup", folder])

    def restore(self, target, folder):
        return self.run(["restic", "--quiet", "restore", "latest", "--target", target])

    def index_bytes(self):
        return folder_bytes(self.work / "cache")


class Borg(Tool):
    name = "borg"

    def __init__(self, work, log):
        super().__init__(work, log)
        self.environment.update(BORG_REPO=str(self.repository), BORG_BASE_DIR=str(work / "borg"),
                                BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK="yes")
        self.count = 0

    @staticmethod
    def version():
        return subprocess.run(["borg", "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def start(self):
        self.run(["borg", "init", "--encryption", "none"])

    def backup(self, folder):
        self.count += 1
        return self.run(["borg", "create", f"::{self.count}", folder])

    def restore(self, target, folder):
        target.mkdir(parents=True)
        return self.run(["borg", "extract", f"::{self.count}"], cwd=target)

    def index_bytes(self):
        return folder_bytes(self.work / "borg")


class Kerf(Tool):
    """Through kerfd with the embedded index. The server's start is not measured; its CPU is."""

    name = "kerf"
    KERF, KERFD = ROOT / "out" / "kerf", ROOT / "out" / "kerfd"

    def __init__(self, work, log):
        super().__init__(work, log)
        self.server, self.address = None, f"unix:{work}/kerfd.sock"

    @classmethod
    def version(cls):
        return subprocess.run([cls.KERF, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def start(self):
        ready = self.work / "ready"
        self.server = subprocess.Popen(
            [self.KERFD, "--listen", self.address, "--data-dir", self.work / "kerfd", "--ready-file", ready,
             "--log-level", "warning"], env=self.environment, stdout=self.log, stderr=self.log)
        processes.wait_until(ready.exists, START_TIMEOUT_S, "the start of kerfd", processes=[self.server])

    def stop(self):
        if self.server is not None:
            processes.stop(self.server, START_TIMEOUT_S)

    def run(self, command, cwd=None):
        process = pathlib.Path(f"/proc/{self.server.pid}")
        (process / "clear_refs").write_text("5")  # restarts the count of the largest resident set
        before = processes.cpu_seconds(self.server.pid)
        measurement = super().run(command, cwd)
        measurement.server_cpu_s = processes.cpu_seconds(self.server.pid) - before
        for line in (process / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                measurement.server_peak_rss_bytes = int(line.split()[1]) * 1024
        return measurement

    def backup(self, folder):
        return self.run([self.KERF, "backup", folder, "--store", self.repository, "--server", self.address])

    def restore(self, target, folder):
        return self.run([self.KERF, "restore", "latest", "--store", self.repository, "--target", target])

    def index_bytes(self):
        return folder_bytes(self.work / "kerfd")


TOOLS = {tool.name: tool for tool in (Kerf, Restic, Borg)}
