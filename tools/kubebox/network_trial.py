"""Each NetworkPolicy of deploy/, tried: connections from pods to pods, of which those alone pass that EXPECTED names.

What is expected is written out here, as deploy/README.md tells it; nothing of it comes from the policies themselves.
"""

import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys
import time

import apply
import pods
from box import GATEWAY, node_address
from policies import EGRESS, INGRESS
from processes import Failed, wait_until

PROBE = pathlib.Path(__file__).absolute().parent / "probe.py"
HERE, AGENTS, ELSEWHERE, MONITORING, LOAD, SYSTEM = "kerf", "agents", "elsewhere", "monitoring", "kerf-load", "kube-system"
NAMESPACE_LABELS = {AGENTS: {"kerf-agents": "true"}, ELSEWHERE: {}, MONITORING: {}}
# Those whose pods policies hold for.
GUARDED = (HERE, LOAD)
# Within this time rules have followed a pod, a label or a policy.
FOLLOW_S = 5
# A packet that is lost is sent again after one second. Brief is enough where it is asked again.
TIMEOUT_S, BRIEF_TIMEOUT_S = 2, 0.4


def kerf(component):
    return {"app.kubernetes.io/name": "kerf", "app.kubernetes.io/component": component}


def load(component):
    return {"app.kubernetes.io/name": "kerf-loadtest", "app.kubernetes.io/component": component, "kerf-agent": "true"}


AGENT, PROMETHEUS = {"kerf-agent": "true"}, {"app.kubernetes.io/name": "prometheus"}
# Pods that only stand there: who -> (namespace, labels).
STAND_INS = {
    "agent": (AGENTS, AGENT),
    "agent in kerf's namespace": (HERE, AGENT),
    "stranger in kerf's namespace": (HERE, {}),
    "pod beside agents": (AGENTS, {}),
    "self-styled agent": (ELSEWHERE, AGENT),
    "self-styled front": (ELSEWHERE, kerf("front")),
    "self-styled worker": (ELSEWHERE, kerf("worker")),
    "self-styled redis": (ELSEWHERE, kerf("redis")),
    "self-styled Prometheus": (ELSEWHERE, PROMETHEUS),
    "self-styled name server": (ELSEWHERE, {"k8s-app": "kube-dns"}),
    "self-styled load-master": (ELSEWHERE, load("load-master")),
    "self-styled load-worker": (ELSEWHERE, load("load-worker")),
    "Prometheus": (MONITORING, PROMETHEUS),
    "pod beside Prometheus": (MONITORING, {}),
    "pod beside the name server": (SYSTEM, {}),
    "load-master": (LOAD, load("load-master")),
    "load-worker": (LOAD, load("load-worker")),
    "stranger beside the load": (LOAD, {}),
}
# What really runs, and two of it, for each has others of its kind.
REAL = {"front": 2, "worker": 2, "redis": 2}
NAMED = {"grpc": 7461, "metrics": 9461, "redis": 6379, "bus": 16379, "locust": 5557}
# At these everybody listens whom a connection may reach: what is kerf's, in other pods, too, and what is nobody's.
PORTS = {**{name: ("TCP", number) for name, number in NAMED.items()},
         "other": ("TCP", 7999), "grpc over UDP": ("UDP", 7461), "names": ("UDP", 53), "names over TCP": ("TCP", 53)}
REDIS_PORTS = {**PORTS, "metrics": ("TCP", 9121)}
# (who, whom) -> at which of PORTS. Everything else that begins or ends in a guarded namespace does not pass. Where both ends
# are guarded each of them sees to that by itself, so it holds also while the other is open.
EXPECTED = {
    ("agent", "front"): {"grpc"},
    ("agent in kerf's namespace", "front"): {"grpc"},
    ("front", "worker"): {"grpc"},
    ("worker", "redis"): {"redis"},
    ("redis", "redis"): {"redis", "bus"},
    ("Prometheus", "front"): {"metrics"},
    ("Prometheus", "worker"): {"metrics"},
    ("Prometheus", "redis"): {"metrics"},
    ("load-master", "front"): {"grpc"},
    ("load-worker", "front"): {"grpc"},
    ("load-worker", "load-master"): {"locust"},
}
NAME_SERVER, OUTSIDE, NODE = "name server", "outside", "node"
OPENER = "trial-opens"
NAMES = {"names", "names over TCP"}


@dataclasses.dataclass
class Actor:
    """Somebody with an address. `command`: what a command line in his network begins with."""

    kind: str
    namespace: str | None
    name: str
    address: str
    command: list
    ports: dict
    labels: dict = dataclasses.field(default_factory=dict)
    process: subprocess.Popen | None = None

    def __str__(self):
        return f"{self.kind} ({self.name})"

    def start(self):
        self.process = subprocess.Popen([*self.command, sys.executable, "-B", PROBE, self.address, json.dumps(list(self.ports.values()))],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, timeout_s, targets):
        self.process.stdin.write(json.dumps([timeout_s, targets]) + "\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"{self}: its probe has ended")
        return line

    def end(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


def should_pass(source, target, port, opened=None):
    """`opened`: the direction in which everything is let through."""
    if source.kind == NODE:
        return True
    if target.kind == NAME_SERVER and port in NAMES:
        return True
    if (source.namespace not in GUARDED or opened == EGRESS) and (target.namespace not in GUARDED or opened == INGRESS):
        return True
    return port in EXPECTED.get((source.kind, target.kind), ())


class Trial:
    """`with Trial(...) as trial`: its pods are there."""

    def __init__(self, cluster, root):
        self.plane, self.box, self.root = cluster.plane(), cluster.box, root
        self.keeper = cluster.state["policy_keeper"]
        self.actors, self.opened = [], None

    def __enter__(self):
        with contextlib.ExitStack() as undo:
            undo.callback(self.__exit__)
            self._make_pods()
            self._find_actors()
            for actor in self.actors:
                self.start(actor)
            undo.pop_all()
        return self

    def __exit__(self, *_):
        for actor in self.actors:
            actor.end()
        for kind, (namespace, _) in STAND_INS.items():
            # The agent is the scenario's.
            if kind != "agent":
                self.plane.kubectl(f"--namespace={namespace}", "delete", "pod", pod_name(kind), "--ignore-not-found", check=False)
        self.plane.kubectl("delete", "namespace", LOAD, ELSEWHERE, MONITORING, "--ignore-not-found", check=False)

    def start(self, actor):
        actor.start()
        if actor.hear() != "ready\n":
            raise Failed(f"{actor}: its probe does not begin")

    def _make_pods(self):
        """And the policies of deploy/overlays/loadtest, whose pods are too much work to be looked at while they run."""
        overlay = self.root / "deploy/overlays/loadtest"
        objects = apply.parse(self.plane, self.plane.kubectl("kustomize", str(overlay)).stdout, overlay)
        pods.create(self.plane, [one for one in objects if one["kind"] in ("Namespace", "NetworkPolicy")] +
                    [pods.namespace_object(name, labels) for name, labels in NAMESPACE_LABELS.items()])
        pods.create(self.plane, [stand_in(kind) for kind in STAND_INS])

    def _find_actors(self):
        for kind, (namespace, _) in STAND_INS.items():
            self.actors.append(self.actor(kind, pods.wait_running(self.plane, namespace, pod_name(kind))))
        for kind, count in REAL.items():
            found = json.loads(self.plane.kubectl(
                f"--namespace={HERE}", "get", "pods", f"--selector=app.kubernetes.io/component={kind}",
                "--output=json").stdout)["items"]
            if len(found) < count:
                raise Failed(f"{len(found)} pods of {kind}, and {count} are to be tried")
            self.actors += [self.actor(kind, pod) for pod in found[:count]]
        outside = self.box.enter()
        self.actors += [Actor(NAME_SERVER, None, GATEWAY, GATEWAY, outside, PORTS),
                        Actor(OUTSIDE, None, "an address that is no pod's", node_address(1), outside, PORTS),
                        Actor(NODE, None, "beside the pods", "", outside, {})]

    def actor(self, kind, pod):
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        ports = REDIS_PORTS if kind == "redis" else PORTS
        return Actor(kind, namespace, f"{namespace}/{name}", pod["status"]["podIP"], pods.enter(self.box, pod), ports,
                     pod["metadata"].get("labels", {}))

    def pairs(self, is_wanted=lambda source, target, port: True):
        """(source, target, port) of all that can be tried."""
        for source in self.actors:
            for target in self.actors:
                # Whoever is outside asks for nothing: the node does, from the same network.
                if source.kind in (NAME_SERVER, OUTSIDE) or target.kind == NODE or source is target:
                    continue
                for port in target.ports:
                    if is_wanted(source, target, port):
                        yield source, target, port

    def wrong(self, pairs, is_brief=False):
        """Which of them are not as they should be, in words."""
        timeout_s = BRIEF_TIMEOUT_S if is_brief else TIMEOUT_S
        asked = {}
        for source, target, port in pairs:
            asked.setdefault(id(source), (source, []))[1].append((target, port))
        for source, targets in asked.values():
            source.ask(timeout_s, [[target.ports[port][0], target.address, target.ports[port][1]] for target, port in targets])
        found = []
        for source, targets in asked.values():
            for (target, port), passes in zip(targets, json.loads(source.hear()), strict=True):
                if passes != should_pass(source, target, port, self.opened):
                    found.append(f"{source} {'reaches' if passes else 'does not reach'} {target} at {port}, and "
                                 f"{'must not' if passes else 'must'}")
        return found

    def wait_right(self, pairs, what, is_brief=False):
        """Seconds until all of them are as they should be."""
        began, pairs = time.monotonic(), list(pairs)
        said = []

        def is_right():
            said[:] = self.wrong(pairs, is_brief)
            return not said

        wait_until(is_right, FOLLOW_S, what, lambda: tell(said))
        return time.monotonic() - began

    @contextlib.contextmanager
    def open(self, direction):
        """Policies of the trial let everything through in one direction: what is shut then the others shut."""
        field = direction.lower()
        objects = [{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                    "metadata": {"name": OPENER, "namespace": namespace},
                    "spec": {"podSelector": {}, "policyTypes": [direction], field: [{}]}} for namespace in GUARDED]
        pods.create(self.plane, objects)
        self.opened = direction
        try:
            yield
        finally:
            for namespace in GUARDED:
                self.plane.kubectl(f"--namespace={namespace}", "delete", "networkpolicy", OPENER)
            self.opened = None

    def check(self):
        """All of it, at once; the number of connections that were tried."""
        # What passes shows that the rules know all pods, and who listens; only then what does not pass shows something.
        allowed = self.pairs(lambda source, target, port: should_pass(source, target, port, self.opened))
        self.wait_right(allowed, "what NetworkPolicies allow")
        pairs = list(self.pairs())
        # Twice, for UDP has no connections: a port that asked while it was allowed, and comes again, gets its answer for half
        # a minute. Another port does not.
        found = self.wrong(pairs)
        if found:
            again = set(self.wrong(pairs))
            found = [one for one in found if one in again]
        if found:
            raise Failed(f"NetworkPolicies: {tell(found)}")
        return len(pairs)


def pod_name(kind):
    return "".join(letter if letter.isalnum() else "-" for letter in kind.lower())


def stand_in(kind):
    namespace, labels = STAND_INS[kind]
    return pods.stand_in(namespace, pod_name(kind), labels, NAMED)


def tell(found):
    return "\n".join([f"{len(found)} connections are not as they should be", *found[:20]])
