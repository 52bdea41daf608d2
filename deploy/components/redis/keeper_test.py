#!/usr/bin/env python3
"""Six real nodes of Redis under components/redis/keeper.sh on loopback: they form a cluster, and mend it when pods come
back with new addresses, with each other's, or without their disks, and where it would never mend itself (stalemates.py);
and their passwords change under load. With --tls as with components/redis-tls, whose certificates change, too.

usage: keeper_test.py [--tls KERF [--brief]] [--seed N]
"""

import argparse
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "checks"))

import redis_metrics
import rotation
import sealing
import stalemates
from redis_pods import COMPONENT, COUNT, PATIENCE_S, Cluster, check

EXPORTER = COMPONENT.parent / "redis-metrics/exporter.sh"


def check_data(cluster, values):
    for key, value in values.items():
        check(cluster.pods[0].ask("GET", key) == value, f"{key} is not {value}")


def check_users(cluster):
    """Each may do what is its own, and no other."""
    pod = cluster.pods[0]
    check("NOAUTH" in pod.cli("PING").stdout, "a user and a password are asked for")
    for number in range(30):
        check(pod.ask("SET", f"hs:{number}", "x", user="kerfd") == "OK", "kerfd cannot write its keys")
    denied = {"kerfd": (["FLUSHALL"], ["CONFIG", "GET", "masterauth"], ["KEYS", "*"], ["SET", "key-1", "x"], ["CLUSTER", "RESET"],
                        ["ACL", "LIST"], ["SHUTDOWN"]),
              "keeper": (["GET", "hs:1"], ["SET", "hs:1", "x"], ["FLUSHALL"], ["CONFIG", "GET", "masterauth"], ["CLUSTER", "RESET"],
                         ["CLUSTER", "DELSLOTS", "1"], ["CLUSTER", "SET-CONFIG-EPOCH", "9"], ["CLUSTER", "BUMPEPOCH"])}
    for user, commands in denied.items():
        for command in commands:
            said = pod.ask(*command, user=user)
            check(said.startswith("NOPERM"), f"{user} may {' '.join(command)}: {said}")


def check_exporter(pod):
    """What alerts ask for, from the exporter that runs beside the node; and it may do no more."""
    address = f"{pod.cluster.addresses[pod.number]}:{pod.cluster.port + 1}"
    process = subprocess.Popen(["sh", str(EXPORTER)], env={**pod.environment(), "KERF_REDIS_METRICS_LISTEN": address},
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + PATIENCE_S
        shown = ""
        while "\nredis_up 1\n" not in shown:
            check(process.poll() is None and time.monotonic() < deadline, f"the exporter shows no node: {shown[-500:]}")
            time.sleep(0.05)
            try:
                shown = urllib.request.urlopen(f"http://{address}/metrics", timeout=5).read().decode()
            except OSError:
                continue
    finally:
        process.terminate()
        said = process.communicate(timeout=PATIENCE_S)[1]
    names = set(re.findall(r"^(redis_\w+)[ {]", shown, re.M))
    missing = set(redis_metrics.SHOWN) - names - ({"redis_master_link_up"} if pod.is_master() else set())
    check(not missing, f"the exporter of node {pod.number} does not show {missing}")
    check("level=error" not in said, f"the exporter lacks a right: {said}")
    password = (pod.exporter / "password").read_text()
    for command in (["GET", "hs:1"], ["CONFIG", "GET", "masterauth"], ["ACL", "LIST"], ["CLIENT", "LIST"], ["SLOWLOG", "GET"]):
        said = pod.ask(*command, user="exporter", password=password)
        check(said.startswith("NOPERM"), f"the exporter may {' '.join(command)}: {said}")


def run(cluster, rng, is_brief):
    for pod in cluster.pods:
        pod.start()
    cluster.wait_until_whole("six new nodes")
    stalemates.check_epochs(cluster)
    values = {f"key-{number}": str(rng.random()) for number in range(30)}
    for key, value in values.items():
        check(cluster.pods[0].ask("SET", key, value) == "OK", f"SET {key}")
    check_users(cluster)
    if cluster.is_sealed:
        sealing.check_strangers(cluster)
        sealing.change(cluster, rng)
        sealing.go_wrong(cluster, rng)
        check_data(cluster, values)
    for role in (True, False):
        check_exporter(next(pod for pod in cluster.pods if pod.is_master() == role))
    if is_brief:
        return
    stalemates.crowd(cluster, rng)
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

    stalemates.be_denied(cluster)
    check_data(cluster, values)
    for is_renumbered, is_last in ((False, False), (False, True), (True, False)):
        stalemates.lose_disk(cluster, rng, is_renumbered, is_last)
        check_data(cluster, values)
    stalemates.hear_of_address(cluster, rng)
    check_data(cluster, values)

    rotation.run(cluster, rng)
    cluster.wait_until_whole("with other passwords")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--tls", type=pathlib.Path, metavar="KERF", help="all of them speak TLS; this kerf makes the certificates")
    parser.add_argument("--brief", action="store_true", help="only how a cluster forms, and what TLS changes")
    options = parser.parse_args()
    seed = options.seed
    # As Ctrl-C: what was started ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kerf-keeper-"))
    rng = random.Random(seed)
    cluster = Cluster(folder, rng, options.tls)
    try:
        run(cluster, rng, options.brief)
    except AssertionError as error:
        print(f"keeper_test: {error}; {f'--tls {options.tls} ' if options.tls else ''}--seed {seed} replays it", file=sys.stderr)
        for log in sorted(folder.glob("*.log")):
            print(f"-- {log.name}\n{log.read_text(errors='replace')[-2500:]}", file=sys.stderr)
        return 1
    finally:
        # Whoever ends a group sends it twice, by `timeout` for one: the second must not leave nodes behind.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for pod in cluster.pods:
            pod.stop(signal.SIGKILL)
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
