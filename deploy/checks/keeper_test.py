#!/usr/bin/env python3
"""Six real nodes of Redis under components/redis/keeper.sh on loopback: they form a cluster, and mend it when pods come
back with new addresses, with each other's, or without their disks.

usage: keeper_test.py [--seed N]
"""

import argparse
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

COMPONENT = pathlib.Path(__file__).resolve().parent.parent / "components/redis"
COUNT = 6
PATIENCE_S = 45
PASSWORDS = {"keeper": 'half "quoted" \\ and more', "kerfd": "of kerfd # alone", "operator": "of a person"}


class Pod:
    """What a pod is: two processes, an address for as long as they live, and a disk that outlives them."""

    def __init__(self, cluster, number):
        self.cluster, self.number = cluster, number
        self.disk = cluster.folder / f"disk-{number}"
        self.disk.mkdir()
        self.processes = []

    def environment(self):
        scratch = self.cluster.folder / f"scratch-{self.number}"
        return {"PATH": os.environ["PATH"], "KERF_REDIS_SETTINGS": str(self.cluster.settings),
                "KERF_REDIS_PASSWORDS_PATH": str(self.cluster.passwords),
                "KERF_REDIS_DATA": str(self.disk), "KERF_REDIS_SCRATCH": str(scratch),
                "KERF_REDIS_ADDRESS": self.cluster.addresses[self.number],
                "KERF_REDIS_PORT": str(self.cluster.port), "KERF_REDIS_PAUSE_S": "0.3"}

    def run(self, verb, **options):
        return subprocess.Popen(["sh", str(COMPONENT / "keeper.sh"), verb], env=self.environment(),
                                stdin=subprocess.DEVNULL, **options)

    def start(self):
        (self.cluster.folder / f"scratch-{self.number}").mkdir(exist_ok=True)
        for verb, name in (("start", "redis"), ("keep", "keeper")):
            with open(self.cluster.folder / f"{name}-{self.number}.log", "ab") as log:
                self.processes.append(self.run(verb, stdout=log, stderr=log, start_new_session=True))

    def stop(self, how=signal.SIGTERM):
        for process in self.processes:
            os.killpg(process.pid, how)
        for process in self.processes:
            process.wait(PATIENCE_S)
        self.processes = []

    def ask(self, *command, user="operator"):
        done = subprocess.run(["redis-cli", "-h", self.cluster.addresses[self.number], "-p", str(self.cluster.port),
                               "-c", "--user", user, "--no-auth-warning", *command],
                              env={**os.environ, "REDISCLI_AUTH": PASSWORDS[user]},
                              capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        return done.stdout.strip()

    def is_ready(self):
        return self.run("ready").wait(PATIENCE_S) == 0

    def is_master(self):
        return "role:master" in self.ask("INFO", "replication")


class Cluster:
    def __init__(self, folder, rng):
        self.folder = folder
        self.settings = folder / "settings"
        self.settings.mkdir()
        settings = (COMPONENT / "redis.conf").read_text().replace("cluster-node-timeout 5000", "cluster-node-timeout 1500")
        # The same sooner: by default a master waits 5 s for more replicas to come before it sends anything.
        (self.settings / "redis.conf").write_text(settings + "repl-diskless-sync-delay 0\n")
        shutil.copy(COMPONENT / "users", self.settings)
        self.passwords = folder / "passwords"
        self.passwords.mkdir()
        for name, password in PASSWORDS.items():
            (self.passwords / name).write_text(password + "\n")
        # A network of its own, so that two runs do not meet; the bus is 10,000 above the port.
        self.network = f"127.{rng.randrange(16, 250)}"
        self.subnet = 0
        with socket.socket() as probe:
            probe.bind((f"{self.network}.0.1", 0))
            self.port = 20_000 + probe.getsockname()[1] % 10_000
        self.renumber()
        self.pods = [Pod(self, number) for number in range(COUNT)]

    def renumber(self):
        """New addresses for all; to be called while no pod runs."""
        self.subnet += 1
        self.set_addresses([f"{self.network}.{self.subnet}.{number + 1}" for number in range(COUNT)])

    def set_addresses(self, addresses):
        """What the name server does: the same names in the same order have other addresses."""
        self.addresses = addresses
        changed = self.settings / "peers.new"
        changed.write_text("".join(f"{address}\n" for address in addresses))
        changed.rename(self.settings / "peers")

    def why_not_whole(self):
        ids = set()
        for pod in self.pods:
            if not pod.is_ready():
                return f"node {pod.number} is not ready"
            lines = [line.split() for line in pod.ask("CLUSTER", "NODES").splitlines()]
            known = {line[0] for line in lines}
            ids = ids or known
            if len(known) != COUNT or known != ids:
                return f"node {pod.number} knows {len(known)} nodes"
            masters = [line[0] for line in lines if "master" in line[2]]
            followed = sorted(line[3] for line in lines if "slave" in line[2])
            if len(masters) != 3 or followed != sorted(masters):
                return f"node {pod.number} sees {len(masters)} masters, and replicas of {followed}"
        return ""

    def wait_until_whole(self, step):
        started = time.monotonic()
        while why := self.why_not_whole():
            if time.monotonic() - started > PATIENCE_S:
                raise AssertionError(f"{step}: not whole after {PATIENCE_S} s: {why}")
            time.sleep(0.2)
        print(f"keeper_test: {step}: whole after {time.monotonic() - started:.1f} s")


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def check_data(cluster, values):
    for key, value in values.items():
        check(cluster.pods[0].ask("GET", key) == value, f"{key} is not {value}")


def check_users(cluster):
    """Each may do what is its own, and no other."""
    pod = cluster.pods[0]
    check("NOAUTH" in subprocess.run(["redis-cli", "-h", cluster.addresses[0], "-p", str(cluster.port), "PING"],
                                     capture_output=True, text=True, check=False).stdout, "a user and a password are asked for")
    for number in range(30):
        check(pod.ask("SET", f"hs:{number}", "x", user="kerfd") == "OK", "kerfd cannot write its keys")
    denied = {"kerfd": (["FLUSHALL"], ["CONFIG", "GET", "masterauth"], ["KEYS", "*"], ["SET", "key-1", "x"], ["CLUSTER", "RESET"],
                        ["ACL", "LIST"], ["SHUTDOWN"]),
              "keeper": (["GET", "hs:1"], ["SET", "hs:1", "x"], ["FLUSHALL"], ["CONFIG", "GET", "masterauth"], ["CLUSTER", "RESET"])}
    for user, commands in denied.items():
        for command in commands:
            said = pod.ask(*command, user=user)
            check(said.startswith("NOPERM"), f"{user} may {' '.join(command)}: {said}")


def run(cluster, rng):
    for pod in cluster.pods:
        pod.start()
    cluster.wait_until_whole("six new nodes")
    values = {f"key-{number}": str(rng.random()) for number in range(30)}
    for key, value in values.items():
        check(cluster.pods[0].ask("SET", key, value) == "OK", f"SET {key}")
    check_users(cluster)
    first_ids = {pod.ask("CLUSTER", "MYID") for pod in cluster.pods}

    for pod in cluster.pods:
        pod.stop()
    cluster.renumber()
    for pod in cluster.pods:
        pod.start()
    cluster.wait_until_whole("all with new addresses at once")
    check({pod.ask("CLUSTER", "MYID") for pod in cluster.pods} == first_ids, "they are the same nodes")
    check_data(cluster, values)

    one, other = rng.sample(range(COUNT), 2)
    cluster.pods[one].stop(signal.SIGKILL)
    cluster.pods[other].stop(signal.SIGKILL)
    addresses = list(cluster.addresses)
    addresses[one], addresses[other] = addresses[other], addresses[one]
    cluster.set_addresses(addresses)
    cluster.pods[one].start()
    cluster.pods[other].start()
    cluster.wait_until_whole(f"{one} and {other} with each other's address")
    check_data(cluster, values)

    leaver = rng.choice([pod for pod in cluster.pods if pod.is_master()])
    check(leaver.run("leave", stdout=subprocess.DEVNULL).wait(PATIENCE_S) == 0, "leave")
    check(not leaver.is_master(), "who leaves is no master any more")
    cluster.wait_until_whole(f"{leaver.number} has handed its slots over")
    check_data(cluster, values)

    loser = rng.choice([pod for pod in cluster.pods if pod.is_master()])
    lost_id = loser.ask("CLUSTER", "MYID")
    loser.stop(signal.SIGKILL)
    shutil.rmtree(loser.disk)
    loser.disk.mkdir()
    loser.start()
    cluster.wait_until_whole(f"{loser.number}, a master, without its disk")
    check(loser.ask("CLUSTER", "MYID") != lost_id, "it is another node")
    check_data(cluster, values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    seed = parser.parse_args().seed
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kerf-keeper-"))
    rng = random.Random(seed)
    cluster = Cluster(folder, rng)
    try:
        run(cluster, rng)
    except AssertionError as error:
        print(f"keeper_test: {error}; --seed {seed} replays it", file=sys.stderr)
        for log in sorted(folder.glob("*.log")):
            print(f"-- {log.name}\n{log.read_text(errors='replace')[-2500:]}", file=sys.stderr)
        return 1
    finally:
        for pod in cluster.pods:
            pod.stop(signal.SIGKILL)
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
