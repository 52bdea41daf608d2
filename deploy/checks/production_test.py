#!/usr/bin/env python3
"""No step of the READMEs' way for production leaves a port open: production_test.py [KUSTOMIZE [KERF KERFD]], as root.

Each port that the way opens is opened here, by the commands that stand in README.md and deploy/README.md, in networks of
its own, and strangers come to it; each has to speak TLS 1.3 alone (but for one, EXPORTER) and to ask who comes. What
Kubernetes does about ports is read in the manifests that those commands apply. Then commands and manifests are changed so
that something is open, in many ways, and each has to be found. With the tools that `deploy/check` has left; a minute.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import manifests as rendered
import network
import pod_box
import production_faults
import production_way as way
import security
import strangers
from check import render

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_FOR_PRODUCTION = {"dev", "loadtest"}
PATIENCE_S = 60
# Who is let in has something to say, and is waited for.
NODE_S = 0.5
# gRPC's.
OK, NOT_YOURS, UNKNOWN_CALLER = 0, 7, 16
OPEN_KINDS = {"Ingress", "Gateway", "HTTPRoute", "GRPCRoute", "TCPRoute", "TLSRoute"}
# Debian's (1.45) keeps to TLS 1.3 only where it asks for no certificate; with one it speaks 1.2 as well.
EXPORTER = 9121
# Pods that have to see each other share a network.
TOGETHER = (("Deployment kerf-front",), ("StatefulSet kerf-redis", "StatefulSet kerf-worker"))


def make_strangers(folder, kerf):
    """Those of a CA of their own."""
    subprocess.run([kerf, "tls", "init", folder / "other", "--name", "kerf", "--client", "stranger"], check=True,
                   stdout=subprocess.DEVNULL)
    return folder / "other"


def _of(folder, name):
    return str(folder / f"{name}.pem"), str(folder / f"{name}.key")


# From a laptop to a server.

def over_a_network(folder, script, kerf, kerfd):
    """Findings; the last of the commands is a backup, and has to succeed."""
    root, found = folder / "machine", []
    other, laptop = make_strangers(folder, kerf), _of(root / "source/tls", "laptop")
    root.mkdir()
    pod_box.make_root(root, ["backup.example"])
    (root / "home/documents").mkdir()
    (root / "home/documents/letter").write_text("Dear all\n", encoding="utf-8")
    (root / "source/out").mkdir(parents=True)
    for name, path in (("kerf", kerf), ("kerfd", kerfd)):
        (root / "source/out" / name).touch()
        pod_box.mount(path, root / "source/out" / name, flags=pod_box.BIND)
    way.install({"kerf": "/source/out/kerf"}, root / "tools")
    environment = {"PATH": "/tools:/usr/bin:/bin", "HOME": "/home"}
    for number, line in enumerate(script.splitlines()):
        line = line.partition(" #")[0].rstrip()
        with open(folder / f"{number}.log", "wb") as log:
            process = pod_box.start(root, ["/bin/bash", "-c", f"cd /source && {line.removesuffix('&')}"], environment, log)
        if line.endswith("&"):
            until = time.monotonic() + PATIENCE_S
            while not pod_box.listening() and process.poll() is None and time.monotonic() < until:
                time.sleep(0.02)
            for kind, port in pod_box.listening():
                found += strangers.findings(port, f"{kind} port {port}", [("one of another CA", *_of(other, "stranger"))],
                                            laptop if pathlib.Path(laptop[0]).exists() else (None, None))
            found += [] if pod_box.listening() else [f"nobody listens: {line}"]
        elif process.wait(way.PATIENCE_S) != 0:
            said = (folder / f"{number}.log").read_text(encoding="utf-8", errors="replace")
            return [*found, f"'{line}' fails: {said.strip()}"]
    return found


# On Kubernetes.

def what_kubernetes_does(manifests):
    """What can be seen of ports without opening them."""
    for rule in (network.flows, security.pods, security.containers):
        yield from rule(manifests, None)
    for thing in manifests.things:
        if thing["kind"] in OPEN_KINDS:
            yield f"{rendered.name_of(thing)}: lets in whoever comes"
    for service in manifests.of("Service"):
        spec = service["spec"]
        if spec.get("type", "ClusterIP") != "ClusterIP" or spec.get("externalIPs"):
            yield f"{rendered.name_of(service)}: is to be reached from outside of the cluster"
    for workload in manifests.workloads:
        for container in workload.containers:
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                probe = container.get(kind, {})
                if "httpGet" in probe and probe["httpGet"].get("scheme") != "HTTPS" or {"tcpSocket", "grpc"} & set(probe):
                    yield f"{workload.name}, container {container['name']}: {kind} does not ask over TLS"
    for monitor in manifests.of("ServiceMonitor"):
        for endpoint in monitor["spec"]["endpoints"]:
            if endpoint.get("scheme") != "https" or not {"ca", "cert", "keySecret", "serverName"} <= set(endpoint.get("tlsConfig", {})):
                yield f"{rendered.name_of(monitor)}: Prometheus asks in the clear, or shows nobody who it is"


def _called(where):
    """By what name it is reached, which its certificate has to have."""
    return "kerf-worker" if where.startswith("StatefulSet kerf-worker") else "kerf"


def who_may_be_a_front(secrets):
    """Nobody but a front: it speaks for everybody at the workers."""
    front, worker = (secrets.get(f"kerf-{one}-tls", {}) for one in ("front", "worker"))
    if front and worker and (front.get("tls.crt") == worker.get("tls.crt") or front.get("tls.key") == worker.get("tls.key")):
        yield "kerf-worker-tls: workers have the certificate of fronts, and with it may be one"


class Judge:
    """Of pods that run in a box."""

    def __init__(self, folder, manifests, made, kerf, kerfd):
        self.folder, self.manifests, self.made = folder, manifests, made
        self.kerf, self.kerfd = kerf, kerfd
        self.tls, self.metrics_tls = made.folder / "tls", made.folder / "metrics-tls"
        self.other = make_strangers(folder, kerf)
        self.hosts = sorted({service["metadata"]["name"] for service in manifests.of("Service")} | {"kerf-redis-0"})

    def judge(self, names):
        pods = [pod_box.Pod(self.folder, self.manifests, workload, self.made.secrets, {"/usr/bin/kerfd": self.kerfd}, self.hosts)
                for name in names for workload in self.manifests.workloads if workload.name == name]
        declared = {}
        for pod in pods:
            pod.start()
            declared |= {port: (pod, name) for name, port in pod.workload.ports.items()}
            if "redis" in pod.workload.ports:
                self.be_whole(pod)
        processes = [process for pod in pods for process in pod.processes.values()]
        for port in pod_box.await_ports(declared, processes, PATIENCE_S):
            pod, name = declared[port]
            logs = "".join(pod.log(container["name"])[-600:] for container in pod.workload.containers)
            yield f"{pod.workload.name}: nobody listens at its port {name}: {logs}"
        for kind, port in pod_box.listening():
            if kind != "TCP" or port not in declared:
                yield f"{' or '.join(names)}: listens at {kind} port {port}, which no manifest names"
            else:
                pod, name = declared[port]
                yield from self.come_to(port, name, f"{pod.workload.name}, port {name}")

    def be_whole(self, pod):
        """The one node of Redis that is here gets all slots, so that a worker has an index."""
        port = pod.workload.ports["redis"]
        pod_box.await_ports([port], pod.processes.values(), PATIENCE_S)
        password = (self.made.folder / "operator").read_text(encoding="utf-8")
        said = f"AUTH operator {password}\r\nCLUSTER ADDSLOTSRANGE 0 16383\r\nCONFIG SET min-replicas-to-write 0\r\n".encode()
        until = time.monotonic() + PATIENCE_S
        while b"+OK" not in (strangers.ask(port, said, strangers.tls()) or strangers.ask(port, said)):
            if time.monotonic() > until:
                raise RuntimeError(f"Redis does not take its operator's password: {pod.log('redis')[-600:]}")
            time.sleep(0.1)

    def come_to(self, port, name, where):
        others = [("one of another CA", *_of(self.other, "stranger"))]
        if name == "grpc":
            others.append(("Prometheus", *_of(self.metrics_tls, "prometheus")))
            found = [*strangers.findings(port, where, others, _of(self.tls, "agent"))]
            yield from found or [*strangers.waiting(port, where, others), *self.call(port, where)]
            return
        others.append(("an agent", *_of(self.tls, "agent")))
        prometheus = _of(self.metrics_tls, "prometheus")
        if name == "bus":
            yield from self.listen(port, where, [*others, ("Prometheus", *prometheus)])
            return
        may_be_old = name != "metrics" or port == EXPORTER
        yield from strangers.findings(port, where, others, (None, None) if may_be_old else prometheus)
        if name == "metrics":
            host, page = ("kerf-redis-metrics", "\nredis_up ") if port == EXPORTER else (_called(where), "\nkerf_ready ")
            ca = self.metrics_tls / "ca.pem" if port == EXPORTER else self.tls / "ca.pem"
            shown = strangers.read(port, "/metrics", self.metrics_tls, "prometheus", ca, host)
            if page not in shown:
                yield f"{where}: shows Prometheus nothing: {shown[:200]}"
            probe = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
            if port != EXPORTER and not strangers.ask(port, probe, strangers.tls()).startswith(b"HTTP/1.1 200 "):
                yield f"{where}: does not tell a kubelet, who has no certificate, that it lives"
        elif name == "redis":
            password = self.made.secrets["kerf-redis"]["kerfd"]
            if not strangers.ask(port, b"AUTH kerfd %s\r\n" % password, strangers.tls()).startswith(b"+OK"):
                yield f"{where}: does not answer who has its password, over TLS"

    def listen(self, port, where, others):
        """The bus answers nobody who does not go on for long, so who is heard at all is what counts."""
        if found := [*strangers.waiting(port, where, others)]:
            yield from found
            return
        yield from strangers.findings(port, where, others)
        if not strangers.is_waited_for(port, strangers.tls(*_of(self.made.folder / "redis-tls", "kerfd")), NODE_S):
            yield f"{where}: does not listen to its own nodes"

    def call(self, port, where):
        ca = str(self.tls / "ca.pem")
        for whose, method, allowed in (("nobody", strangers.STATUS, {NOT_YOURS, UNKNOWN_CALLER}), ("agent", strangers.HEALTH, {OK})):
            status = strangers.call(port, method, self.tls, whose, ca, _called(where))
            if status not in allowed:
                yield f"{where}: {whose} of its CA is answered {status} by {method}"


def judge_pods(folder, manifests, made, kerf, kerfd, names):
    return list(Judge(folder, manifests, made, kerf, kerfd).judge(names))


class OnKubernetes:
    """The way on Kubernetes, walked once for each script that is asked about."""

    def __init__(self, kustomize, kerf, kerfd, folder):
        self.kustomize, self.kerf, self.kerfd, self.folder = kustomize, kerf, kerfd, folder
        self.rendered, self.made = {}, {}

    def manifests(self, overlay):
        if overlay not in self.rendered:
            self.rendered[overlay] = render(self.kustomize, overlay)
        return rendered.parse(self.rendered[overlay])

    def walk(self, script):
        if script not in self.made:
            made = self.made[script] = way.walk(script, pathlib.Path(tempfile.mkdtemp(dir=self.folder)), self.kerf)
            # Of the way's own CA, and in no grant.
            subprocess.run([self.kerf, "tls", "init", made.folder / "tls", "--client", "nobody"], check=True, stdout=subprocess.DEVNULL)
        return self.made[script]

    def findings(self, script, change=None, together=TOGETHER):
        """About all that the commands apply, with `change` made to it."""
        try:
            made, found = self.walk(script), []
            if not made.applied:
                return ["nothing is applied"]
            found += who_may_be_a_front(made.secrets)
            for overlay in made.applied:
                manifests = self.manifests(ROOT / overlay)
                if change:
                    change(manifests)
                found += what_kubernetes_does(manifests)
                judged = {name for names in together for name in names}
                found += [f"{one.name}: this test does not know it" for one in manifests.workloads
                          if together is TOGETHER and one.name not in judged]
                for names in together:
                    found += pod_box.inside(judge_pods, manifests, made, self.kerf, self.kerfd, names)
            return found
        except (way.Unknown, pod_box.Missing) as error:
            return [str(error)]


def main():
    if os.geteuid() != 0:
        sys.exit("production_test: as root, who may make networks")
    arguments = sys.argv[1:] or [ROOT / "out/tools/deploy/kustomize"]
    kustomize, kerf, kerfd = [str(pathlib.Path(path).resolve()) for path in (
        *arguments, *([ROOT / "out/kerf", ROOT / "out/kerfd"] if len(arguments) == 1 else []))]
    scripts = way.of(way.OVER_A_NETWORK), way.of(way.ON_KUBERNETES)
    with tempfile.TemporaryDirectory(prefix="kerf-way-") as folder:
        cluster = OnKubernetes(kustomize, kerf, kerfd, pathlib.Path(folder))

        def network_findings(script):
            return pod_box.inside(over_a_network, script, kerf, kerfd)

        found = [f"README.md: {one}" for one in network_findings(scripts[0])]
        found += [f"deploy/README.md: {one}" for one in cluster.findings(scripts[1])]
        for overlay in sorted(path.parent for path in (ROOT / "deploy/overlays").glob("*/kustomization.yaml")):
            if overlay.name not in NOT_FOR_PRODUCTION:
                found += [f"overlays/{overlay.name}: {one}" for one in what_kubernetes_does(cluster.manifests(overlay))]
        for one in found:
            print(f"production_test: {one}", file=sys.stderr)
        if found:
            return 1
        print("production_test: each port of both ways speaks TLS and asks who comes")
        return production_faults.run(network_findings, lambda script, change, names: cluster.findings(
            script, change, [names] if names else []), *scripts)


if __name__ == "__main__":
    sys.exit(main())
