"""Rules of the kernel's packet filter (nftables) that carry NetworkPolicies out in a box.

The box routes between its pods, so that each packet of theirs comes by here. A whole set of rules is put in place of the
last one at once.

Shut is what nobody has spoken of: an address that is no pod's, or not yet known to be one's, is neither let in nor out.
"""

from policies import EGRESS, INGRESS

TABLE = "kubebox"
# The kernel takes 128.
COMMENT_BYTES = 100
# Where a packet meets its judge in a direction: the address that is looked at, that of the other end, what is done with a
# packet that may go on. One that was let out may still not be let in.
_CHAINS = {EGRESS: ("saddr", "daddr", "return"), INGRESS: ("daddr", "saddr", "accept")}


def rules(judged, pods, pod_network):
    """What `nft --file -` reads. `judged`: of policies.judge."""
    lines = []
    for direction, (here, there, verdict) in _CHAINS.items():
        chains, entries = [], []
        for index, pod in enumerate(pods):
            grants = judged.get((pod, direction))
            if grants is None:
                entries.append(f"{pod.address} : {verdict}")
                continue
            chain = f"{direction.lower()}_{index}"
            entries.append(f"{pod.address} : goto {chain}")
            chains += [f"  chain {chain} {{", f"    # {pod}"]
            for grant in grants:
                chains += [f"    {line}{verdict} comment \"{grant.policy[:COMMENT_BYTES]}\"" for line in _conditions(grant, there)]
            chains += ["    drop", "  }"]
        lines += [*chains, f"  chain {direction.lower()} {{"]
        if entries:
            lines.append(f"    ip {here} vmap {{ {', '.join(entries)} }}")
        lines += ["    drop", "  }"]
    return "\n".join([
        # So that there is one to delete.
        f"table inet {TABLE} {{ }}",
        f"delete table inet {TABLE}",
        f"table inet {TABLE} {{",
        *lines,
        "  chain forward {",
        "    type filter hook forward priority filter; policy drop;",
        "    ct state established,related accept",
        f"    ip saddr {pod_network} jump egress",
        "    jump ingress",
        "  }",
        # To what runs beside the pods. From there to a pod nothing is held up: it is the node that the pod runs on.
        "  chain input {",
        "    type filter hook input priority filter; policy accept;",
        "    iifname lo accept",
        "    ct state established,related accept",
        # Every link has an address of IPv6, which no policy here knows.
        "    meta nfproto ipv6 drop",
        "    jump egress",
        "  }",
        "}", ""])


def _conditions(grant, there):
    """Each is empty or ends with a space; none for a grant of nobody or of no port."""
    who = ""
    if grant.addresses is not None:
        if not grant.addresses:
            return
        who = f"ip {there} {_set(sorted(grant.addresses))} "
    if grant.block is not None:
        whole, parts = grant.block
        who += "".join([f"ip {there} {whole} ", *(f"ip {there} != {part} " for part in parts)])
    if grant.ports is None:
        yield who
        return
    single = {}
    for protocol, first, last in sorted(grant.ports, key=str):
        if first is None:
            yield f"{who}meta l4proto {protocol.lower()} "
        elif first != last:
            yield f"{who}{protocol.lower()} dport {first}-{last} "
        else:
            single.setdefault(protocol.lower(), []).append(str(first))
    for protocol, ports in single.items():
        yield f"{who}{protocol} dport {_set(ports)} "


def _set(members):
    return "{ " + ", ".join(members) + " }"
