"""What the containers run is in their images, and takes the flags and settings that it is given.

The kerfd at hand is asked: it reads the flags, environment and settings file of each container, as it would there.
"""

import base64
import hashlib
import pathlib
import re
import subprocess
import tempfile
import tomllib

import digests
from manifests import name_of, quantity

# Beside what is asked for by settings: code, index connections, threads' stacks, malloc's slack.
BASE_BYTES = 200 << 20
# kerfd's own sums (--memory): gRPC's buffers may take as much once more.
MEMORY_FACTOR = 2
# Redis beside its data: a rewrite of the log copies pages that change meanwhile; replicas' buffers.
REDIS_FACTOR = 1.5
# Between the end of the drain and SIGKILL.
STOP_MARGIN_S = 10
_SIZE = re.compile(r"^([0-9.]+)\s*([KMGT]?)(?:i?b)?$", re.I)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_AUTOMATIC_HINT_BYTES = 64 << 20


def size_bytes(text):
    match = _SIZE.match(str(text))
    return float(match[1]) * _UNITS[match[2].upper()]


def image_of(container):
    """(name without the registry, tag), or a digest in place of the tag: kustomize leaves one of the two."""
    place, _, digest = container["image"].partition("@")
    name, _, tag = place.rpartition("/")[2].partition(":")
    return name, digest or tag


def images(manifests, facts):
    for workload in manifests.workloads:
        for container in workload.containers:
            where = f"{workload.name}, container {container['name']}"
            name, tag = image_of(container)
            contents = facts.images.get(name)
            if contents is None:
                yield f"{where}: deploy/image builds no image {name}, only {', '.join(sorted(facts.images))}"
                continue
            if tag.startswith("sha256:"):
                if not digests.DIGEST.fullmatch(tag):
                    yield f"{where}: {tag} is no digest"
            elif tag != facts.version:
                yield f"{where}: the image {name} has the tag {tag}, and this is kerf {facts.version}"
            program = (container.get("command") or ["?"])[0]
            if program.replace("/bin/", "/usr/bin/", 1) not in contents and program not in contents:
                yield f"{where}: the image {name} has no {program}"


def _environment(container, problems, where):
    """As it would be there. Numbers of resources are rounded up."""
    environment = {}
    for variable in container.get("env", []):
        value, source = variable.get("value"), variable.get("valueFrom", {})
        if reference := source.get("resourceFieldRef"):
            kind, resource = reference["resource"].split(".")
            amount = quantity(container.get("resources", {}).get(kind, {}).get(resource))
            if amount is None:
                problems.append(f"{where}: {variable['name']} is {reference['resource']}, which is not set")
                continue
            value = str(int(-(-amount // 1)))
        environment[variable["name"]] = "10.0.0.1" if value is None else value
    return environment


def effective_settings(manifests, facts, workload, container):
    """kerfd's settings there, and what is wrong with them."""
    where, problems, words = f"{workload.name}, container {container['name']}", [], []
    environment = _environment(container, problems, where)
    with tempfile.TemporaryDirectory(prefix="kerf-deploy-") as folder:
        for word in container["command"][1:] + container.get("args", []):
            if not word.startswith("--config="):
                words.append(word)
                continue
            path = word.partition("=")[2]
            found = manifests.file(workload, container, path)
            thing = found and manifests.get(found[0], found[1])
            if not thing or found[2] not in thing.get("data", {}):
                problems.append(f"{where}: nothing is mounted as {path}")
                continue
            copy = pathlib.Path(folder) / "kerfd.toml"
            copy.write_text(thing["data"][found[2]], encoding="utf-8")
            words.append(f"--config={copy}")
        done = subprocess.run([facts.kerfd, *words, "--print-config"], env=environment, capture_output=True, text=True,
                              check=False, timeout=30)
    if done.returncode != 0:
        return {}, [*problems, f"{where}: {done.stderr.strip().splitlines()[0] if done.stderr else 'kerfd fails'}"]
    return tomllib.loads(done.stdout), problems


def _service_of(manifests, address):
    """The Service that HOST:PORT leads to, or that HOST is a pod of; and the port."""
    host, _, port = address.rpartition(":")
    service = manifests.get("Service", host.split(".")[-1])
    return service if service and int(port) in [entry["port"] for entry in service["spec"]["ports"]] else None


def settings(manifests, facts):
    for workload in manifests.workloads:
        for container in workload.containers:
            if container.get("command", [""])[0] != "/usr/bin/kerfd":
                continue
            where = f"{workload.name}, container {container['name']}"
            effective, problems = effective_settings(manifests, facts, workload, container)
            yield from problems
            if effective:
                yield from _check_settings(manifests, workload, container, effective, where)


def _check_settings(manifests, workload, container, effective, where):
    own = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
    listens = {"grpc": effective["listen"][0], "metrics": effective.get("metrics-listen", "")}
    for name, address in listens.items():
        host, _, port = address.rpartition(":")
        if (own.get(name) or "") != (int(port) if port else ""):
            yield f"{where}: kerfd listens at '{address}' for {name}, and its port {name} is {own.get(name)}"
        elif address and host != "0.0.0.0":
            yield f"{where}: kerfd listens at {address}, where nobody else reaches it"
    for name in ("redis-password-file", "hint-key-file", "tls-cert", "tls-key", "tls-client-ca", "worker-tls-ca",
                 "redis-tls-ca", "metrics-client-ca", "access"):
        path = effective.get(name)
        found = path and manifests.file(workload, container, path)
        if path and (not found or found[0] != "Secret"):
            yield f"{where}: {name} is {path}, and no Secret is mounted there"
        if found and workload.volumes and found[2] is None:
            yield f"{where}: {name} is {path}, which the Secret {found[1]} does not have"
    yield from _check_own_user(manifests, workload, container, effective, where)
    yield from _check_redis_tls(manifests, workload, container, effective, where)
    for address in effective.get("workers", []):
        group = address.removeprefix("dns:")
        service = _service_of(manifests, group)
        if service is None or group == address or service["spec"].get("clusterIP") != "None":
            yield f"{where}: workers are at {address}: not dns:NAME:PORT of a headless Service"
    for address in effective.get("redis", []):
        if manifests.get("Service", "kerf-redis") is not None and _service_of(manifests, address) is None:
            yield f"{where}: Redis is at {address}, which no Service has"
    hints = effective["hint-memory"]
    hint_bytes = 0 if workload.component == "front" else _AUTOMATIC_HINT_BYTES if hints == "auto" else size_bytes(hints)
    needed = MEMORY_FACTOR * size_bytes(effective["memory"]) + hint_bytes + BASE_BYTES
    limit = quantity(container.get("resources", {}).get("limits", {}).get("memory", "0"))
    if limit < needed:
        yield (f"{where}: its memory limit is {limit / 2**20:.0f} MiB, and its settings (twice memory, hint-memory and "
               f"{BASE_BYTES >> 20} MiB) may take {needed / 2**20:.0f}: it would be killed in mid-upload")
    yield from _check_gpu(container, effective, where)
    yield from _check_drain(workload, container, effective, where)


def _check_gpu(container, effective, where):
    has_gpu = "nvidia.com/gpu" in container.get("resources", {}).get("limits", {})
    wanted = effective["gpu"] == "require"
    if has_gpu != wanted or wanted != (image_of(container)[0] == "kerf-cuda"):
        yield (f"{where}: gpu is {effective['gpu']}, the image {image_of(container)[0]}, and a GPU is "
               f"{'' if has_gpu else 'not '}asked for: kerf-cuda, --gpu=require and nvidia.com/gpu belong together")


def _check_drain(workload, container, effective, where):
    sleep_s = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    grace_s = workload.pod.get("terminationGracePeriodSeconds", 30)
    wanted_s = sleep_s + effective["drain-ms"] / 1000 + STOP_MARGIN_S
    if sleep_s * 1000 < 2 * effective["worker-refresh-ms"]:
        yield f"{where}: preStop sleeps for {sleep_s} s: less than fronts need to see that a worker is gone; deploy/drain writes it"
    if grace_s != wanted_s:
        yield (f"{where}: terminationGracePeriodSeconds is {grace_s}, and preStop, --drain-ms and {STOP_MARGIN_S} s for the rest "
               f"are {wanted_s:g}: change them with deploy/drain")


def _beside(manifests, workload, container, path):
    """The ConfigMap that the file is from, as a dict."""
    found = manifests.file(workload, container, path)
    return (manifests.get(found[0], found[1]) or {}).get("data", {}) if found else {}


def scripts(manifests, _):
    for workload in manifests.workloads:
        for container in workload.containers:
            if container.get("command", [""])[0] != "/bin/sh":
                continue
            where, script = f"{workload.name}, container {container['name']}", container["command"][1]
            data, name = _beside(manifests, workload, container, script), script.rsplit("/", 1)[-1]
            if name not in data:
                yield f"{where}: nothing is mounted as {script}"
                continue
            environment = {variable["name"]: variable.get("value") for variable in container.get("env", [])}
            for variable in sorted(set(re.findall(r"\$(KERF_\w+)", data[name])) - set(environment)):
                yield f"{where}: {name} needs {variable}"
            for variable in sorted(set(environment) - set(re.findall(r"KERF_\w+", data[name]))):
                yield f"{where}: {name} does not know {variable}"
            own = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
            listen = environment.get("KERF_REDIS_METRICS_LISTEN")
            if listen and listen != f"0.0.0.0:{own.get('metrics')}":
                yield f"{where}: {name} listens at {listen}, and its port metrics is {own.get('metrics')}"


def redis(manifests, facts):
    for workload in manifests.workloads:
        for container in workload.containers:
            if "keeper.sh" not in " ".join(container.get("command", [])):
                continue
            where = f"{workload.name}, container {container['name']}"
            data = _beside(manifests, workload, container, container["command"][1])
            if "keeper.sh" not in data:
                continue
            text = data["keeper.sh"]
            hooks = [container.get("lifecycle", {}).get("preStop", {}),
                     *(container.get(f"{probe}Probe", {}) for probe in ("startup", "readiness", "liveness"))]
            verbs = [*container.get("args", []), *(hook["exec"]["command"][2] for hook in hooks if "exec" in hook)]
            known = re.findall(r"^  ([a-z]+)\) ", text, re.M)
            for verb in verbs:
                if verb not in known:
                    yield f"{where}: keeper.sh has no '{verb}', only {', '.join(known)}"
            yield from _check_peers(workload, data)
            yield from _check_users(manifests, workload, container, data, where)
            if not re.search(r"^maxmemory-policy volatile-", data["redis.conf"], re.M):
                yield f"{where}: redis.conf's maxmemory-policy is none of volatile-*: workers write no hints, or entries of the index go"
            maximum = re.search(r"^maxmemory (\d+)mb$|^maxmemory (\d+)gb$", data["redis.conf"], re.M)
            bytes_ = int(maximum[1]) << 20 if maximum[1] else int(maximum[2]) << 30
            limit = quantity(container["resources"]["limits"]["memory"])
            if container.get("args") == ["start"] and limit < REDIS_FACTOR * bytes_:
                yield f"{where}: its memory limit is not {REDIS_FACTOR} times redis.conf's maxmemory: a rewrite of the log would kill it"


def _users_of(data):
    lines = [line.split() for line in data["users"].splitlines() if line and not line.startswith("#")]
    return {words[0]: words[1:] for words in lines}


def _check_users(manifests, workload, container, data, where):
    folder = next((one["value"] for one in container.get("env", []) if one["name"] == "KERF_REDIS_PASSWORDS_PATH"), "")
    for name, rules in _users_of(data).items():
        for file in (f"{folder}/{name}.sums", *([f"{folder}/keeper"] if name == "keeper" else [])):
            found = manifests.file(workload, container, file)
            if not found or found[0] != "Secret" or found[2] is None:
                yield f"{where}: the user {name} has no password: no Secret is mounted as {file}"
        if name != "operator" and any(rule in ("~*", "+@all", "allcommands", "allkeys", "nopass") for rule in rules):
            yield f"{where}: the user {name} may do everything: only operator may"
    for name in sorted({"keeper", "operator"} - set(_users_of(data))):
        yield f"{where}: there is no user {name} in the file users"
    for key in sorted(_secret_keys(workload, manifests.file(workload, container, f"{folder}/keeper"))):
        if key != "keeper" and not key.endswith(".sums"):
            yield f"{where}: has the password of {key} mounted, and needs its sums alone"


def _secret_keys(workload, found):
    """What the pod has of the Secret in which `found` is."""
    return {item["key"] for volume in workload.volumes.values()
            if volume.get("secret", {}).get("secretName") == (found or [0, 0])[1]
            for item in volume["secret"].get("items", [{"key": "all of them"}])}


def _check_own_user(manifests, workload, container, effective, where):
    """Where this Redis is deployed: kerfd comes as one of its users, and knows no other's password."""
    data = next((thing["data"] for thing in manifests.of("ConfigMap") if "keeper.sh" in thing.get("data", {})), None)
    if data is None or not effective.get("redis"):
        return
    user, path = effective.get("redis-user", ""), effective.get("redis-password-file", "")
    if user not in _users_of(data) or user in ("keeper", "operator"):
        yield f"{where}: redis-user is '{user}', which is no user for kerfd in components/redis/users"
    found = manifests.file(workload, container, path)
    keys = _secret_keys(workload, found)
    if found and keys != {user}:
        yield f"{where}: has the passwords of {', '.join(sorted(keys))} mounted, and needs that of {user}"


def _tls_folder(container):
    return next((one.get("value") for one in container.get("env", []) if one["name"] == "KERF_REDIS_TLS"), None)


def _redis_containers(manifests):
    """Of those who speak to a node of this Redis by a script: (workload, container, script)."""
    for workload in manifests.workloads:
        for container in workload.containers:
            script = container.get("command", [""])[-1].rsplit("/", 1)[-1]
            if script in ("keeper.sh", "exporter.sh"):
                yield workload, container, script


def _keys_in(manifests, workload, container, folder):
    """What the container has of its Secret of certificates."""
    return {key for key in ("ca.crt", "tls.crt", "tls.key")
            if (found := manifests.file(workload, container, f"{folder}/{key}")) and found[0] == "Secret" and found[2] is not None}


def redis_tls(manifests, _):
    """All of the nodes of Redis speak TLS, or none; and who needs no key has none."""
    folders = {_tls_folder(container) is not None for _, container, _ in _redis_containers(manifests)}
    if len(folders) > 1:
        yield "some containers of Redis have KERF_REDIS_TLS and some have not: they do not understand each other"
    for workload, container, script in _redis_containers(manifests):
        if (folder := _tls_folder(container)) is None:
            continue
        where = f"{workload.name}, container {container['name']}"
        wanted = {"ca.crt", "tls.crt", "tls.key"} if script == "keeper.sh" else {"ca.crt"}
        if (keys := _keys_in(manifests, workload, container, folder)) != wanted:
            yield f"{where}: {script} wants {', '.join(sorted(wanted))} of a Secret in {folder}, which has {', '.join(sorted(keys)) or 'none'}"
        if script == "exporter.sh" and not any(one["name"] == "KERF_REDIS_NAME" for one in container.get("env", [])):
            yield f"{where}: exporter.sh needs KERF_REDIS_NAME, which its node's certificate has"
        if script == "exporter.sh":
            yield from _check_sealed_exporter(manifests, workload, container, where)


def _check_sealed_exporter(manifests, workload, container, where):
    """Where its node speaks TLS it does so as well, and asks who asks it."""
    folder = next((one.get("value") for one in container.get("env", []) if one["name"] == "KERF_REDIS_METRICS_TLS"), None)
    if folder is None:
        yield f"{where}: has KERF_REDIS_TLS, and no KERF_REDIS_METRICS_TLS: it answers everybody, in the clear"
    elif (keys := _keys_in(manifests, workload, container, folder)) != {"ca.crt", "tls.crt", "tls.key"}:
        yield f"{where}: exporter.sh wants ca.crt, tls.crt, tls.key of a Secret in {folder}, which has {', '.join(sorted(keys)) or 'none'}"


def _check_redis_tls(manifests, workload, container, effective, where):
    nodes = [_tls_folder(one) for _, one, script in _redis_containers(manifests) if script == "keeper.sh"]
    path, name = effective.get("redis-tls-ca", ""), effective.get("redis-tls-name", "")
    if not nodes or not effective.get("redis"):
        return
    if bool(path) != (nodes[0] is not None):
        yield f"{where}: redis-tls-ca is '{path}', and Redis speaks {'TLS' if nodes[0] else 'no TLS'}"
    elif path and name != effective["redis"][0].rpartition(":")[0]:
        yield f"{where}: redis-tls-name is '{name}': certificates of nodes have the name in redis, and no address"
    if path and _keys_in(manifests, workload, container, path.rpartition("/")[0]) != {"ca.crt"}:
        yield f"{where}: has a certificate of Redis' nodes mounted, and needs its CA alone: with it one may join the cluster"


def _check_peers(workload, data):
    service, name = workload.thing["spec"]["serviceName"], workload.thing["metadata"]["name"]
    wanted = [f"{name}-{number}.{service}" for number in range(workload.thing["spec"]["replicas"])]
    if data["peers"].split() != wanted:
        yield f"{name_of(workload.thing)}: the file peers is not the names of its {len(wanted)} pods"


def sums(manifests, _):
    """Of Secrets that an overlay makes: NAME.sums is what Redis knows of the password NAME."""
    for secret in manifests.of("Secret"):
        values = {key: base64.b64decode(value).decode() for key, value in secret.get("data", {}).items()}
        for key in sorted(values):
            if f"{key}.sums" in values and hashlib.sha256(values[key].encode()).hexdigest() not in values[f"{key}.sums"].split():
                yield f"{name_of(secret)}: {key}.sums has not the sum of {key}"


RULES = [images, settings, scripts, redis, redis_tls, sums]
