"""Where cert-manager makes certificates, each Secret of certificates is one that it makes, for the names and uses it is for."""

from manifests import name_of

# What deploy/README.md, kerfd's access file and kerf's own settings call them by.
_FIRST_NAMES = {"kerf-front-tls": "kerf", "kerf-worker-tls": "kerf-worker", "kerf-redis-tls": "kerf-redis",
                "kerf-redis-metrics-tls": "kerf-redis-metrics"}
_CLIENTS = {"kerf-front-tls", "kerf-redis-tls", "kerf-prometheus-tls"}
# The CA of each of these is for those who are named here, and for nobody else.
_APART = {"kerf-redis-tls": ({"kerf-redis-tls"}, "may join their cluster"),
          "kerf-prometheus-tls": ({"kerf-prometheus-tls", "kerf-redis-metrics-tls"}, "reads all figures")}


def certificates(manifests, _):
    made = {thing["spec"]["secretName"]: thing for thing in manifests.of("Certificate")}
    if not made:
        return
    for name in sorted(_used(manifests) - set(made)):
        yield f"Secret {name}: no Certificate makes it"
    for name, thing in made.items():
        spec, where = thing["spec"], name_of(thing)
        if _authority(manifests, spec["issuerRef"]) is None:
            yield f"{where}: there is no Issuer {spec['issuerRef']['name']}"
        if spec.get("isCA"):
            continue
        if name in _FIRST_NAMES and spec.get("dnsNames", [""])[0] != _FIRST_NAMES[name]:
            yield f"{where}: its first name is not {_FIRST_NAMES[name]}"
        wanted = {*(["server auth"] if name in _FIRST_NAMES else []), *(["client auth"] if name in _CLIENTS else [])}
        if not wanted <= set(spec.get("usages", [])):
            yield f"{where}: its usages do not do for {name}"
    yield from _apart(manifests, made)
    yield from _redis(manifests, made)


def _used(manifests):
    mounted = {volume["secret"]["secretName"] for workload in manifests.workloads for volume in workload.volumes.values()
               if volume.get("secret", {}).get("secretName", "").endswith("-tls")}
    asked = {endpoint["tlsConfig"]["keySecret"]["name"] for monitor in manifests.of("ServiceMonitor")
             for endpoint in monitor["spec"]["endpoints"] if "keySecret" in endpoint.get("tlsConfig", {})}
    return mounted | asked


def _authority(manifests, reference):
    """The Secret of an Issuer's CA; "" if each of its certificates is its own, None if it is not there."""
    issuer = manifests.get("Issuer", reference["name"])
    return None if issuer is None else issuer["spec"].get("ca", {}).get("secretName", "")


def _apart(manifests, made):
    for name, (friends, harm) in _APART.items():
        if name not in made:
            continue
        authority = _authority(manifests, made[name]["spec"]["issuerRef"])
        for other, thing in made.items():
            is_of_it = not thing["spec"].get("isCA") and _authority(manifests, thing["spec"]["issuerRef"]) == authority
            if is_of_it and other not in friends:
                yield f"{name_of(thing)}: is of the CA of {name}, so whoever has it {harm}"


def _redis(manifests, made):
    if (nodes := made.get("kerf-redis-tls")) is None:
        return
    pods = manifests.get("StatefulSet", "kerf-redis")
    wanted = {f"kerf-redis-{number}" for number in range(pods["spec"]["replicas"] if pods else 0)}
    for name in sorted(wanted - set(nodes["spec"].get("dnsNames", []))):
        yield f"{name_of(nodes)}: lacks the name {name}, by which its exporter calls it"


RULES = [certificates]
