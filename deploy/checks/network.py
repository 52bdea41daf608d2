"""The NetworkPolicies let through what is needed and nothing else.

They are carried out here, for every pair of those who take part, and what comes out is compared with EXPECTED.
"""

import itertools

from manifests import matches, name_of

# Who else is in the cluster: (labels of the namespace, labels of the pod). HERE is the overlay's own namespace.
HERE = None
OUTSIDERS = {
    "a front in kerf's namespace, seen from another": (
        {"kubernetes.io/metadata.name": "kerf"}, {"app.kubernetes.io/name": "kerf", "app.kubernetes.io/component": "front"}),
    "a worker in kerf's namespace, seen from another": (
        {"kubernetes.io/metadata.name": "kerf"}, {"app.kubernetes.io/name": "kerf", "app.kubernetes.io/component": "worker"}),
    "an agent in kerf's namespace": (HERE, {"kerf-agent": "true"}),
    "an agent in a namespace of agents": ({"kerf-agents": "true"}, {"kerf-agent": "true"}),
    "a pod beside agents": ({"kerf-agents": "true"}, {}),
    "a pod that says it is an agent, in any namespace": ({}, {"kerf-agent": "true"}),
    "a stranger in kerf's namespace": (HERE, {}),
    "a stranger": ({"kubernetes.io/metadata.name": "default"}, {}),
    "a stranger called worker": ({}, {"app.kubernetes.io/name": "kerf", "app.kubernetes.io/component": "worker"}),
    "Prometheus": ({"kubernetes.io/metadata.name": "monitoring"}, {"app.kubernetes.io/name": "prometheus"}),
    "another pod of monitoring": ({"kubernetes.io/metadata.name": "monitoring"}, {}),
    "the name server": ({"kubernetes.io/metadata.name": "kube-system"}, {"k8s-app": "kube-dns"}),
    "another pod of kube-system": ({"kubernetes.io/metadata.name": "kube-system"}, {}),
}
# Of outsiders, by name.
PORTS = {"a front in kerf's namespace, seen from another": {"grpc": 7461, "metrics": 9461},
         "a worker in kerf's namespace, seen from another": {"grpc": 7461, "metrics": 9461}}
_DEFAULT_DENY = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
DNS = {("UDP", 53), ("TCP", 53)}
# (from, to) -> ports, by component. A port that a pod does not have is not expected of it.
EXPECTED = {
    ("an agent in kerf's namespace", "front"): {"grpc"},
    ("an agent in a namespace of agents", "front"): {"grpc"},
    ("front", "worker"): {"grpc"},
    ("worker", "redis"): {"redis"},
    ("redis", "redis"): {"redis", "bus"},
    ("load-worker", "load-master"): {"locust"},
    ("load-worker", "a front in kerf's namespace, seen from another"): {"grpc"},
    ("backup", "a front in kerf's namespace, seen from another"): {"grpc"},
    ("load-master", "a front in kerf's namespace, seen from another"): {"grpc"},
    ("Prometheus", "front"): {"metrics"},
    ("Prometheus", "worker"): {"metrics"},
    ("Prometheus", "redis"): {"metrics"},
}


def _unknown_fields(policy):
    spec = policy["spec"]
    for rule in spec.get("ingress", []) + spec.get("egress", []):
        for peer in rule.get("from", []) + rule.get("to", []):
            for selector in peer.values():
                if set(selector) - {"matchLabels"}:
                    yield f"{name_of(policy)}: this check understands matchLabels alone, not {sorted(selector)}"


def _is_peer(peer, namespace, labels):
    if "namespaceSelector" in peer:
        # The overlay's own namespace has no labels that its policies ask for.
        if not matches(peer["namespaceSelector"], namespace or {}):
            return False
    elif namespace is not HERE:
        return False
    return matches(peer.get("podSelector"), labels)


def _allowed(policies, labels, direction, other, target):
    """The ports that `labels` may be reached at by, or reach, the pod `other`; None if no policy says anything."""
    field, peers, kind = {"in": ("ingress", "from", "Ingress"), "out": ("egress", "to", "Egress")}[direction]
    chosen = [policy for policy in policies
              if kind in policy["spec"]["policyTypes"] and matches(policy["spec"]["podSelector"], labels)]
    if not chosen:
        return None
    ports = set()
    for rule in itertools.chain.from_iterable(policy["spec"].get(field, []) for policy in chosen):
        if peers in rule and not any(_is_peer(peer, *other) for peer in rule[peers]):
            continue
        if "ports" not in rule:
            ports |= {("TCP", port) for port in target.values()} | {("any", "any")}
        for port in rule.get("ports", []):
            number = target.get(port["port"], port["port"]) if isinstance(port["port"], str) else port["port"]
            ports.add((port.get("protocol", "TCP"), number))
    return ports


def flows(manifests, _):
    policies = manifests.of("NetworkPolicy")
    if not any(policy["spec"] == _DEFAULT_DENY for policy in policies):
        yield "there is no NetworkPolicy that denies everything to all pods: one that is added later would be open"
    for policy in policies:
        yield from _unknown_fields(policy)
    pods = {workload.component or workload.name: workload for workload in manifests.workloads}
    everybody = {**{name: (HERE, workload.labels, workload.ports) for name, workload in pods.items()},
                 **{name: (*where, PORTS.get(name, {})) for name, where in OUTSIDERS.items()}}
    for (source, (from_space, from_labels, _)), (target, (to_space, to_labels, named)) in itertools.product(
            everybody.items(), repeat=2):
        if from_space is not HERE and to_space is not HERE or source == target and source not in pods:
            continue
        # Both ends must agree; an end that is elsewhere does. Here policies hold for everybody, whoever made the pod.
        ends = []
        if from_space is HERE:
            ends.append(_allowed(policies, from_labels, "out", (to_space, to_labels), named))
        if to_space is HERE:
            ends.append(_allowed(policies, to_labels, "in", (from_space, from_labels), named))
        if None in ends:
            yield f"{source} to {target}: no NetworkPolicy covers {source if ends[0] is None else target}: default-deny must"
            continue
        allowed = set.intersection(*ends)
        wanted = {("TCP", named[port]) for port in EXPECTED.get((source, target), ()) if port in named}
        if source == "Prometheus" and not manifests.of("ServiceMonitor"):
            wanted = set()
        if target == "the name server":
            wanted = DNS
        for port in sorted(allowed - wanted, key=str):
            yield f"{source} may reach {target} at {port}, and has no need to: a NetworkPolicy lets too much through"
        for port in sorted(wanted - allowed, key=str):
            yield f"{source} cannot reach {target} at {port}, and must: a NetworkPolicy is missing"


RULES = [flows]
