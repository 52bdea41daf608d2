"""Whatever a manifest names is there: objects, keys, ports, volumes, and pods for each selector."""

import re

from manifests import matches, name_of

# The operator makes these, and deploy/README.md says how, wherever an overlay does not generate them.
_OF_TLS = {"ca.crt", "tls.crt", "tls.key"}
OPERATORS_SECRETS = {"kerf-redis": {"kerfd", "keeper", "kerfd.sums", "keeper.sums", "operator.sums"}, "kerf-hints": {"hint.key"},
                     "kerf-front-tls": _OF_TLS, "kerf-worker-tls": _OF_TLS, "kerf-redis-tls": _OF_TLS,
                     "kerf-prometheus-tls": _OF_TLS, "kerf-redis-metrics-tls": _OF_TLS, "kerf-access": {"access.toml"}, "kerf-backup-tls": _OF_TLS}
# What is backed up: there before any of this.
OPERATORS_CLAIMS = {"data"}
_GENERATED = re.compile(r"-[a-z0-9]{10}$")


def _keys(manifests, kind, name):
    """What an object holds; None if there is none of that name."""
    thing = manifests.get(kind, name)
    if thing is not None:
        return {*thing.get("data", {}), *thing.get("binaryData", {}), *thing.get("stringData", {})}
    return OPERATORS_SECRETS.get(name) if kind == "Secret" else None


def identities(manifests, _):
    seen = set()
    spaces = {thing["metadata"].get("namespace") for thing in manifests.things if thing["kind"] != "Namespace"}
    for thing in manifests.things:
        if (key := (thing["kind"], thing["metadata"]["name"])) in seen:
            yield f"{name_of(thing)}: is there twice"
        seen.add(key)
    if len(spaces) != 1 or None in spaces:
        yield f"the objects are in the namespaces {sorted(map(str, spaces))}: set one in the overlay"
    for space in spaces - {None}:
        if manifests.get("Namespace", space) is None:
            yield f"there is no Namespace {space}"
    for thing in manifests.of("ConfigMap"):
        if thing["metadata"].get("labels", {}).get("grafana_dashboard") is None and not _GENERATED.search(
                thing["metadata"]["name"]):
            yield f"{name_of(thing)}: its name has no hash, so pods go on with what it said before: use configMapGenerator"


def mounts(manifests, _):
    for workload in manifests.workloads:
        used = set()
        for container in workload.containers:
            where = f"{workload.name}, container {container['name']}"
            for mount in container.get("volumeMounts", []):
                used.add(mount["name"])
                volume = workload.volumes.get(mount["name"])
                if volume is None:
                    yield f"{where}: mounts the volume {mount['name']}, which the pod does not have"
                elif "configMap" in volume and mount.get("subPath"):
                    keys = _keys(manifests, "ConfigMap", volume["configMap"]["name"])
                    if keys is not None and mount["subPath"] not in keys:
                        yield f"{where}: mounts {mount['subPath']}, which ConfigMap {volume['configMap']['name']} lacks"
            for variable in container.get("env", []):
                for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
                    if reference := variable.get("valueFrom", {}).get(field):
                        if reference["key"] not in (_keys(manifests, kind, reference["name"]) or ()):
                            yield f"{where}: {variable['name']} is from {kind} {reference['name']}, which has no such key"
        for volume in workload.pod.get("volumes", []):
            if volume["name"] not in used:
                yield f"{workload.name}: nothing mounts the volume {volume['name']}"
            for field, kind, name_field in (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")):
                if field not in volume:
                    continue
                source = volume[field]
                keys = _keys(manifests, kind, source[name_field])
                if keys is None:
                    yield f"{workload.name}: there is no {kind} {source[name_field]}"
                for item in source.get("items", []):
                    if keys is not None and item["key"] not in keys:
                        yield f"{workload.name}: {kind} {source[name_field]} has no key {item['key']}"
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                if claim not in OPERATORS_CLAIMS and manifests.get("PersistentVolumeClaim", claim) is None:
                    yield f"{workload.name}: there is no PersistentVolumeClaim {claim}"
        account = workload.pod.get("serviceAccountName")
        if account is None or manifests.get("ServiceAccount", account) is None:
            yield f"{workload.name}: there is no ServiceAccount {account}"


def selectors(manifests, _):
    for workload in manifests.workloads:
        selector = workload.thing["spec"].get("selector")
        if selector is None:
            continue
        chosen = [other.name for other in manifests.selected(selector)]
        if chosen != [workload.name]:
            yield f"{workload.name}: its selector takes the pods of {chosen or 'nobody'}, not just its own"
        spread = [(constraint, "topologySpreadConstraints") for constraint in workload.pod.get("topologySpreadConstraints", [])]
        affinity = workload.pod.get("affinity", {}).get("podAntiAffinity", {})
        spread += [(term, "podAntiAffinity") for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])]
        spread += [(term["podAffinityTerm"], "podAntiAffinity")
                   for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])]
        for term, field in spread:
            if not matches(term["labelSelector"], workload.labels):
                yield f"{workload.name}: {field} looks at other pods than its own"
        if workload.thing["kind"] == "StatefulSet":
            service = manifests.get("Service", workload.thing["spec"]["serviceName"])
            if service is None or service["spec"].get("clusterIP") != "None":
                yield f"{workload.name}: there is no headless Service {workload.thing['spec']['serviceName']}"
            elif not matches({"matchLabels": service["spec"]["selector"]}, workload.labels):
                yield f"{workload.name}: Service {workload.thing['spec']['serviceName']} does not select its pods"


def services(manifests, _):
    for service in manifests.of("Service"):
        chosen = manifests.selected({"matchLabels": service["spec"].get("selector", {})})
        if len(chosen) != 1:
            yield f"{name_of(service)}: selects the pods of {[workload.name for workload in chosen]}, not of one workload"
            continue
        for port in service["spec"]["ports"]:
            target = port.get("targetPort", port["port"])
            if not chosen[0].has_port(target):
                yield f"{name_of(service)}: {chosen[0].name} has no port {target}"
            elif service["spec"].get("clusterIP") == "None" and chosen[0].ports.get(target, target) != port["port"]:
                yield f"{name_of(service)}: is headless, so clients need the pods' own port, not {port['port']}"
    for monitor in manifests.of("ServiceMonitor"):
        spec = monitor["spec"]
        chosen = [service for service in manifests.of("Service") if matches(spec["selector"], service["metadata"].get("labels", {}))]
        if not chosen:
            yield f"{name_of(monitor)}: selects no Service"
        for endpoint in spec["endpoints"]:
            for service in chosen:
                if endpoint["port"] not in [port["name"] for port in service["spec"]["ports"]]:
                    yield f"{name_of(monitor)}: {name_of(service)} has no port {endpoint['port']}"


def probes(manifests, _):
    for workload in manifests.workloads:
        for container in workload.containers:
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                for how in ("grpc", "httpGet", "tcpSocket"):
                    port = container.get(kind, {}).get(how, {}).get("port")
                    own = {entry["name"]: entry["containerPort"] for entry in container.get("ports", [])}
                    if port is not None and port not in own and port not in own.values():
                        yield f"{workload.name}, container {container['name']}: {kind} asks at port {port}, which it does not have"


def budgets(manifests, _):
    covered = set()
    for budget in manifests.of("PodDisruptionBudget"):
        chosen = manifests.selected(budget["spec"]["selector"])
        if len(chosen) != 1:
            yield f"{name_of(budget)}: selects the pods of {[workload.name for workload in chosen]}, not of one workload"
            continue
        covered.add(chosen[0].name)
        if budget["spec"].get("maxUnavailable") != 1 or "minAvailable" in budget["spec"]:
            yield (f"{name_of(budget)}: maxUnavailable is not 1: with 0, or as many available as there are, no node could be "
                   "emptied, and with more a shard of Redis could lose both its nodes")
    for workload in manifests.workloads:
        if workload.thing["kind"] in ("Deployment", "StatefulSet") and workload.name not in covered:
            yield f"{workload.name}: has no PodDisruptionBudget"


def scaling(manifests, _):
    for scaler in manifests.of("HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]
        thing = manifests.get(target["kind"], target["name"])
        if thing is None or thing["apiVersion"] != target.get("apiVersion"):
            yield f"{name_of(scaler)}: there is no {target['kind']} {target['name']} in {target.get('apiVersion')}"
        elif "replicas" in thing["spec"]:
            yield f"{name_of(thing)}: has replicas, so that each apply undoes what {name_of(scaler)} has done"
        if not 1 <= scaler["spec"].get("minReplicas", 1) <= scaler["spec"]["maxReplicas"]:
            yield f"{name_of(scaler)}: minReplicas is above maxReplicas"


RULES = [identities, mounts, selectors, services, probes, budgets, scaling]
