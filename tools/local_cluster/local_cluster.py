"""Fronts, workers and a Redis Cluster as processes of this machine, on loopback: what tools/cluster does.

All of a cluster is in one folder: cluster.json says what was started, with the time at which each process
began, so that a number that has become another process' is never mistaken for it.
"""

import concurrent.futures
import contextlib
import fcntl
import json
import os
import pathlib
import random
import re
import secrets
import shutil
import signal
import subprocess
import time

import processes
from processes import Failed, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
REDIS_CLUSTER = ROOT / "tools" / "redis-cluster"
STATE = "cluster.json"
LOCK = "lock"
HINT_KEY_BYTES = 32
PASSWORD_BYTES = 24
START_TIMEOUT_S = 30
# A worker that stops ends what is left once its drain is over; this is for the rest of its end.
STOP_MARGIN_S = 15
# As long as the others need for a start.
LOCK_TIMEOUT_S = 40
# A front asks a worker that was gone every 5 s at the least.
SEEN_TIMEOUT_S = 20
CHECK_S = 1.0
PING_TIMEOUT_S = 10
LOG_TAIL_LINES = 5
PARTS = ("front", "worker", "redis")


@contextlib.contextmanager
def uninterrupted():
    """SIGINT and SIGTERM come after it: between the start of a process and the note of its number nobody could end
    that process."""
    came = []
    before = {number: signal.signal(number, lambda number, _: came.append(number))
              for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)


def agent_environment(tls):
    """Of kerf: how it speaks to a cluster of which `tls` is the folder of certificates."""
    if tls is None:
        return None
    return dict(os.environ, KERF_TLS_CA=f"{tls}/ca.pem", KERF_TLS_CERT=f"{tls}/agent.pem", KERF_TLS_KEY=f"{tls}/agent.key")


class Process:
    """One kerfd. `command` has no address: that is chosen at the first start, and kept."""

    def __init__(self, folder, name, command, address="", pid=0, start_time=0):
        self.folder, self.name, self.command = folder, name, command
        self.address, self.pid, self.start_time = address, pid, start_time

    @property
    def part(self):
        return self.name.partition("-")[0]

    @property
    def ready_file(self):
        return self.folder / f"{self.name}.ready"

    @property
    def log_file(self):
        return self.folder / f"{self.name}.log"

    def to_json(self):
        return {"name": self.name, "command": self.command, "address": self.address, "pid": self.pid,
                "start_time": self.start_time}

    def letter(self):
        """The state letter of /proc; None if it has ended."""
        stat = processes.state(self.pid) if self.pid else None
        return stat[0] if stat and stat[1] == self.start_time and stat[0] not in "ZX" else None

    def is_alive(self):
        return self.letter() is not None

    def spawn(self, host):
        """Starts it, and does not wait until it serves."""
        self.ready_file.unlink(missing_ok=True)
        listen = self.address or f"{host}:0"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KERFD_")}
        with uninterrupted(), open(self.log_file, "ab") as log:
            child = subprocess.Popen([*self.command, "--listen", listen, "--ready-file", str(self.ready_file)],
                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                                     env=environment, start_new_session=True)
            self.pid = child.pid
            stat = processes.state(child.pid)
            self.start_time = stat[1] if stat else 0

    def wait_until_ready(self):
        wait_until(lambda: self.ready_file.exists() or not self.is_alive(), START_TIMEOUT_S, f"{self.name} to be ready",
                   self.log_tail)
        if not self.ready_file.exists():
            raise Failed(f"{self.name} did not start; {self.log_tail()}")
        self.address = self.ready_file.read_text(encoding="ascii").split()[0]

    def log_tail(self):
        return processes.log_tail(self.log_file, LOG_TAIL_LINES)

    def signal(self, number):
        """Whether it was there to get it."""
        if not self.is_alive():
            return False
        os.kill(self.pid, number)
        return True

    def wait_until_ended(self, timeout_s):
        """Whether it has."""
        try:
            wait_until(lambda: not self.is_alive(), timeout_s, f"the end of {self.name}")
        except Failed:
            return False
        return True

    def state(self, kerf, tls=None):
        """serving, refusing (it answers, and not well), silent, paused or down."""
        letter = self.letter()
        if letter is None:
            return "down"
        if letter in "Tt":
            return "paused"
        try:
            done = subprocess.run([kerf, "ping", "--quiet", "--server", self.address], stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=PING_TIMEOUT_S, check=False, env=agent_environment(tls))
        except subprocess.TimeoutExpired:
            return "silent"
        return "serving" if done.returncode == 0 else "refusing" if self.is_alive() else "down"


class Cluster:
    def __init__(self, folder, options, processes):
        self.folder, self.options, self.processes = folder, options, processes

    # What is kept.

    @staticmethod
    def load(folder):
        try:
            state = json.loads((folder / STATE).read_text(encoding="utf-8"))
            processes = [Process(folder, **fields) for fields in state["processes"]]
            return Cluster(folder, state["options"], processes)
        except FileNotFoundError:
            raise Failed(f"there is no cluster in {folder}; start one with `up`, or name its folder with "
                         "--dir") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Failed(f"{folder / STATE}: {error}; remove {folder} if nothing runs in it") from error

    def save(self):
        text = json.dumps({"options": self.options, "processes": [process.to_json() for process in self.processes]},
                          indent=1)
        temporary = self.folder / f"{STATE}.new"
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(self.folder / STATE)

    def of(self, part):
        return [process for process in self.processes if process.part == part]

    def find(self, name):
        for process in self.processes:
            if process.name == name:
                return process
        names = [process.name for process in self.processes] + [f"redis-{row['node']}" for row in self.redis_rows()]
        raise Failed(f"there is no {name}: there are {', '.join(names)}")

    # Redis, by tools/redis-cluster.

    def redis(self, *verb):
        """What it prints."""
        with uninterrupted():
            done = subprocess.run([REDIS_CLUSTER, "--dir", self.folder / "redis", *verb], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed((done.stderr or done.stdout).strip())
        return done.stdout.strip()

    def redis_rows(self):
        return json.loads(self.redis("status", "--json"))["nodes"]

    # Up and down.

    def start(self, workers, fronts):
        """Everything, or nothing: what was started ends if the rest does not start."""
        try:
            # As on Kubernetes: nobody gets in without a password, and workers may do there what they must.
            password = self.write_secret("redis.password", secrets.token_hex(PASSWORD_BYTES).encode())
            tls = self.make_certificates()
            redis_tls = ["--tls", tls] if tls else []
            seeds = self.redis("up", "--password-file", password, *redis_tls).split(",")
            key = self.write_secret("hint.key", os.urandom(HINT_KEY_BYTES))
            common = [self.options["kerfd"], "--drain-ms", str(self.options["drain_ms"])]
            if tls:
                common += ["--tls-cert", f"{tls}/kerfd.pem", "--tls-key", f"{tls}/kerfd.key", "--tls-client-ca",
                           f"{tls}/ca.pem"]
            command = [*common, "--role", "worker", "--hint-key-file", str(key), "--redis-user", "kerfd",
                       "--redis-password-file", str(password)]
            command += ["--redis-tls-ca", f"{tls}/ca.pem"] if tls else []
            for seed in seeds:
                command += ["--redis", seed]
            self.start_part("worker", workers, lambda name: [*command, "--worker-name", name])
            command = [*common, "--role", "front"]
            command += ["--worker-tls-ca", f"{tls}/ca.pem"] if tls else []
            for worker in self.of("worker"):
                command += ["--workers", worker.address]
            self.start_part("front", fronts, lambda name: [*command, "--worker-name", name])
        except BaseException:
            self.end(at_once=True)
            raise

    def tls(self):
        """The folder of certificates; None without TLS."""
        return self.folder / "tls" if self.options.get("tls") else None

    def make_certificates(self):
        """One for all servers, which they show each other too, and one for agents."""
        if self.tls() is None:
            return None
        done = subprocess.run([self.options["kerf"], "tls", "init", self.tls(), "--name", self.options["host"], "--name",
                               processes.HOST, "--client", "agent"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise Failed(f"kerf tls init: {done.stderr.strip()}")
        for kind in ("pem", "key"):
            (self.tls() / f"redis.{kind}").symlink_to(f"kerfd.{kind}")
        return self.tls()

    def write_secret(self, name, data):
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(data)
        return path

    def start_part(self, part, count, command_of):
        started = []
        for number in range(1, count + 1):
            name = f"{part}-{number}"
            process = Process(self.folder, name, command_of(name))
            self.processes.append(process)
            started.append(process)
            process.spawn(self.options["host"])
            self.save()
        for process in started:
            process.wait_until_ready()
        self.save()

    def end(self, at_once=False):
        """Ends what this cluster has started, and removes its folder."""
        for part in ("front", "worker"):
            for process in self.of(part):
                process.signal(signal.SIGCONT)
                process.signal(signal.SIGKILL if at_once else signal.SIGTERM)
            deadline = time.monotonic() + self.stop_timeout_s()
            for process in self.of(part):
                if not process.wait_until_ended(max(0, deadline - time.monotonic())):
                    process.signal(signal.SIGKILL)
                    process.wait_until_ended(STOP_MARGIN_S)
        self.redis("down")
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop_timeout_s(self):
        return self.options["drain_ms"] / 1000 + STOP_MARGIN_S

    def restart(self, process):
        """Of one that has ended, at the address that it had."""
        process.spawn(self.options["host"])
        self.save()
        process.wait_until_ready()

    # What it is like.

    def states(self):
        """{name: state} of fronts and workers, asked all at once."""
        with concurrent.futures.ThreadPoolExecutor(max(1, len(self.processes))) as pool:
            states = list(pool.map(lambda process: process.state(self.options["kerf"], self.tls()), self.processes))
        return {process.name: state for process, state in zip(self.processes, states)}

    def status(self):
        states = self.states()
        rows = {part: [{"name": process.name, "address": process.address,
                        "pid": process.pid if process.is_alive() else None, "state": states[process.name]}
                       for process in self.of(part)] for part in ("front", "worker")}
        redis = [{"name": f"redis-{row['node']}", "address": row["address"], "pid": row["pid"],
                  "state": redis_state(row), "role": row["role"],
                  "master": f"redis-{row['master']}" if row["master"] else None, "slots": row["slots"]}
                 for row in self.redis_rows()]
        everything = rows["front"] + rows["worker"] + redis
        return {"dir": str(self.folder), "tls": self.tls() and str(self.tls()), "healthy": all(row["state"] == "serving" for row in everything),
                "fronts": rows["front"], "workers": rows["worker"], "redis": redis}

    # Trouble, and what is none.

    def signal(self, name, number):
        if name.startswith("redis-"):
            for row in self.redis_rows():
                if name == f"redis-{row['node']}":
                    if row["pid"] is None:
                        raise Failed(f"{name} is down")
                    os.kill(row["pid"], number)
                    return
        process = self.find(name)
        if not process.signal(number):
            raise Failed(f"{name} is down")
        if number == signal.SIGKILL:
            process.wait_until_ended(STOP_MARGIN_S)

    def start_one(self, name):
        if name.startswith("redis-"):
            self.redis("start", name.removeprefix("redis-"))
            return
        process = self.find(name)
        if process.is_alive():
            raise Failed(f"{name} runs already, as process {process.pid}")
        self.restart(process)

    def roll(self, parts, say):
        """Restarts one after another, each once all others serve."""
        for process in [process for part in parts for process in self.of(part)]:
            self.wait_until_serving([other for other in self.processes if other is not process])
            began = time.monotonic()
            words_before = {front.name: words_on_worker(front, process) for front in self.of("front")}
            if not process.signal(signal.SIGTERM):
                raise Failed(f"{process.name} is down; `start` it first")
            if not process.wait_until_ended(self.stop_timeout_s()):
                raise Failed(f"{process.name} has not ended {self.stop_timeout_s():.0f} s after SIGTERM: see "
                             f"{process.log_file}; nothing else was restarted")
            drained_s = time.monotonic() - began
            self.restart(process)
            self.wait_until_serving([process])
            if process.part == "worker":
                self.wait_until_fronts_see(process, words_before)
            say(f"{process.name} at {process.address} drained in {drained_s:.1f} s and serves again after "
                f"{time.monotonic() - began:.1f} s")

    def wait_until_serving(self, who):
        waiting = []

        def are_serving():
            waiting[:] = [process.name for process in who if process.state(self.options["kerf"], self.tls()) != "serving"]
            return not waiting

        wait_until(are_serving, START_TIMEOUT_S, "all to be serving",
                   lambda: f"{', '.join(waiting)}: not serving; nothing else was restarted")

    def wait_until_fronts_see(self, worker, words_before):
        """Fronts say in their logs whom they have lost and found. One that checks rarely enough to have missed the
        restart says nothing, which is as well: it is given a check's time to say so."""
        def sees_it(front):
            words = words_on_worker(front, worker)
            return words == words_before[front.name] or words[-1] == "alive"

        time.sleep(CHECK_S)
        for front in self.of("front"):
            wait_until(lambda front=front: sees_it(front), SEEN_TIMEOUT_S, f"{front.name} to see {worker.name} again",
                       lambda front=front: f"see {front.log_file}")


def words_on_worker(front, worker):
    """["alive", "lost", ...]: what a front has said of a worker since its log began."""
    text = front.log_file.read_text(encoding="utf-8", errors="replace")
    return re.findall(rf" at {re.escape(worker.address)} is (alive|lost)", text)


def redis_state(row):
    if row["pid"] is None:
        return "down"
    stat = processes.state(row["pid"])
    if stat and stat[0] in "Tt":
        return "paused"
    return "failed" if row["role"].startswith("failed") else "serving"


@contextlib.contextmanager
def locked(folder):
    """One at a time changes a cluster."""
    if not folder.is_dir():
        raise Failed(f"there is no cluster in {folder}; start one with `up`, or name its folder with --dir")
    with open(folder / LOCK, "a", encoding="ascii") as lock:
        def is_ours():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        wait_until(is_ours, LOCK_TIMEOUT_S, f"the end of another tools/cluster that is at work in {folder}",
                   lambda: "wait for it")
        yield


def own_host():
    """An address of loopback that is most likely nobody else's. Outgoing connections have 127.0.0.1, so none of them
    takes the port of a process that is being restarted."""
    choose = random.SystemRandom()
    return f"127.{choose.randint(1, 254)}.{choose.randint(0, 254)}.{choose.randint(1, 254)}"
