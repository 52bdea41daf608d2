"""How tools/compare drives each tool: kerf, restic, borg, rustic, bupstash."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import processes

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The tools that are built of their crates.
PEERS = ROOT / "out" / "compare_peers"
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
    """One fresh repository. Subclasses: name, PROGRAM, WHERE it comes from, version(), start(), backup(), restore()."""

    @classmethod
    def is_present(cls):
        return shutil.which(cls.PROGRAM) is not None

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

    def restored(self, target, folder):
        """Where below `target` a restore brings `folder`."""
        return pathlib.Path(f"{target}{folder}")

    def stored_bytes(self):
        return folder_bytes(self.repository)

    def index_bytes(self):
        """What lies outside the repository and can be made again from it."""
        return 0


class Restic(Tool):
    name = "restic"
    PROGRAM, WHERE = "restic", "tools/deps compare installs it from Debian"

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
    PROGRAM, WHERE = "borg", "tools/deps compare installs it from Debian"

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
        target.mkdir(parents=True, exist_ok=True)
        return self.run(["borg", "extract", f"::{self.count}"], cwd=target)

    def index_bytes(self):
        return folder_bytes(self.work / "borg")


class Kerf(Tool):
    """Through kerfd with the embedded index. The server's start is not measured; its CPU is."""

    name = "kerf"
    KERF, KERFD = ROOT / "out" / "kerf", ROOT / "out" / "kerfd"
    PROGRAM, WHERE = KERF, "tools/build makes it"

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


def kerf_of(folder):
    """Another build, to see what a change has made of it."""
    return type("Before", (Kerf,), {"name": "before", "KERF": folder / "kerf", "KERFD": folder / "kerfd",
                                    "PROGRAM": folder / "kerf", "WHERE": "--before names its folder"})


class Rustic(Tool):
    """Writes restic's format, compressed as it does by itself."""

    name = "rustic"
    CRATE, VERSION, FLAGS = "rustic-rs", "0.11.4", ["--no-default-features"]
    PROGRAM, WHERE = PEERS / "bin" / "rustic", "tools/compare builds it of its crate"

    def __init__(self, work, log):
        super().__init__(work, log)
        self.environment.update(RUSTIC_PASSWORD="compare", RUSTIC_REPOSITORY=str(self.repository),
                                RUSTIC_CACHE_DIR=str(work / "cache"), RUSTIC_NO_PROGRESS="true")

    @classmethod
    def version(cls):
        return subprocess.run([cls.PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def start(self):
        self.run([self.PROGRAM, "init"])

    def backup(self, folder):
        return self.run([self.PROGRAM, "backup", folder])

    def restore(self, target, folder):
        return self.run([self.PROGRAM, "restore", "latest", target])

    def index_bytes(self):
        return folder_bytes(self.work / "cache")


class Bupstash(Tool):
    """Encrypts, which cannot be left out."""

    name = "bupstash"
    CRATE, VERSION, FLAGS = "bupstash", "0.12.0", []
    PROGRAM, WHERE = PEERS / "bin" / "bupstash", "tools/compare builds it of its crate"

    def __init__(self, work, log):
        super().__init__(work, log)
        self.environment.update(BUPSTASH_REPOSITORY=str(self.repository), BUPSTASH_KEY=str(work / "key"),
                                BUPSTASH_SEND_LOG=str(work / "cache" / "send-log"),
                                BUPSTASH_QUERY_CACHE=str(work / "cache" / "query-cache"),
                                PATH=f"{self.PROGRAM.parent}:{os.environ['PATH']}")
        (work / "cache").mkdir()
        self.count = 0

    @classmethod
    def version(cls):
        text = subprocess.run([cls.PROGRAM, "version"], capture_output=True, text=True, check=True).stdout
        return "bupstash " + text.strip().removeprefix("bupstash").lstrip("- ")

    def start(self):
        self.run([self.PROGRAM, "new-key", "-o", self.work / "key"])
        self.run([self.PROGRAM, "init"])

    def backup(self, folder):
        self.count += 1
        return self.run([self.PROGRAM, "put", "--quiet", f"run={self.count}", "::", folder])

    def restore(self, target, folder):
        target.mkdir(parents=True, exist_ok=True)
        return self.run([self.PROGRAM, "restore", "--quiet", "--into", target, f"run={self.count}"])

    def restored(self, target, folder):
        return target

    def index_bytes(self):
        return folder_bytes(self.work / "cache")


TOOLS = {tool.name: tool for tool in (Kerf, Restic, Borg, Rustic, Bupstash)}


def build_peers(names):
    """Builds the crates of these that are not there in their version, each by itself: one that cannot be built is said
    so, and the others are measured."""
    for kind in (TOOLS[name] for name in names if hasattr(TOOLS[name], "CRATE")):
        if kind.is_present() and kind.VERSION in kind.version():
            continue
        print(f"compare: building {kind.CRATE} {kind.VERSION} of its crate (minutes)", flush=True)
        command = ["cargo", "install", "--quiet", "--locked", "--force", "--root", PEERS, "--version", f"={kind.VERSION}",
                   *kind.FLAGS, kind.CRATE]
        try:
            subprocess.run([str(part) for part in command], check=True, env={**os.environ, "CARGO_TARGET_DIR": f"{PEERS}/target"})
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"compare: {kind.name} could not be built: {error}", file=sys.stderr, flush=True)
