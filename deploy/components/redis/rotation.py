"""deploy/redis-password with six real nodes of Redis, and a kubectl that only plays one: a worker goes on writing meanwhile."""

import base64
import json
import pathlib
import subprocess
import threading
import time

from redis_pods import COMPONENT, PASSWORDS, PATIENCE_S, check, sum_of, wait_until

TOOL = pathlib.Path(__file__).resolve().parents[2] / "redis-password"
# A Secret reaches pods one after another.
MAX_LAG_S = 0.4
# Between two writes.
PAUSE_S = 0.1
KUBECTL = """#!/usr/bin/env python3
import json, os, pathlib, subprocess, sys, time
words, here = sys.argv[2:], pathlib.Path(__file__).parent
def put(name, text):
    (here / "new").write_text(text)
    (here / "new").rename(here / name)
if words[:2] == ["get", "statefulset/kerf-redis"]:
    volume = {"name": "passwords", "secret": {"secretName": "kerf-redis-1"}}
    print(json.dumps({"spec": {"replicas": 6, "template": {"spec": {"volumes": [volume]}}}}))
elif words[:2] == ["get", "statefulset/kerf-worker"]:
    print(json.dumps({"spec": {"replicas": 3}}))
elif words[:2] == ["get", "secret/kerf-redis-1"]:
    print((here / "secret").read_text())
elif words[0] == "replace":
    secret, known = json.load(sys.stdin), json.loads((here / "secret").read_text())
    if secret["metadata"] != known["metadata"]:
        sys.exit("Conflict")
    secret["metadata"]["resourceVersion"] += 1
    put("secret", json.dumps(secret))
elif words[0] == "exec":
    pod = json.loads((here / "pods").read_text())[int(words[1].rsplit("-", 1)[1])]
    sys.exit(subprocess.run(["sh", pod["script"], words[-1]], env=pod["environment"], check=False).returncode)
elif words[:2] == ["rollout", "restart"]:
    put("restart", "")
elif words[:2] == ["rollout", "status"]:
    (here / "patience").write_text(words[-1])
    if (here / "stranger").exists():
        secret = json.loads((here / "secret").read_text())
        secret["data"]["kerfd.sums"] = (here / "stranger").read_text()
        put("secret", json.dumps(secret))
        # No worker is there to be renewed.
        (here / "restart").unlink()
    deadline = time.monotonic() + 60
    while (here / "restart").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    sys.exit((here / "restart").exists())
elif words[0] != "annotate":
    sys.exit(f"kubectl: what is {words}?")
"""


class Background(threading.Thread):
    """step() again and again; join() brings its failure."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stopping, self.failure = threading.Event(), None

    def run(self):
        try:
            while not self.stopping.is_set():
                self.step()
        except (AssertionError, OSError, ValueError) as error:
            self.failure = error

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.join()

    def check(self):
        check(self.failure is None, f"{type(self).__name__}: {self.failure}")


class Kubernetes(Background):
    """The Secret, and the kubelets that mount it."""

    def __init__(self, cluster, rng):
        super().__init__()
        self.cluster, self.rng = cluster, rng
        self.folder = cluster.folder / "kubernetes"
        self.folder.mkdir()
        kubectl = self.folder / "kubectl"
        kubectl.write_text(KUBECTL)
        kubectl.chmod(0o755)
        values = {**PASSWORDS, **{f"{name}.sums": sum_of(password) for name, password in PASSWORDS.items()}}
        del values["operator"]
        data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
        (self.folder / "secret").write_text(json.dumps({"metadata": {"resourceVersion": 1}, "data": data}))
        pods = [{"script": str(COMPONENT / "keeper.sh"), "environment": pod.environment()} for pod in cluster.pods]
        (self.folder / "pods").write_text(json.dumps(pods))
        self.mounted = self.secret()

    def secret(self):
        data = json.loads((self.folder / "secret").read_text())["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def step(self):
        wanted = self.secret()
        if wanted != self.mounted:
            for pod in self.rng.sample(self.cluster.pods, len(self.cluster.pods)):
                time.sleep(self.rng.random() * MAX_LAG_S / len(self.cluster.pods))
                pod.mount(wanted)
            self.mounted = wanted
        time.sleep(0.02)


class Worker(Background):
    """Comes as kerfd, with the password that it was started with, and writes what must stay once Redis has said OK."""

    def __init__(self, cluster, kubernetes):
        super().__init__()
        self.cluster, self.kubernetes = cluster, kubernetes
        self.password = kubernetes.secret()["kerfd"].strip()
        self.connections = [connect(pod, "kerfd", self.password) for pod in cluster.pods]
        self.written = {}
        self.longest_pause_s = 0

    def step(self):
        if (self.kubernetes.folder / "restart").exists():
            check(all(map(is_open, self.connections)), "a new password beside the old one has ended connections")
            self.password = self.kubernetes.secret()["kerfd"].strip()
            (self.kubernetes.folder / "restart").unlink()
        number = len(self.written)
        pod = self.cluster.pods[number % len(self.cluster.pods)]
        began = time.monotonic()
        while (said := pod.ask("SET", f"hs:r{number}", str(number), user="kerfd", password=self.password)) != "OK":
            check(not said.startswith(("NOAUTH", "WRONGPASS", "NOPERM")), f"it is refused: {said}")
            check(time.monotonic() < began + PATIENCE_S, f"no write within {PATIENCE_S} s: {said}")
        self.longest_pause_s = max(self.longest_pause_s, time.monotonic() - began)
        self.written[f"hs:r{number}"] = str(number)
        time.sleep(PAUSE_S)


def connect(pod, user, password):
    connection = pod.connect()
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    connection.sendall(f'AUTH {user} "{quoted}"\r\n'.encode())
    said = connection.recv(1024)
    check(said == b"+OK\r\n", f"AUTH as {user}: {said}")
    return connection


def is_open(connection):
    try:
        connection.sendall(b"INFO memory\r\n")
        return connection.recv(1 << 16) != b""
    except OSError:
        return False


def change(user, kubernetes, meanwhile):
    """What redis-password says if it fails. meanwhile(): while it runs."""
    command = [TOOL, user, "--kubectl", str(kubernetes.folder / "kubectl"), "--timeout-s", str(PATIENCE_S)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as tool:
        try:
            meanwhile()
            said = tool.communicate(timeout=4 * PATIENCE_S)[0]
        finally:
            tool.kill()
    return f"redis-password {user}: {said}" if tool.returncode else ""


def hold_on(pod, user, link):
    """For some turns keeper.sh has no right to end connections at this node: nobody says that the old password is gone."""
    old = sum_of(PASSWORDS[user])
    check(pod.ask("ACL", "SETUSER", "self", "-client|kill") == "OK", "the right to end connections is not taken away")
    # The last of three steps, each of which has its time.
    wait_until(lambda: old not in pod.ask("ACL", "GETUSER", user), f"node {pod.number} takes the new password of {user} alone",
               3 * PATIENCE_S)
    refused = f"the connections of {user} could not be ended"
    log = pod.cluster.folder / f"keeper-{pod.number}.log"
    wait_until(lambda: log.read_text().count(refused) > 2, f"{refused} three times")
    said = pod.run("passwords", stdout=subprocess.PIPE, text=True).communicate(timeout=PATIENCE_S)[0]
    check(f"{user} " not in said and "own " in said, f"while {user} has connections with the old password it says {said}")
    check(is_open(link), "they are ended without a right to")
    check(pod.ask("ACL", "SETUSER", "self", "+client|kill") == "OK", "the right to end connections is not given back")


def go_on_without(cluster, rng, secret):
    """A Secret that has lost the keeper's password: a node goes on with the one that it knows, and introduces who is missing."""
    pod = rng.choice([pod for pod in cluster.pods if pod.is_master()])
    log = cluster.folder / f"keeper-{pod.number}.log"
    pod.mount({**secret, "keeper": ""})
    wait_until(lambda: "keeper is empty" in log.read_text(), f"node {pod.number} sees that the password is missing")
    lines = [line.split() for line in pod.ask("CLUSTER", "NODES").splitlines()]
    own = next(line[0] for line in lines if "myself" in line[2])
    stranger = rng.choice([line[0] for line in lines if "slave" in line[2] and line[3] != own])
    # For a minute it hears nothing of a node that it was told to forget; only keeper.sh can introduce it.
    check(pod.ask("CLUSTER", "FORGET", stranger) == "OK", "CLUSTER FORGET")
    cluster.wait_until_whole(f"{pod.number} without the keeper's password")
    pod.mount(secret)


def meet_another(kubernetes, old):
    """Somebody else changes the password while workers are renewed: nobody's is taken away."""
    sums = "".join(f"{sum_of(password)}\n" for password in (old, "of somebody else"))
    (kubernetes.folder / "stranger").write_text(base64.b64encode(sums.encode()).decode())
    failure = change("kerfd", kubernetes, lambda: None)
    (kubernetes.folder / "stranger").unlink()
    check("somebody else changes the password of kerfd, too" in failure, f"of somebody else it says {failure}")
    check(kubernetes.secret()["kerfd.sums"] == sums, "it has taken away what somebody else has written")
    check((kubernetes.folder / "patience").read_text() == f"--timeout={3 * PATIENCE_S}s", "each of 3 workers has its time")


def run(cluster, rng):
    began = time.monotonic()
    old = dict(PASSWORDS)
    with Kubernetes(cluster, rng) as kubernetes, Worker(cluster, kubernetes) as worker:
        for user in ("kerfd", "keeper"):
            links = [connect(pod, user, old[user]) for pod in cluster.pods]
            pod = rng.choice(cluster.pods)
            failure = change(user, kubernetes, lambda: hold_on(pod, user, links[pod.number]))
            kubernetes.check()
            worker.check()
            check(not failure, failure)
            PASSWORDS[user] = kubernetes.secret()[user].strip()
            check(PASSWORDS[user] != old[user], f"{user} has its old password")
            check(not any(map(is_open, links)), f"connections with the old password of {user} are still there")
            for pod in cluster.pods:
                said = pod.ask("INFO", "memory", user=user, password=old[user])
                check(said.startswith("NOAUTH"), f"node {pod.number} takes the old password of {user}: {said}")
                said = pod.ask("INFO", "memory", user=user)
                check("used_memory" in said, f"node {pod.number} does not take the new password of {user}: {said}")
        one = rng.choice(cluster.pods)
        one.stop()
        one.start()
        cluster.wait_until_whole(f"{one.number} started again with new passwords")
        go_on_without(cluster, rng, kubernetes.mounted)
        count = len(worker.written)
        wait_until(lambda: worker.failure or len(worker.written) > count, "a write")
        worker.check()
        meet_another(kubernetes, kubernetes.secret()["kerfd"].strip())
    for key, value in worker.written.items():
        check(cluster.pods[0].ask("GET", key) == value, f"{key} is lost")
    print(f"keeper_test: new passwords for kerfd and keeper within {time.monotonic() - began:.1f} s, {len(worker.written)} "
          f"writes meanwhile, none of them refused or lost, the slowest {worker.longest_pause_s:.1f} s")
