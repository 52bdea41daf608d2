"""Who makes trouble, one for each part of the cluster and one for an agent's disk: a seeded list of faults, each
followed by what mends it. A part has one fault at a time, so that somebody is left to go on; the parts have theirs
at once."""

import json
import random
import subprocess
import threading
import time

import cluster
from processes import wait_until

REDIS_TOOL = cluster.TOOL.with_name("redis-cluster")
# Beyond three missed checks of a front, and beyond the keepalive of a stream (20 s).
SILENT_S, LONG_SILENT_S = (4, 7), (22, 26)
# Beyond the node timeout of Redis (2 s).
REDIS_SILENT_S = (3, 8)
DOWN_S = (0, 3)
FULL_S = (0.5, 3)
BETWEEN_S = (0.5, 2)
WHOLE_TIMEOUT_S = 90
POLL_S = 0.2


class Maker:
    """`plan` is drawn before anything begins, so that a seed gives the same faults, whatever comes between."""
    part = ""
    faults = {}

    def __init__(self, seed, count, quick):
        choose = random.Random(f"{seed}/{self.part}")
        weights = {name: weight for name, weight in self.faults.items() if not (quick and name.startswith("long"))}
        self.plan = [(choose.choices(list(weights), list(weights.values()))[0], choose.random(), choose.random(),
                      choose.uniform(*BETWEEN_S)) for _ in range(count)]
        self.done = {}
        self.problem = None
        self._giving_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.part)

    def start(self):
        self._thread.start()

    def join(self):
        self._thread.join()

    def give_up(self):
        """After the fault that is under way."""
        self._giving_up.set()

    def _run(self):
        for number, (fault, which, how_long, pause_s) in enumerate(self.plan, 1):
            if self._giving_up.wait(pause_s):
                self.problem = f"{self.part}: given up before fault {number}"
                return
            try:
                said = self.make(fault, which, how_long)
            except Exception as error:  # Whatever it is: a fault less than was asked for.
                self.problem = f"{self.part}: fault {number}, {fault}: {error!r}"
                return
            self.done[fault] = self.done.get(fault, 0) + 1
            print(f"faults: {time.strftime('%H:%M:%S')} {self.part} {number}/{len(self.plan)}: {said}", flush=True)


def between(span, share):
    return span[0] + share * (span[1] - span[0])


class ProcessMaker(Maker):
    """Fronts or workers."""
    faults = {"kill": 5, "silence": 4, "long silence": 1, "restart": 1}

    def __init__(self, own, names, *arguments):
        self.cluster, self.names = own, names
        self.part = names[0].partition("-")[0]
        super().__init__(*arguments)

    def make(self, fault, which, how_long):
        name = self.names[int(which * len(self.names))]
        if fault in ("silence", "long silence"):
            silent_s = between(SILENT_S if fault == "silence" else LONG_SILENT_S, how_long)
            self.cluster.do("kill", name, "--signal", "STOP")
            time.sleep(silent_s)
            self.cluster.do("kill", name, "--signal", "CONT")
            return f"{name} was paused for {silent_s:.1f} s"
        self.cluster.do("kill", name, "--signal", "KILL" if fault == "kill" else "TERM")
        wait_until(lambda: state_of(self.cluster, name) == "down", WHOLE_TIMEOUT_S, f"the end of {name}", poll_s=POLL_S)
        down_s = between(DOWN_S, how_long)
        time.sleep(down_s)
        self.cluster.do("start", name)
        return f"{name} {'was killed' if fault == 'kill' else 'was asked to end'}, and was away for {down_s:.1f} s"


def state_of(own, name):
    found = json.loads(own.do("status", "--json"))
    return next(row["state"] for row in found["fronts"] + found["workers"] if row["name"] == name)


class RedisMaker(Maker):
    part = "redis"
    faults = {"kill master": 3, "silence master": 3, "fail over": 3, "kill replica": 1}

    def __init__(self, own, *arguments):
        self.folder = own.folder / "redis"
        super().__init__(*arguments)

    def do(self, *verb):
        done = subprocess.run([REDIS_TOOL, "--dir", self.folder, *verb], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False, timeout=WHOLE_TIMEOUT_S)
        if done.returncode != 0:
            raise OSError(f"{verb[0]}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def nodes(self):
        return json.loads(self.do("status", "--json"))

    def make(self, fault, which, how_long):
        self.wait(self.is_well, "well before the fault")
        role = "replica" if fault == "kill replica" else "master"
        nodes = [row["node"] for row in self.nodes()["nodes"] if row["role"] == role]
        node = str(nodes[int(which * len(nodes))])
        if fault == "fail over":
            self.do("failover", node)
            return f"a replica took over from master {node}"
        if fault == "silence master":
            silent_s = between(REDIS_SILENT_S, how_long)
            self.do("pause", node)
            time.sleep(silent_s)
            self.do("resume", node)
            self.wait(self.is_well, "well again")
            return f"master {node} was paused for {silent_s:.1f} s"
        self.do("kill", node)
        if role == "master":
            # One that comes back before it is missed has forgotten what its log had not on the disk.
            self.wait(lambda: any(row["role"] == "failed master" for row in self.nodes()["nodes"])
                      and self.nodes()["whole"], "replaced")
        time.sleep(between(DOWN_S, how_long))
        self.do("start", node)
        self.wait(self.is_well, "well again")
        return f"{role} {node} was killed and came back"

    def is_well(self):
        found = self.nodes()
        return found["whole"] and sorted(row["role"] for row in found["nodes"]) == ["master"] * 3 + ["replica"] * 3

    def wait(self, condition, what):
        wait_until(condition, WHOLE_TIMEOUT_S, f"Redis to be {what}", poll_s=POLL_S)


class DiskMaker(Maker):
    part = "disk"
    faults = {"full": 1}

    def __init__(self, disk, *arguments):
        self.disk = disk
        super().__init__(*arguments)

    def make(self, fault, which, how_long):
        full_s = between(FULL_S, how_long)
        self.disk.fill()
        time.sleep(full_s)
        self.disk.free()
        return f"an agent's disk was full for {full_s:.1f} s"
