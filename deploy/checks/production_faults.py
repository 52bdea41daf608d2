"""Ways for production that leave something open, or hold nothing together: production_test.py has to find each."""

import functools
import multiprocessing
import re
import sys

# Most of each is waiting.
AT_ONCE = 4
FRONT, WORKER = ("Deployment kerf-front",), ("StatefulSet kerf-redis", "StatefulSet kerf-worker")
REDIS = ("StatefulSet kerf-redis",)


def _container(things, workload, number=0):
    return next(one for one in things.workloads if one.name == workload).containers[number]


def _without(workload, *names, number=0):
    """Without these variables."""
    def change(things):
        container = _container(things, workload, number)
        assert all(any(one["name"] == name for one in container["env"]) for name in names), names
        container["env"] = [one for one in container["env"] if one["name"] not in names]
    return change


def _in_settings(name, key, old, new):
    def change(things):
        data = next(thing["data"] for thing in things.of("ConfigMap")
                    if thing["metadata"]["name"].startswith(name) and key in thing["data"])
        assert old in data[key], old
        data[key] = data[key].replace(old, new)
    return change


def _drop(kind, name):
    return lambda things: things.things.remove(things.get(kind, name))


def _service(**fields):
    return lambda things: things.get("Service", "kerf")["spec"].update(fields)


def _plain_probe(things):
    _container(things, FRONT[0])["readinessProbe"]["httpGet"].pop("scheme")


def _host_port(things):
    _container(things, FRONT[0])["ports"][0]["hostPort"] = 7461


def _plain_monitor(things):
    things.get("ServiceMonitor", "kerf-worker")["spec"]["endpoints"][0].pop("tlsConfig")


# Of commands: what is changed, and what has to be said.
OVER_A_NETWORK = (
    (" --tls-client-ca tls/ca.pem", "", r"TCP port 7461 answers whoever has no certificate"),
    (" --tls-cert tls/kerfd.pem --tls-key tls/kerfd.key --tls-client-ca tls/ca.pem", " --insecure", r"port 7461 answers in the clear"),
    ("--data-dir", "--metrics-listen 0.0.0.0:9461 --data-dir", r"TCP port 9461 answers whoever has no certificate"),
    (" --client laptop", "", r"fails: "),
    ("ssh laptop mkdir -p .config/kerf && ", "", r"fails: scp: .*no such folder"),
)
ON_KUBERNETES = (
    (r"(kerf-redis-tls --from-file=ca.crt=)redis-tls", r"\1tls", r"port bus listens to an agent", REDIS),
    (r".*kerf-prometheus-tls.*\n", "", r"needs the Secret kerf-prometheus-tls, which the way does not make", FRONT),
    (r" --from-file=ca.crt=redis-tls/ca.pem", "", r"needs ca\.crt of the Secret kerf-redis-tls", REDIS),
    (r"\nkubectl apply .*", "", r"nothing is applied", ()),
    (r"(kerf-worker-tls .*=)tls/kerfd\.pem (.*=)tls/kerfd\.key", r"\1tls/front.pem \2tls/front.key",
     r"workers have the certificate of fronts", ()),
)
# Of what is applied, and which pods have to run for it to be seen.
MANIFESTS = (
    ("a front that asks for no certificate", _without(FRONT[0], "KERFD_TLS_CLIENT_CA"), r"port grpc answers whoever has no", FRONT),
    ("a front in the clear", _without(FRONT[0], "KERFD_TLS_CERT", "KERFD_TLS_KEY", "KERFD_TLS_CLIENT_CA", "KERFD_ACCESS",
                                      "KERFD_METRICS_CLIENT_CA", "KERFD_INSECURE", "KERFD_WORKER_TLS_CA"),
     r"kerf-front, port grpc answers in the clear", FRONT),
    ("a front for everybody of its CA", _without(FRONT[0], "KERFD_ACCESS"), r"nobody of its CA is answered", FRONT),
    ("figures for everybody", _without(FRONT[0], "KERFD_METRICS_CLIENT_CA"), r"port metrics answers whoever has no certificate", FRONT),
    ("a port that no manifest names", _in_settings("kerf-front", "kerfd.toml", '"0.0.0.0:7461"', '"0.0.0.0:7461", "0.0.0.0:7999"'),
     r"listens at TCP port 7999, which no manifest names", FRONT),
    ("a worker that asks for no certificate", _without(WORKER[1], "KERFD_TLS_CLIENT_CA"),
     r"kerf-worker, port grpc answers whoever has no", WORKER),
    ("a Redis in the clear", lambda things: [_without(REDIS[0], "KERF_REDIS_TLS", number=number)(things) for number in range(3)],
     r"port redis answers in the clear", REDIS),
    ("an older TLS", _in_settings("kerf-redis", "keeper.sh", '"TLSv1.3"', '"TLSv1.2 TLSv1.3"'), r"port redis speaks TLS 1\.2", REDIS),
    ("a Redis without passwords", _in_settings("kerf-redis", "keeper.sh", '"user default off"', '"user default on nopass ~* +@all"'),
     r"port redis answers whoever has no certificate", REDIS),
    ("a bus in the clear, and a port that no manifest names", _in_settings(
        "kerf-redis", "keeper.sh", "port 0\ntls-port $port\ntls-cluster yes",
        "port 6380\ncluster-port 16379\ntls-port $port\ntls-cluster no"), r"port bus listens to whoever speaks in the clear", REDIS),
    ("an exporter for everybody", _in_settings("kerf-redis-metrics", "exporter.sh", "-tls-server-ca-cert-file", "-tls-ca-cert-file"),
     r"port metrics answers whoever has no certificate", REDIS),
    ("an exporter in the clear", _without(REDIS[0], "KERF_REDIS_METRICS_TLS", number=2), r"port metrics answers in the clear", REDIS),
    ("no policy for Redis", _drop("NetworkPolicy", "kerf-redis"), r"worker cannot reach redis", ()),
    ("no policy that denies", _drop("NetworkPolicy", "default-deny"), r"no NetworkPolicy that denies everything", ()),
    ("a port of each node", _service(type="NodePort"), r"to be reached from outside", ()),
    ("an address of the network's", _service(externalIPs=["192.0.2.1"]), r"to be reached from outside", ()),
    ("a port of the host", _host_port, r"hostPort is not allowed", ()),
    ("a probe in the clear", _plain_probe, r"readinessProbe does not ask over TLS", ()),
    ("a Prometheus in the clear", _plain_monitor, r"Prometheus asks in the clear", ()),
)


# What is played, for the processes that are forked to play it: (name, what has to be said, findings).
_PLAYS = []


def _play(number):
    return _PLAYS[number][2]()


def run(over_a_network, on_kubernetes, network_script, cluster_script):
    """The exit code: 0 if all were found. The first two give findings for a script, and for one with changed manifests."""
    for old, new, expected in OVER_A_NETWORK:
        assert old in network_script, old
        _PLAYS.append((f"README.md with '{new.strip()}' for '{old.strip()}'", expected,
                       functools.partial(over_a_network, network_script.replace(old, new))))
    for pattern, new, expected, names in ON_KUBERNETES:
        changed, count = re.subn(pattern, new, cluster_script)
        assert count, pattern
        _PLAYS.append((f"deploy/README.md with '{new}' for '{pattern}'", expected, functools.partial(on_kubernetes, changed, None, names)))
    for name, change, expected, names in MANIFESTS:
        _PLAYS.append((name, expected, functools.partial(on_kubernetes, cluster_script, change, names)))
    failed = 0
    with multiprocessing.get_context("fork").Pool(AT_ONCE) as pool:
        for (name, expected, _), found in zip(_PLAYS, pool.imap(_play, range(len(_PLAYS)))):
            if not any(re.search(expected, one) for one in found):
                failed += 1
                print(f"production_test: open on purpose, and not found: {name}: nothing says '{expected}', but: {found or 'nothing'}",
                      file=sys.stderr)
    print(f"production_test: {len(_PLAYS) - failed} of {len(_PLAYS)} ways that leave something open were found")
    return 1 if failed else 0
