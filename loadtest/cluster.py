"""A cluster of the load test's own, by tools/cluster, and its rolling restart."""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import threading
import time

# What tools/cluster roll says when a part is back.
RESTARTED = re.compile(r"(\S+) at \S+ drained in .* and serves again after ([0-9.]+) s")
TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools" / "cluster"


class Cluster:
    """One that runs in `folder`."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).absolute()

    def do(self, verb, *arguments):
        """What it prints. Raises OSError with what is wrong."""
        done = subprocess.run([TOOL, verb, "--dir", self.folder, *arguments], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        # `status` of one that is not well is none that has failed.
        if done.returncode != 0 and done.stderr:
            raise OSError(done.stderr.strip())
        return done.stdout

    def roll(self):
        """Restarts everything; [(name, begin, end) in seconds since the epoch, what was said of it]. Raises OSError
        as do()."""
        restarts = []
        with subprocess.Popen([TOOL, "roll", "--dir", self.folder], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if told := RESTARTED.fullmatch(line.strip()):
                    restarts.append((told[1], time.time() - float(told[2]), time.time(), line))
            problem = process.stderr.read()
        if process.returncode != 0:
            raise OSError(problem.strip() or f"tools/cluster roll: exit code {process.returncode}")
        return restarts

    def fronts(self):
        """Their addresses."""
        found = json.loads(self.do("status", "--json"))
        return [front["address"] for front in found["fronts"]]


@contextlib.contextmanager
def own(settings, kerfd, folder, out):
    """A new one, as the section `cluster` of the settings describes it; its logs are left in `out`."""
    cluster = Cluster(pathlib.Path(folder) / "cluster")
    # kerf lies beside kerfd.
    cluster.do("up", "--workers", str(settings.workers), "--fronts", str(settings.fronts), "--kerfd", kerfd, "--kerf",
               pathlib.Path(kerfd).with_name("kerf"))
    try:
        yield cluster
    finally:
        for log in cluster.folder.glob("*.log"):
            shutil.copy(log, out)
        for log in cluster.folder.glob("redis/node*/log"):
            shutil.copy(log, pathlib.Path(out) / f"{log.parent.name.replace('node', 'redis-')}.log")
        cluster.do("down", "--now")


class Roll:
    """In a thread: restarts all workers and fronts `at_s` from now."""

    def __init__(self, cluster, at_s):
        self.cluster, self.said, self.problem = cluster, "", None
        # [(name, begin, end)] in seconds since the epoch: who was restarted.
        self.absences = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(at_s,))
        self._thread.start()

    def _run(self, at_s):
        if self._ending.wait(at_s):
            self.problem = "the run ended before it"
            return
        began = time.monotonic()
        moment = time.strftime("%H:%M:%S")
        try:
            restarts = self.cluster.roll()
        except OSError as error:
            self.problem = str(error)
            return
        if self._ending.is_set():
            self.problem = "the run ended before its end: give it more --time"
        self.absences = [restart[:3] for restart in restarts]
        said = "".join(restart[3] for restart in restarts)
        self.said = f"{said}all restarted in {time.monotonic() - began:.0f} s from {moment} on, under load"

    def end(self):
        """The load has ended: waits for the restart, and returns whether all of it was under load."""
        self._ending.set()
        self._thread.join()
        print(f"loadtest/run: rolling restart: {self.problem or 'all went well'}\n{self.said}")
        return self.problem is None
