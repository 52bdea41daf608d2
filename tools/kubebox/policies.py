"""What NetworkPolicies (networking.k8s.io/v1) mean for the pods that there are: who may talk to whom, and at which ports.

Pure: objects as the API server gives them go in, grants come out. packet_filter.py makes rules of these.
"""

import collections
import dataclasses
import ipaddress

INGRESS, EGRESS = "Ingress", "Egress"
# Both directions of a policy: the field of its rules, and the field of whom they are about.
FIELDS = {INGRESS: ("ingress", "from"), EGRESS: ("egress", "to")}
ENDED = ("Succeeded", "Failed")


@dataclasses.dataclass(frozen=True)
class Pod:
    namespace: str
    name: str
    address: str
    labels: dict = dataclasses.field(hash=False)
    # (name, protocol) -> number, of all its containers.
    ports: dict = dataclasses.field(hash=False)

    def __str__(self):
        return f"{self.namespace}/{self.name}"


@dataclasses.dataclass(frozen=True)
class Grant:
    """Whoever is in `addresses` or `block`, at `ports`; None is anybody, and any protocol at any port."""

    policy: str
    addresses: frozenset | None
    # (protocol, first, last); first is None: all ports of the protocol.
    ports: frozenset | None
    # (network, networks in it that are left out)
    block: tuple | None = None

    def allows(self, address, protocol, port):
        if self.addresses is not None and address not in self.addresses:
            return False
        if self.block is not None:
            whole, *parts = [ipaddress.ip_network(one) for one in (self.block[0], *self.block[1])]
            here = ipaddress.ip_address(address)
            if here not in whole or any(here in part for part in parts):
                return False
        return self.ports is None or any(known == protocol and (first is None or first <= port <= last)
                                         for known, first, last in self.ports)


def running_pods(objects):
    """Pods that have an address of their own. One that is being ended still has its connections."""
    for one in objects:
        status, spec = one.get("status", {}), one["spec"]
        if not status.get("podIP") or status.get("phase") in ENDED or spec.get("hostNetwork"):
            continue
        ports = {}
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            for port in container.get("ports", []):
                if "name" in port:
                    ports[port["name"], port.get("protocol", "TCP")] = port["containerPort"]
        yield Pod(one["metadata"]["namespace"], one["metadata"]["name"], status["podIP"],
                  one["metadata"].get("labels", {}), ports)


def unsupported(policy):
    """What of it is not carried out here, in words. Such a policy isolates its pods and allows nothing."""
    for direction, (rules, peers) in FIELDS.items():
        for rule in policy["spec"].get(rules) or []:
            blocks = [peer["ipBlock"] for peer in rule.get(peers) or [] if "ipBlock" in peer]
            for block in blocks:
                if ":" in block["cidr"]:
                    yield f"ipBlock {block['cidr']}: there is no IPv6 here"
            named = [port["port"] for port in rule.get("ports") or [] if isinstance(port.get("port"), str)]
            if blocks and named and direction == EGRESS:
                yield f"port {named[0]} of an ipBlock: addresses outside have no names for their ports"


def matches(selector, labels):
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for one in selector.get("matchExpressions") or []:
        key, values = one["key"], one.get("values") or []
        holds = {"In": labels.get(key) in values, "NotIn": labels.get(key) not in values,
                 "Exists": key in labels, "DoesNotExist": key not in labels}
        if not holds[one["operator"]]:
            return False
    return True


def judge(policies, pods, namespaces):
    """For each pod and direction what is allowed: {(pod, direction): grants}. A pair that is missing is not isolated,
    which means that everything is. `namespaces`: name -> labels."""
    found = {}
    for policy in policies:
        spec, home = policy["spec"], policy["metadata"]["namespace"]
        types = spec.get("policyTypes") or [INGRESS, *([EGRESS] if spec.get("egress") else [])]
        is_shut = any(unsupported(policy))
        for pod in pods:
            if pod.namespace != home or not matches(spec.get("podSelector", {}), pod.labels):
                continue
            for direction in types:
                grants = found.setdefault((pod, direction), [])
                if not is_shut:
                    grants.extend(_grants(policy, direction, pod, pods, namespaces))
    return found


def _grants(policy, direction, pod, pods, namespaces):
    home, name = policy["metadata"]["namespace"], policy["metadata"]["name"]
    rules, peers = FIELDS[direction]
    for rule in policy["spec"].get(rules) or []:
        chosen = rule.get(peers) or []
        others = [other for other in pods
                  if not chosen or any(_is_peer(peer, other, home, namespaces) for peer in chosen)]
        ports = rule.get("ports") or []
        if direction == INGRESS:
            addresses = frozenset(other.address for other in others) if chosen else None
            yield Grant(name, addresses, _ports(ports, pod))
        else:
            # A name is another number in each pod that is reached.
            by_ports = collections.defaultdict(set)
            for other in others:
                by_ports[_ports(ports, other)].add(other.address)
            if not chosen:
                # Nobody knows the names of those outside.
                by_ports[_ports(ports, None)] = None
            for numbers, addresses in by_ports.items():
                yield Grant(name, None if addresses is None else frozenset(addresses), numbers)
        for peer in chosen:
            if "ipBlock" in peer:
                block = peer["ipBlock"]
                yield Grant(name, None, _ports(ports, pod), (block["cidr"], tuple(block.get("except") or ())))


def _is_peer(peer, pod, home, namespaces):
    if "ipBlock" in peer:
        return False
    if "namespaceSelector" in peer:
        if not matches(peer["namespaceSelector"], namespaces.get(pod.namespace, {})):
            return False
    elif pod.namespace != home:
        return False
    return matches(peer.get("podSelector", {}), pod.labels)


def _ports(ports, target):
    """Numbers in place of the names that the target has, which may be none; a name that it does not have is no port."""
    if not ports:
        return None
    numbers = set()
    for port in ports:
        protocol, wanted = port.get("protocol", "TCP"), port.get("port")
        if isinstance(wanted, str):
            wanted = target and target.ports.get((wanted, protocol))
            if wanted is None:
                continue
        numbers.add((protocol, wanted, port.get("endPort", wanted)))
    return frozenset(numbers)


def is_allowed(judged, source, target, protocol, port):
    """Whether a connection from pod to pod is let out and let in."""
    if source == target:
        return True
    ends = ((source, EGRESS, target.address), (target, INGRESS, source.address))
    return all((pod, direction) not in judged or
               any(grant.allows(address, protocol, port) for grant in judged[pod, direction])
               for pod, direction, address in ends)
