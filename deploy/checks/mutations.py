"""Manifests that are broken on purpose: each must be refused, in words that say what is wrong."""

import copy
import re
import sys

import manifests

MUTATIONS = []
_COMPONENT = "app.kubernetes.io/component"


def broken(overlay, name, change, expected):
    """`change` breaks the overlay; a finding must match `expected`."""
    MUTATIONS.append((name, overlay, expected, change))


def breaks(overlay, expected):
    """The same of a function with its name, for what is more than one step."""
    def add(function):
        broken(overlay, function.__name__.replace("_", " "), function, expected)
        return function
    return add


def _put(thing, key, value):
    thing[key] = value


def _spec(things, kind, name):
    return things.get(kind, name)["spec"]


def _pod(things, kind, name):
    return _spec(things, kind, name)["template"]["spec"]


def _worker(things):
    return _pod(things, "StatefulSet", "kerf-worker")


def _kerfd(things):
    return _worker(things)["containers"][0]


def _front(things):
    return _pod(things, "Deployment", "kerf-front")


def _drop_mount(container, name):
    container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] != name]


def _drop_variable(container, name):
    container["env"] = [variable for variable in container["env"] if variable["name"] != name]


def _volume(pod, name):
    return next(volume for volume in pod["volumes"] if volume["name"] == name)


def _redis(things):
    return _pod(things, "StatefulSet", "kerf-redis")


def _policy(things, name):
    return _spec(things, "NetworkPolicy", name)


def _settings(things, name):
    return next(thing["data"] for thing in things.of("ConfigMap") if thing["metadata"]["name"].startswith(name))


def _replace(data, key, old, new):
    assert old in data[key], f"{old} is not in {key}"
    data[key] = data[key].replace(old, new)


def _drop(things, kind, name):
    things.things.remove(things.get(kind, name))


# Schemas.

broken("dev", "an unknown field", lambda things: _put(_spec(things, "Deployment", "kerf-front"), "replica", 3),
       r"Deployment kerf-front: spec\.replica: there is no such field \(Kubernetes v1\.34")
broken("dev", "a wrong type", lambda things: _put(_spec(things, "Deployment", "kerf-front"), "replicas", "two"),
       r"Deployment kerf-front: spec\.replicas: 'two' is no integer \(Kubernetes v1\.35")
broken("dev", "an object of the past",
       lambda things: _put(things.get("PodDisruptionBudget", "kerf-front"), "apiVersion", "policy/v1beta1"),
       r"has no PodDisruptionBudget in policy/v1beta1")
broken("dev", "no quantity", lambda things: _put(_kerfd(things)["resources"]["limits"], "memory", "1 GB"),
       r"limits\.memory: '1 GB' is no quantity")


@breaks("dev", r"containers\[0\]: needs name")
def a_missing_field(things):
    del _front(things)["containers"][0]["ports"][0]["containerPort"]
    del _front(things)["containers"][0]["name"]


broken("dev", "a truth for a number", lambda things: _put(_spec(things, "Deployment", "kerf-front"), "replicas", True),
       r"spec\.replicas: True is no integer")


# References.

broken("dev", "an object twice", lambda things: things.things.append(copy.deepcopy(things.get("Service", "kerf"))),
       r"is there twice")
broken("dev", "another namespace", lambda things: _put(things.get("Service", "kerf")["metadata"], "namespace", "default"),
       r"the namespaces \['default', 'kerf'\]")


@breaks("dev", r"ConfigMap settings: its name has no hash")
def a_settings_file_without_a_hash(things):
    thing = next(thing for thing in things.of("ConfigMap") if thing["metadata"]["name"].startswith("kerf-front"))
    thing["metadata"]["name"] = _front(things)["volumes"][0]["configMap"]["name"] = "settings"


broken("dev", "no such config map", lambda things: _put(_front(things)["volumes"][0]["configMap"], "name", "kerf-other"),
       r"there is no ConfigMap kerf-other")
broken("prod", "no such secret", lambda things: _put(_worker(things)["volumes"][1]["secret"], "secretName", "kerf-passwords"),
       r"there is no Secret kerf-passwords")
broken("prod", "no such key", lambda things: _put(_worker(things)["volumes"][2]["secret"]["items"][0], "key", "hint"),
       r"Secret kerf-hints has no key hint")
broken("dev", "no such volume", lambda things: _kerfd(things)["volumeMounts"].append({"name": "data", "mountPath": "/data"}),
       r"mounts the volume data, which the pod does not have")
broken("dev", "no such account", lambda things: _put(_worker(things), "serviceAccountName", "kerfd"),
       r"there is no ServiceAccount kerfd")
broken("dev", "a selector of all",
       lambda things: _spec(things, "StatefulSet", "kerf-worker")["selector"]["matchLabels"].pop(_COMPONENT),
       r"StatefulSet kerf-worker: its selector takes the pods of .*Deployment kerf-front")
broken("dev", "a service of nobody", lambda things: _put(_spec(things, "Service", "kerf")["selector"], _COMPONENT, "fronts"),
       r"Service kerf: selects the pods of \[\]")
broken("dev", "a service of no port",
       lambda things: _put(_spec(things, "Service", "kerf-worker")["ports"][0], "targetPort", "http"),
       r"Service kerf-worker: StatefulSet kerf-worker has no port http")
broken("dev", "no service of its own", lambda things: _spec(things, "Service", "kerf-worker").pop("clusterIP"),
       r"there is no headless Service kerf-worker")
broken("dev", "a probe of no port", lambda things: _put(_kerfd(things), "livenessProbe", {"tcpSocket": {"port": 9999}}),
       r"livenessProbe asks at port 9999")
broken("dev", "a spread of others",
       lambda things: _put(_worker(things)["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"], _COMPONENT, "front"),
       r"topologySpreadConstraints looks at other pods")
broken("dev", "no budget", lambda things: _drop(things, "PodDisruptionBudget", "kerf-redis"),
       r"StatefulSet kerf-redis: has no PodDisruptionBudget")
broken("dev", "a budget for two", lambda things: _put(_spec(things, "PodDisruptionBudget", "kerf-redis"), "maxUnavailable", 2),
       r"PodDisruptionBudget kerf-redis: maxUnavailable is not 1")


# The network.

broken("dev", "no default", lambda things: _drop(things, "NetworkPolicy", "default-deny"),
       r"no NetworkPolicy that denies everything")


@breaks("dev", r"front to redis: no NetworkPolicy covers redis: default-deny must")
def a_pod_without_a_policy(things):
    _drop(things, "NetworkPolicy", "default-deny")
    _drop(things, "NetworkPolicy", "kerf-redis")


broken("dev", "redis lets nobody in", lambda things: _policy(things, "kerf-redis")["ingress"].pop(0),
       r"worker cannot reach redis at \('TCP', 6379\)")


@breaks("dev", r"redis cannot reach redis at \('TCP', 16379\)")
def no_bus(things):
    for rule in _policy(things, "kerf-redis")["ingress"] + _policy(things, "kerf-redis")["egress"]:
        rule["ports"] = [port for port in rule["ports"] if port["port"] != "bus"]


broken("dev", "no names", lambda things: _drop(things, "NetworkPolicy", "names"), r"front cannot reach the name server")
broken("dev", "an agent of kerf's namespace that is shut in", lambda things: _drop(things, "NetworkPolicy", "kerf-agent"),
       r"an agent in kerf's namespace cannot reach front at \('TCP', 7461\)")
broken("dev", "agents that reach anybody", lambda things: _policy(things, "kerf-agent")["egress"][0].pop("to"),
       r"an agent in kerf's namespace may reach a stranger at")
broken("dev", "everybody is an agent", lambda things: _policy(things, "kerf-front")["ingress"][0].pop("from"),
       r"a stranger may reach front")
broken("dev", "a label of any namespace",
       lambda things: _put(_policy(things, "kerf-redis")["ingress"][0]["from"][0], "namespaceSelector", {}),
       r"a stranger called worker may reach redis")


@breaks("dev", r"front may reach redis")
def the_front_reaches_redis(things):
    _policy(things, "kerf-redis")["ingress"][0]["from"][0]["podSelector"]["matchLabels"].pop(_COMPONENT)
    _policy(things, "kerf-front")["egress"].append({})


@breaks("dev", r"understands matchLabels alone")
def a_policy_of_expressions(things):
    _policy(things, "kerf-redis")["ingress"][0]["from"][0]["podSelector"] = {
        "matchExpressions": [{"key": _COMPONENT, "operator": "NotIn", "values": ["front"]}]}


# Security.

broken("dev", "a lax namespace",
       lambda things: _put(things.get("Namespace", "kerf")["metadata"]["labels"], "pod-security.kubernetes.io/enforce",
                           "baseline"),
       r"Namespace kerf: pod-security\.kubernetes\.io/enforce is not restricted")
broken("dev", "the network of the host", lambda things: _put(_worker(things), "hostNetwork", True),
       r"hostNetwork is not allowed")
broken("dev", "root", lambda things: _put(_redis(things)["securityContext"], "runAsUser", 0),
       r"must have runAsNonRoot, and 65532")
broken("dev", "variables of services", lambda things: _front(things).pop("enableServiceLinks"),
       r"enableServiceLinks is not false")
broken("dev", "a root to write to",
       lambda things: _put(_redis(things)["containers"][1], "securityContext",
                           {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}),
       r"readOnlyRootFilesystem is not true")
broken("dev", "a capability", lambda things: _put(_kerfd(things)["securityContext"]["capabilities"], "add", ["SYS_NICE"]),
       r"capabilities are not dropped")


@breaks("dev", r"of a kind that restricted forbids: \['hostPath'\]")
def a_folder_of_the_host(things):
    volume = _front(things)["volumes"][0]
    volume.clear()
    volume.update({"name": "settings", "hostPath": {"path": "/etc"}})


broken("dev", "a secret for all", lambda things: _worker(things)["volumes"][1]["secret"].pop("defaultMode"),
       r"has not defaultMode 0440")


@breaks("dev", r"REDISCLI_AUTH has a secret in the environment")
def a_secret_in_the_environment(things):
    _redis(things)["containers"][1]["env"] = [*_redis(things)["containers"][1]["env"], {
        "name": "REDISCLI_AUTH", "valueFrom": {"secretKeyRef": {
            "name": _redis(things)["volumes"][1]["secret"]["secretName"], "key": "keeper"}}}]


# Programs.

broken("dev", "an image of others", lambda things: _put(_kerfd(things), "image", "docker.io/library/nginx:1"),
       r"builds no image nginx")
broken("dev", "another tag", lambda things: _put(_kerfd(things), "image", "localhost/kerf:latest"),
       r"the image kerf has the tag latest")
broken("dev", "half a digest", lambda things: _put(_kerfd(things), "image", "localhost/kerf@sha256:12"),
       r"sha256:12 is no digest")
broken("dev", "no such program", lambda things: _put(_kerfd(things), "command", ["/usr/bin/kerf-server"]),
       r"the image kerf has no /usr/bin/kerf-server")
broken("dev", "no such flag", lambda things: _kerfd(things)["args"].append("--drain-seconds=3"),
       r"container kerfd: .*--drain-seconds")


@breaks("dev", r"container kerfd: .*max-uploads")
def no_such_setting(things):
    _settings(things, "kerf-worker")["kerfd.toml"] += "max-uploads = 4\n"


broken("dev", "no such variable", lambda things: _put(_kerfd(things)["env"][0], "name", "KERFD_THREADS"),
       r"KERFD_THREADS is no setting")
broken("dev", "no limit of processors", lambda things: _kerfd(things)["resources"]["limits"].pop("cpu"),
       r"KERFD_WORKER_THREADS is limits\.cpu, which is not set")
broken("dev", "settings at another place",
       lambda things: _put(_kerfd(things)["volumeMounts"][0], "mountPath", "/etc/kerfd/kerfd.toml"),
       r"nothing is mounted as /etc/kerf/kerfd\.toml")
broken("dev", "another port", lambda things: _replace(_settings(things, "kerf-worker"), "kerfd.toml", "7461", "7000"),
       r"listens at '0\.0\.0\.0:7000' for grpc, and its port grpc is 7461")
broken("dev", "loopback", lambda things: _replace(_settings(things, "kerf-front"), "kerfd.toml", "0.0.0.0", "127.0.0.1"),
       r"kerfd listens at 127\.0\.0\.1:7461, where nobody else reaches it")
broken("dev", "a key at another place",
       lambda things: _replace(_settings(things, "kerf-worker"), "kerfd.toml", "/etc/kerf/hints/hint.key", "/etc/kerf/hint.key"),
       r"hint-key-file is /etc/kerf/hint\.key, and no Secret is mounted there")
broken("prod", "no certificate", lambda things: _drop_mount(_front(things)["containers"][0], "tls"),
       r"tls-cert is /etc/kerf-tls/tls\.crt, and no Secret is mounted there")
broken("prod", "no file of who may do what", lambda things: _drop_mount(_front(things)["containers"][0], "access"),
       r"access is /etc/kerf-access/access\.toml, and no Secret is mounted there")
broken("dev", "workers of another name",
       lambda things: _replace(_settings(things, "kerf-front"), "kerfd.toml", "dns:kerf-worker:", "dns:kerf-workers:"),
       r"workers are at dns:kerf-workers:7461")
broken("dev", "redis at another port", lambda things: _replace(_settings(things, "kerf-worker"), "kerfd.toml", "6379", "6380"),
       r"Redis is at kerf-redis:6380, which no Service has")
broken("dev", "more memory than there is",
       lambda things: _replace(_settings(things, "kerf-worker"), "kerfd.toml", 'memory = "1G"', 'memory = "4G"'),
       r"its memory limit is 2560 MiB, and its settings .* may take")
broken("dev", "less grace than drain", lambda things: _put(_worker(things), "terminationGracePeriodSeconds", 30),
       r"terminationGracePeriodSeconds is 30, and preStop, --drain-ms .* are 50: change them with deploy/drain")


@breaks("dev", r"preStop sleeps for 2 s: less than fronts need")
def too_short_a_sleep(things):
    _kerfd(things)["lifecycle"]["preStop"]["sleep"]["seconds"] = 2
    _worker(things)["terminationGracePeriodSeconds"] = 42


broken("gpu", "no gpu for a pod that needs one", lambda things: _kerfd(things)["resources"]["limits"].pop("nvidia.com/gpu"),
       r"kerf-cuda, --gpu=require and nvidia\.com/gpu belong together")
broken("dev", "no such verb",
       lambda things: _put(_redis(things)["containers"][0]["readinessProbe"]["exec"]["command"], 2, "check"),
       r"keeper\.sh has no 'check', only start, keep, alive, ready, leave")
broken("dev", "a node without an address",
       lambda things: _put(_redis(things)["containers"][1], "env", _redis(things)["containers"][1]["env"][1:]),
       r"keeper\.sh needs KERF_REDIS_ADDRESS")
broken("dev", "a seventh node", lambda things: _put(_spec(things, "StatefulSet", "kerf-redis"), "replicas", 7),
       r"the file peers is not the names of its 7 pods")
broken("dev", "redis with more memory than there is",
       lambda things: _replace(_settings(things, "kerf-redis"), "redis.conf", "maxmemory 1gb", "maxmemory 2gb"),
       r"not 1\.5 times redis\.conf's maxmemory")
broken("dev", "hints that would take the room of entries",
       lambda things: _replace(_settings(things, "kerf-redis"), "redis.conf", "volatile-lru", "noeviction"),
       r"maxmemory-policy is none of volatile-")
broken("dev", "a kerfd without a name",
       lambda things: _replace(_settings(things, "kerf-worker"), "kerfd.toml", 'redis-user = "kerfd"', ""),
       r"redis-user is '', which is no user for kerfd")
broken("dev", "a kerfd that may do everything",
       lambda things: _replace(_settings(things, "kerf-worker"), "kerfd.toml", 'redis-user = "kerfd"', 'redis-user = "operator"'),
       r"redis-user is 'operator', which is no user for kerfd")
broken("dev", "a password too many",
       lambda things: _worker(things)["volumes"][1]["secret"]["items"].append({"key": "operator", "path": "operator"}),
       r"has the passwords of kerfd, operator mounted, and needs that of kerfd")


@breaks("dev", r"the user probe has no password: no Secret is mounted as /etc/kerf/redis/probe\.sums")
def a_user_without_a_password(things):
    _settings(things, "kerf-redis")["users"] += "probe +info\n"


broken("dev", "a password where a sum will do",
       lambda things: _redis(things)["volumes"][1]["secret"]["items"].append({"key": "kerfd", "path": "kerfd"}),
       r"container keeper: has the password of kerfd mounted, and needs its sums alone")


@breaks("dev", r"Secret kerf-redis-\w+: kerfd\.sums has not the sum of kerfd")
def a_sum_of_another_password(things):
    data = next(thing["data"] for thing in things.of("Secret") if "kerfd" in thing["data"])
    data["kerfd"] = data["keeper"]


broken("dev", "a user with all rights", lambda things: _replace(_settings(things, "kerf-redis"), "users", "+hmget", "+@all"),
       r"the user kerfd may do everything: only operator may")
broken("prod", "a node in the clear", lambda things: _drop_variable(_redis(things)["containers"][1], "KERF_REDIS_TLS"),
       r"some containers of Redis have KERF_REDIS_TLS and some have not")
broken("prod", "a node without a key",
       lambda things: _volume(_redis(things), "tls")["secret"].update(items=[{"key": "ca.crt", "path": "ca.crt"}]),
       r"keeper\.sh wants ca\.crt, tls\.crt, tls\.key of a Secret in /etc/kerf-redis-tls, which has ca\.crt")
broken("prod", "an exporter with the node's key", lambda things: _volume(_redis(things), "redis-ca")["secret"].pop("items"),
       r"exporter\.sh wants ca\.crt of a Secret in /etc/kerf-redis-tls, which has ca\.crt, tls\.crt, tls\.key")
broken("prod", "an exporter without a key of its own", lambda things: _volume(_redis(things), "metrics-tls")["secret"].update(
    items=[{"key": "ca.crt", "path": "ca.crt"}]), r"exporter\.sh wants ca\.crt, tls\.crt, tls\.key of a Secret in /etc/kerf-metrics-tls")
broken("prod", "an exporter that answers in the clear",
       lambda things: _drop_variable(_redis(things)["containers"][2], "KERF_REDIS_METRICS_TLS"), r"has KERF_REDIS_TLS, and no KERF_REDIS_METRICS_TLS")
broken("prod", "an exporter without a name", lambda things: _drop_variable(_redis(things)["containers"][2], "KERF_REDIS_NAME"),
       r"exporter\.sh needs KERF_REDIS_NAME")
broken("prod", "a kerfd in the clear", lambda things: [_drop_variable(_kerfd(things), name) for name in (
    "KERFD_REDIS_TLS_CA", "KERFD_REDIS_TLS_NAME")],
       r"redis-tls-ca is '', and Redis speaks TLS")
broken("prod", "a kerfd that looks for addresses in certificates",
       lambda things: _drop_variable(_kerfd(things), "KERFD_REDIS_TLS_NAME"),
       r"redis-tls-name is '': certificates of nodes have the name in redis")
broken("prod", "a kerfd that may join the cluster", lambda things: _volume(_worker(things), "redis-ca")["secret"].pop("items"),
       r"has a certificate of Redis' nodes mounted, and needs its CA alone")
broken("dev", "no keeper", lambda things: _replace(_settings(things, "kerf-redis"), "users", "keeper +psync", "warden +psync"),
       r"there is no user keeper in the file users")


# Certificates.

broken("cert-manager", "no such field of a certificate",
       lambda things: _put(_spec(things, "Certificate", "kerf-front"), "dnsName", "kerf"),
       r"Certificate kerf-front: spec\.dnsName: there is no such field")
broken("cert-manager", "a usage that nobody knows",
       lambda things: _put(_spec(things, "Certificate", "kerf-front"), "usages", ["client authentication"]),
       r"'client authentication' is none of")
broken("cert-manager", "a certificate that nobody makes", lambda things: _drop(things, "Certificate", "kerf-worker"),
       r"Secret kerf-worker-tls: no Certificate makes it")
broken("cert-manager", "an issuer that is not there", lambda things: _drop(things, "Issuer", "kerf"),
       r"Certificate kerf-front: there is no Issuer kerf")
broken("cert-manager", "a front under another name",
       lambda things: _spec(things, "Certificate", "kerf-front")["dnsNames"].pop(0), r"its first name is not kerf")
broken("cert-manager", "a front that is no client",
       lambda things: _spec(things, "Certificate", "kerf-front")["usages"].remove("client auth"), r"its usages do not do")
broken("cert-manager", "one CA for all", lambda things: _put(_spec(things, "Issuer", "kerf")["ca"], "secretName", "kerf-redis-ca"),
       r"Certificate kerf-front: is of the CA of kerf-redis-tls")
broken("cert-manager", "an agent that reads all figures",
       lambda things: _put(_spec(things, "Issuer", "kerf")["ca"], "secretName", "kerf-metrics-ca"),
       r"Certificate kerf-front: is of the CA of kerf-prometheus-tls")
broken("cert-manager", "a Prometheus that is no client",
       lambda things: _put(_spec(things, "Certificate", "kerf-prometheus"), "usages", ["server auth"]), r"its usages do not do")
broken("cert-manager", "a Prometheus without a certificate", lambda things: _drop(things, "Certificate", "kerf-prometheus"),
       r"Secret kerf-prometheus-tls: no Certificate makes it")
broken("cert-manager", "a node that its exporter does not know",
       lambda things: _spec(things, "Certificate", "kerf-redis")["dnsNames"].remove("kerf-redis-3"),
       r"lacks the name kerf-redis-3")


# The load test.

def _load(things, name="kerf-load-master"):
    return _pod(things, "Job" if name == "kerf-load-master" else "Deployment", name)["containers"][0]


def _swap(words, old, new):
    words[words.index(old)] = new


broken("loadtest", "no such setting of the load",
       lambda things: _replace(_settings(things, "kerf-load"), "scenario.toml", "users =", "people ="),
       r"container locust: .*no setting 'load\.people'")
broken("loadtest", "no such service level",
       lambda things: _replace(_settings(things, "kerf-load"), "slo.toml", "[p95_ms.any]", "[p95_s.any]"),
       r"container locust: .*unknown: p95_s")
broken("loadtest", "no such option of the load", lambda things: _swap(_load(things)["args"], "--master=3", "--masters=3"),
       r"Job kerf-load-master, container locust: .*--masters=3")
broken("loadtest", "service levels at another place",
       lambda things: _swap(_load(things)["args"], "--slo=/etc/kerf/slo.toml", "--slo=/etc/kerf/levels.toml"),
       r"nothing is mounted as /etc/kerf/levels\.toml")
broken("loadtest", "a load on nobody",
       lambda things: _replace(_settings(things, "kerf-load"), "scenario.toml", "kerf.kerf:7461", "kerf.kerf:7462"),
       r"the addresses are \['kerf\.kerf:7462'\], and the fronts are at kerf\.kerf:7461")
broken("loadtest", "a master that waits for ever",
       lambda things: _put(_spec(things, "Deployment", "kerf-load-worker"), "replicas", 2),
       r"waits for 3 workers, and Deployment kerf-load-worker has 2")
broken("loadtest", "a master of another name",
       lambda things: _swap(_load(things, "kerf-load-worker")["args"], "--worker=kerf-load-master:5557",
                            "--worker=kerf-load:5557"),
       r"the master is at kerf-load:5557, which no Service has")
broken("loadtest", "a master at another port", lambda things: _put(_load(things)["ports"][0], "containerPort", 5558),
       r"Locust's master listens at 5557, and its port locust is 5558")
broken("loadtest", "reports that nobody sees", lambda things: _load(things)["args"].remove("--reports-to-log"),
       r"without --reports-to-log nobody could fetch")
broken("loadtest", "a second verdict", lambda things: _spec(things, "Job", "kerf-load-master").pop("backoffLimit"),
       r"would run again after a verdict")
broken("loadtest", "a job that is ended too soon",
       lambda things: _put(_spec(things, "Job", "kerf-load-master"), "activeDeadlineSeconds", 60),
       r"activeDeadlineSeconds is 60, and the load takes 300 s")
broken("loadtest", "another python", lambda things: _put(_load(things)["command"], 0, "/usr/bin/python"),
       r"the image kerf-loadtest has no /usr/bin/python")
broken("loadtest", "a namespace of no agents",
       lambda things: things.get("Namespace", "kerf-load")["metadata"]["labels"].pop("kerf-agents"),
       r"fronts let nobody in without kerf-agent on the pod")
broken("loadtest", "a load that is shut in", lambda things: _drop(things, "NetworkPolicy", "fronts"),
       r"load-worker cannot reach a front in kerf's namespace")
broken("loadtest", "a load that reaches all of kerf",
       lambda things: _policy(things, "fronts")["egress"][0]["to"][0].pop("podSelector"),
       r"load-worker may reach a worker in kerf's namespace")
broken("loadtest", "a master for everybody", lambda things: _policy(things, "kerf-load-master")["ingress"][0].pop("from"),
       r"a stranger may reach load-master")
broken("loadtest", "a load that writes to its root",
       lambda things: _put(_load(things, "kerf-load-worker")["securityContext"], "readOnlyRootFilesystem", False),
       r"readOnlyRootFilesystem is not true")


# Metrics.

def _alert(things, name):
    rules = _spec(things, "PrometheusRule", "kerf")["groups"][0]["rules"]
    return next(rule for rule in rules if rule["alert"] == name)


broken("prod", "an alert on no metric",
       lambda things: _put(_alert(things, "KerfWorkerLost"), "expr", 'kerf_workers{state="lost"} > 0'),
       r"PrometheusRule kerf, KerfWorkerLost: kerfd shows no metric kerf_workers")
broken("prod", "an alert on no label",
       lambda things: _put(_alert(things, "KerfGpuLost"), "expr", 'kerf_gpus{condition="lost"} > 0'),
       r"kerf_gpus has no label condition")
broken("prod", "the value of a histogram",
       lambda things: _put(_alert(things, "KerfMemoryFull"), "expr", "kerf_stage_seconds > 1"),
       r"kerfd shows no metric kerf_stage_seconds \(docs")
broken("prod", "an expression that does not end",
       lambda things: _put(_alert(things, "KerfMemoryFull"), "expr", "sum(kerf_streams > 1"),
       r"KerfMemoryFull: Prometheus cannot read 'sum\(kerf_streams > 1'")
broken("prod", "a panel of no metric",
       lambda things: _replace(_settings(things, "kerf-dashboard"), "kerf.json", "kerf_ingest_bytes_total",
                               "kerf_taken_bytes_total"),
       r"ConfigMap kerf-dashboard, panel 'Bytes taken': kerfd shows no metric kerf_taken_bytes_total")
broken("prod", "an alert with an unknown field", lambda things: _put(_alert(things, "KerfNoWorkers"), "severity", "high"),
       r"PrometheusRule kerf: spec\.groups\[0\]\.rules\[0\]\.severity: there is no such field")


@breaks("prod", r"adapter-rules\.yaml brings no kerf_streams to Kubernetes")
def an_autoscaler_that_nobody_serves(things):
    spec = _spec(things, "HorizontalPodAutoscaler", "kerf-worker")
    spec["metrics"][0]["pods"]["metric"]["name"] = "kerf_streams"


broken("prod", "replicas beside an autoscaler", lambda things: _put(_spec(things, "StatefulSet", "kerf-worker"), "replicas", 3),
       r"has replicas, so that each apply undoes")
broken("prod", "an autoscaler of nothing",
       lambda things: _put(_spec(things, "HorizontalPodAutoscaler", "kerf-worker")["scaleTargetRef"], "kind", "Deployment"),
       r"there is no Deployment kerf-worker in apps/v1")
broken("prod", "a monitor of no port",
       lambda things: _put(_spec(things, "ServiceMonitor", "kerf-front")["endpoints"][0], "port", "http"),
       r"ServiceMonitor kerf-front: Service kerf has no port http")


def _exporter(things):
    return next(container for container in _redis(things)["containers"] if container["name"] == "exporter")


broken("prod", "an exporter without a password", lambda things: _exporter(things)["env"].pop(),
       r"container exporter: exporter\.sh needs KERF_REDIS_EXPORTER")
broken("prod", "an exporter at another port", lambda things: _put(_exporter(things)["ports"][0], "containerPort", 9122),
       r"container exporter: exporter\.sh listens at 0\.0\.0\.0:9121, and its port metrics is 9122")
broken("prod", "an exporter without its script",
       lambda things: _drop_mount(_exporter(things), "exporter-settings"),
       r"container exporter: nothing is mounted as /etc/kerf/exporter/exporter\.sh")


@breaks("prod", r"kerfd shows no metric redis_memory_bytes")
def a_metric_that_redis_does_not_have(things):
    rules = _spec(things, "PrometheusRule", "kerf-redis")["groups"][0]["rules"]
    rules[1]["expr"] = rules[1]["expr"].replace("redis_memory_used_bytes", "redis_memory_bytes")


broken("prod", "prometheus shut out of redis", lambda things: _drop(things, "NetworkPolicy", "kerf-redis-metrics"),
       r"Prometheus cannot reach redis at \('TCP', 9121\)")
broken("prod", "prometheus shut out", lambda things: _drop(things, "NetworkPolicy", "kerf-worker-metrics"),
       r"Prometheus cannot reach worker at \('TCP', 9461\)")
broken("prod", "all of monitoring let in",
       lambda things: _policy(things, "kerf-front-metrics")["ingress"][0]["from"][0].pop("podSelector"),
       r"another pod of monitoring may reach")


def _backup(things):
    return _spec(things, "CronJob", "kerf-backup")["jobTemplate"]["spec"]["template"]["spec"]


def _variable(container, name):
    return next(variable for variable in container["env"] if variable["name"] == name)


broken("backup", "a verb that kerf has not", lambda things: _put(_backup(things)["containers"][0], "args", ["collect"]),
       r"container gc: kerf has no verb 'collect'")
broken("backup", "a flag that kerf has not", lambda things: _backup(things)["initContainers"][1]["args"].append("--keep-nightly=3"),
       r"container forget: kerf forget has no --keep-nightly")
broken("backup", "a variable that kerf does not read",
       lambda things: _put(_variable(_backup(things)["containers"][0], "KERF_TLS_CA"), "name", "KERF_CA"),
       r"container gc: kerf reads no variable KERF_CA")
broken("backup", "a store that goes with the pod",
       lambda things: _put(_variable(_backup(things)["initContainers"][0], "KERF_STORE"), "value", "/tmp"),
       r"container backup: KERF_STORE is '/tmp', where nothing stays")
broken("backup", "what is remembered goes with the pod",
       lambda things: _drop_mount(_backup(things)["containers"][0], "home"), r"container gc: HOME is '/home/kerf', where nothing stays")
broken("backup", "an agent without its certificate", lambda things: _drop_mount(_backup(things)["initContainers"][1], "tls"),
       r"container forget: KERF_TLS_CERT is '/etc/kerf-tls/tls\.crt', where no tls\.crt of a Secret is mounted")
broken("backup", "data that Kubernetes would give to the pod's group",
       lambda things: _volume(_backup(things), "data")["persistentVolumeClaim"].pop("readOnly"), r"/data is not read-only")
broken("backup", "a collection before the backup", lambda things: _backup(things)["initContainers"].reverse(),
       r"forget, backup, gc run at once, or not in the order")
broken("backup", "two nights at once", lambda things: _put(_spec(things, "CronJob", "kerf-backup"), "concurrencyPolicy", "Allow"),
       r"concurrencyPolicy is not Forbid")
broken("backup", "a backup that is tried again at once",
       lambda things: _put(_spec(things, "CronJob", "kerf-backup")["jobTemplate"]["spec"], "backoffLimit", 6), r"backoffLimit 0")
broken("backup", "a backup that no front lets in",
       lambda things: things.get("Namespace", "kerf-backup")["metadata"]["labels"].pop("kerf-agents"),
       r"fronts let nobody in without kerf-agent")
broken("backup", "a backup that may go anywhere", lambda things: _policy(things, "fronts")["egress"][0].pop("to"),
       r"backup may reach the name server at \('any', 'any'\)|backup may reach .* and has no need to")
broken("backup", "a schedule that is no field of Kubernetes", lambda things: _put(_spec(things, "CronJob", "kerf-backup"), "cron", "0 2 * * *"),
       r"CronJob kerf-backup: spec\.cron: there is no such field")


def run(rendered, findings):
    """The exit code: 0 if all were found."""
    failed = 0
    for name, overlay, expected, function in MUTATIONS:
        things = manifests.parse(rendered[overlay])
        function(things)
        found = findings(manifests.Manifests(things.things))
        if not any(re.search(expected, message) for message in found):
            failed += 1
            print(f"deploy/check: broken on purpose, and not found: {name} (overlays/{overlay}): nothing says "
                  f"'{expected}', but: {found or 'nothing'}", file=sys.stderr)
    print(f"deploy/check: {len(MUTATIONS) - failed} of {len(MUTATIONS)} overlays that were broken on purpose were refused")
    return 1 if failed else 0
