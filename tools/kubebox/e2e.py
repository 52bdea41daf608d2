"""kerf in real pods: what deploy/ promises, held to by a Kubernetes that really runs it."""

import base64
import io
import json
import os
import pathlib
import shlex
import tarfile
import tempfile
import time

import apply
import network_trial
import nodes
import pods
import policy_faults
import version
from load import Load, restore_and_compare
from oci_image import write_image
from processes import Failed, run, wait_until

NAMESPACE = "kerf"
HOST = "kerf.kerf.svc.cluster.local"
SERVER = f"{HOST}:7461"
FRONTS, WORKERS, REDIS = "deployment/kerf-front", "statefulset/kerf-worker", "statefulset/kerf-redis"
FRONT_COUNT, WORKER_COUNT, REDIS_COUNT = 2, 3, 6
# Of network_trial.STAND_INS.
AGENT = "agent"
VERSION = version.of_tree(pathlib.Path(__file__).resolve().parents[2])
# What deploy/overlays/dev runs, the same under a later name, and one that never serves.
IMAGE, NEXT_IMAGE, BROKEN_IMAGE = (f"localhost/kerf:{tag}" for tag in (VERSION, f"{VERSION}-next", "broken"))
ROLLOUT_TIMEOUT_S = 300
BROKEN_DEADLINE_S = 40
# Of deploy/overlays/dev, which has its sum alone.
OPERATOR_PASSWORD = "known-to-whoever-reads-this"
LOAD_IMAGE, LOAD_WORKERS = f"localhost/kerf-loadtest:{VERSION}", 2
LOAD_TIMEOUT_S = 300
# Of kerf: a server has refused who asks.
EXIT_NOT_AUTHORISED = 4
# Of loadtest/scenarios/smoke.toml it lacks where the fronts are.
LOAD_TARGET = """
[target]
addresses = ["kerf.kerf:7461"]
shard_key_metadata = "kerf-shard-key"
"""

# deploy/overlays/dev, and beside it what overlays/prod has, in its order.
COMPONENTS, SECURE_COMPONENTS = ["monitoring", "redis-metrics"], ["redis-tls", "tls", "access"]
# Fronts are known by the first name of their certificate.
ACCESS = f"""
[[identity]]
name = "{HOST}"
[[identity.grant]]
role = "front"

[[identity]]
name = "kerf://client/agent"
[[identity.grant]]
role = "write"
repositories = ["*"]
"""


class Scenario:
    def __init__(self, cluster, root, work, seed, is_thorough):
        self.cluster, self.root, self.work, self.seed = cluster, root, work, seed
        self.plane, self.is_thorough = cluster.plane(), is_thorough
        # It runs in the network of a pod, as deploy/README.md wants agents to be, and finds the fronts by name.
        self.agent = ["env", f"KERF_SERVER={SERVER}", root / "out/kerf"]
        self.agent_network = []

    def kubectl(self, *arguments, **more):
        return self.plane.kubectl(f"--namespace={NAMESPACE}", *arguments, **more)

    def get(self, *arguments):
        return json.loads(self.kubectl("get", *arguments, "--output=json").stdout)

    def agent_command(self):
        return [*self.agent_network, *self.agent]

    def load(self, what):
        return Load(self.work / what, self.agent_command(), what, self.seed)

    def wait_rolled_out(self, *names):
        for name in names:
            self.kubectl("rollout", "status", name, f"--timeout={ROLLOUT_TIMEOUT_S}s",
                         timeout_s=ROLLOUT_TIMEOUT_S + 30)
            # A rollout is called done before the last old pod has drained.
            wait_until(lambda name=name: not any("deletionTimestamp" in pod["metadata"]
                                                 for pod in self.pods(name)),
                       ROLLOUT_TIMEOUT_S, f"the end of the old pods of {name}")

    def set_image(self, name, image):
        self.kubectl("set", "image", name, f"kerfd={image}")

    def images(self):
        """Of what tools/build has left in out/."""
        run([self.root / "loadtest/install"], timeout_s=300)
        for name in ("kerf", "kerf-redis", "kerf-loadtest"):
            tar = self.work / f"{name}.tar"
            run([self.root / "deploy/image/rootfs", name, tar], timeout_s=300)
            self.import_image(f"localhost/{name}:{VERSION}", tar.read_bytes())
        self.import_image(NEXT_IMAGE, (self.work / "kerf.tar").read_bytes())
        # It starts and stays, but nobody will ever find it ready.
        broken = io.BytesIO()
        with tarfile.open(fileobj=broken, mode="w") as tar:
            tar.add(self.plane.program("pause"), "usr/bin/kerfd")
        self.import_image(BROKEN_IMAGE, broken.getvalue())

    def import_image(self, name, root):
        archive = self.work / "image.tar"
        write_image(archive, name, root)
        for number in range(1, 1 + self.cluster.state["nodes"]):
            nodes.import_image(self.cluster.box, number, archive)

    def deploy(self):
        for kind in sorted((self.root / "tools/kubebox/testdata/kinds").iterdir()):
            apply.apply(self.plane, kind)
        self.deploy_overlay(self.overlay("monitored", COMPONENTS))
        self.start_agent()

    def start_agent(self):
        namespace, labels = network_trial.STAND_INS[AGENT]
        pods.create(self.plane, [pods.namespace_object(namespace, network_trial.NAMESPACE_LABELS[namespace])])
        pods.create(self.plane, [network_trial.stand_in(AGENT)])
        pod = pods.wait_running(self.plane, namespace, network_trial.pod_name(AGENT))
        self.agent_network = pods.enter(self.cluster.box, pod)

    def overlay(self, name, components):
        folder = self.work / name
        folder.mkdir()
        # Folders may be anywhere, and are named from here. JSON is YAML.
        deploy = pathlib.Path(os.path.relpath(self.root / "deploy", folder))
        (folder / "kustomization.yaml").write_text(json.dumps({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": NAMESPACE,
            "resources": [str(deploy / "overlays/dev")],
            "components": [str(deploy / "components" / component) for component in components],
            "images": [{"name": image, "newName": f"localhost/{image}"} for image in ("kerf", "kerf-redis")]}),
            encoding="utf-8")
        return folder

    def deploy_overlay(self, overlay):
        apply.apply(self.plane, overlay)
        self.kubectl("scale", FRONTS, f"--replicas={FRONT_COUNT}")
        self.kubectl("scale", WORKERS, f"--replicas={WORKER_COUNT}")
        self.kubectl("patch", FRONTS, "--patch", json.dumps(
            {"spec": {"progressDeadlineSeconds": BROKEN_DEADLINE_S}}))
        self.wait_rolled_out(REDIS, WORKERS, FRONTS)

    def back_up_and_restore(self, folder="plain"):
        """The repository's own sources."""
        store, tree = self.work / folder / "store", self.root / "server"
        store.parent.mkdir()
        command = self.agent_command()

        def back_up(*options):
            done = run([*command, "backup", tree, "--store", store, "--json", *options], timeout_s=120, check=False)
            # 3: the snapshot is whole, and the index has not heard of all of it (index_warning).
            if done.returncode not in (0, 3):
                raise Failed(f"a backup ended with exit code {done.returncode}: {done.stderr.strip()}")
            return json.loads(done.stdout.strip().splitlines()[-1])

        warning = back_up()["index_warning"]
        restore_and_compare(command, store, tree, self.work / folder / "restored")
        if warning:
            # A Redis that has just formed may have no replica yet to keep a commit. The store is
            # whole, and the next backup is to bring the index up.
            print(f"  the first backup said: {warning}")
            back_up("--force")
        again = back_up("--force")
        if again["new_chunks"] != 0:
            raise Failed(f"the same files again, and {again['new_chunks']} chunks are new")

    def roll(self):
        for name in (WORKERS, FRONTS):
            with self.load("update-of-" + name.split("/")[1]):
                self.set_image(name, NEXT_IMAGE)
                self.wait_rolled_out(name)
            stale = [pod for pod, image in self.images_of(name).items() if image != NEXT_IMAGE]
            if stale:
                raise Failed(f"not updated: {', '.join(stale)}")

    def pods(self, name):
        component = name.rsplit("-", 1)[1]
        return self.get("pods", f"--selector=app.kubernetes.io/component={component}")["items"]

    def evict(self, pod, check=True):
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction",
                    "metadata": {"name": pod, "namespace": NAMESPACE}}
        return self.kubectl("create", "--filename=-", "--raw",
                            f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction",
                            stdin=json.dumps(eviction), check=check)

    def evict_worker(self):
        before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.pods(WORKERS)}
        with self.load("eviction"):
            self.evict("kerf-worker-0")
            second = self.evict("kerf-worker-1", check=False)
            if second.returncode == 0 or "disruption budget" not in second.stderr:
                raise Failed("a second worker was evicted while the first was away, in spite of "
                             f"its disruption budget: {second.stderr.strip()}")
            wait_until(lambda: self.is_renewed("kerf-worker-0", before), ROLLOUT_TIMEOUT_S,
                       "the evicted worker to be back")
            self.wait_rolled_out(WORKERS)

    def is_renewed(self, pod, before):
        return any(one["metadata"]["name"] == pod and one["metadata"]["uid"] != before[pod]
                   for one in self.pods(WORKERS))

    def break_fronts(self):
        with self.load("broken-front"):
            self.set_image(FRONTS, BROKEN_IMAGE)
            wait_until(lambda: self.has_stopped(FRONTS), BROKEN_DEADLINE_S + 60,
                       "the rollout of a broken image to be given up")
            available = self.get(FRONTS)["status"].get("availableReplicas", 0)
            if available < FRONT_COUNT:
                raise Failed(f"a broken image has left {available} fronts of {FRONT_COUNT}")
            self.kubectl("rollout", "undo", FRONTS)
            self.wait_rolled_out(FRONTS)

    def has_stopped(self, name):
        return any(one["type"] == "Progressing" and one.get("reason") == "ProgressDeadlineExceeded"
                   for one in self.get(name)["status"]["conditions"])

    def break_workers(self):
        """A StatefulSet has no deadline: it waits at the first broken pod for as long as it takes."""
        with self.load("broken-worker"):
            self.set_image(WORKERS, BROKEN_IMAGE)
            last = f"kerf-worker-{WORKER_COUNT - 1}"
            wait_until(lambda: BROKEN_IMAGE in self.images_of(WORKERS).values(), ROLLOUT_TIMEOUT_S,
                       "the first broken worker")
            time.sleep(BROKEN_DEADLINE_S)
            broken = [pod for pod, image in self.images_of(WORKERS).items() if image == BROKEN_IMAGE]
            if broken != [last]:
                raise Failed(f"a broken image has reached {', '.join(broken)}, not {last} alone")
            self.kubectl("rollout", "undo", WORKERS)
            # As Kubernetes documents it: a pod that never became ready is not replaced by itself.
            self.kubectl("delete", "pod", last)
            self.wait_rolled_out(WORKERS)

    def change_passwords(self):
        """Of Redis, and whoever knows an old one is not let in any more."""
        volumes = self.get(REDIS)["spec"]["template"]["spec"]["volumes"]
        secret = next(volume["secret"]["secretName"] for volume in volumes
                      if volume["name"] == "passwords")
        old = {user: base64.b64decode(value).decode()
               for user, value in self.get("secret", secret)["data"].items()
               if not user.endswith(".sums")}
        with self.load("passwords"):
            for user in ("kerfd", "keeper", "operator"):
                run([self.root / "deploy/redis-password", user, "--kubectl",
                     shlex.join(self.plane.kubectl_command())], 2 * ROLLOUT_TIMEOUT_S,
                    stdin="of a person\n")
        for user, password in {**old, "operator": OPERATOR_PASSWORD}.items():
            if "NOAUTH" not in self.ask_redis(user, password):
                raise Failed(f"Redis still takes the old password of {user}")
        if "used_memory" not in self.ask_redis("operator", "of a person"):
            raise Failed("Redis does not take the operator's new password")

    def ask_redis(self, user, password):
        return self.redis_cli('--user "$1" INFO memory', user, password)

    def redis_cli(self, words, user="", password="", tls="${KERF_REDIS_TLS:+--tls --cacert $KERF_REDIS_TLS/ca.crt}"):
        command = f'REDISCLI_AUTH=$2 redis-cli -h "$KERF_REDIS_ADDRESS" {tls} {words} 2>/dev/null || true'
        return self.kubectl("exec", "kerf-redis-0", "--container=keeper", "--", "/bin/sh", "-c",
                            command, "sh", user, password).stdout

    def put_load(self):
        """Locust as pods, every answer checked."""
        scenario = self.work / "scenario.toml"
        smoke = self.root / "loadtest/scenarios/smoke.toml"
        scenario.write_text(smoke.read_text(encoding="utf-8") + LOAD_TARGET, encoding="utf-8")
        out = self.work / "reports"
        done = run([self.root / "loadtest/kubernetes", "--image", LOAD_IMAGE, "--workers",
                    str(LOAD_WORKERS), "--scenario", scenario, "--slo",
                    self.root / "loadtest/smoke_slo.toml", "--out", out, "--kubectl",
                    shlex.join(self.plane.kubectl_command())], LOAD_TIMEOUT_S)
        if not (out / "report.html").exists():
            raise Failed(f"the load test has left no report\n{done.stdout}{done.stderr}")
        print("  " + next(line for line in done.stdout.splitlines() if "each checked" in line))

    def try_policies(self):
        """What they allow passes, what they forbid does not; and were one not there, that would be seen."""
        with network_trial.Trial(self.cluster, self.root) as trial:
            print(f"  {trial.check()} connections, each as it should be", flush=True)
            policy_faults.follow(trial)
            print(f"  {policy_faults.plant(trial, self.is_thorough)} faults of policies, each seen", flush=True)
            trial.check()

    def secure(self):
        """TLS and identities: who is whom he has to be gets on, and nobody else."""
        tls = self.work / "tls"
        run([self.root / "out/kerf", "tls", "init", tls, "--name", HOST, "--name", "kerf-worker", "--client", "agent",
             "--client", "stranger"])
        (self.work / "access.toml").write_text(ACCESS, encoding="utf-8")
        for name in ("kerf-front-tls", "kerf-worker-tls"):
            self.create_certificates(name, tls)
        redis_tls = self.work / "redis-tls"
        run([self.root / "out/kerf", "tls", "init", redis_tls, *(word for name in (
            "kerf-redis", *(f"kerf-redis-{number}" for number in range(REDIS_COUNT))) for word in ("--name", name))])
        self.create_certificates("kerf-redis-tls", redis_tls)
        metrics_tls = self.work / "metrics-tls"
        run([self.root / "out/kerf", "tls", "init", metrics_tls, "--name", "kerf-redis-metrics", "--client", "prometheus"])
        self.create_certificates("kerf-redis-metrics-tls", metrics_tls)
        self.create_certificates("kerf-prometheus-tls", metrics_tls, "prometheus")
        # Nodes with TLS and nodes without do not know each other: all at once, as deploy/README.md says.
        self.kubectl("delete", REDIS, timeout_s=ROLLOUT_TIMEOUT_S)
        self.kubectl("create", "secret", "generic", "kerf-access", f"--from-file=access.toml={self.work}/access.toml")
        self.deploy_overlay(self.overlay("secure", COMPONENTS + SECURE_COMPONENTS))
        self.check_sealed_redis(metrics_tls)
        in_the_clear = self.agent_command()
        agents = {name: ["env", f"KERF_SERVER={SERVER}", f"KERF_TLS_CA={tls}/ca.pem", f"KERF_TLS_CERT={tls}/{name}.pem",
                         f"KERF_TLS_KEY={tls}/{name}.key", self.root / "out/kerf"] for name in ("agent", "stranger")}
        self.agent = agents["agent"]
        self.back_up_and_restore("sealed")
        store = ["--store", self.work / "sealed/store"]
        as_stranger = [*self.agent_network, *agents["stranger"]]
        for command in ([*as_stranger, "backup", self.root / "server", *store, "--force"],
                        [*self.agent_command(), "gc", *store], [*in_the_clear, "ping"]):
            done = run(command, timeout_s=120, check=False)
            if done.returncode != EXIT_NOT_AUTHORISED:
                raise Failed(f"{' '.join(map(str, command[-4:]))}: exit code {done.returncode}: {done.stderr.strip()}")

    def create_certificates(self, name, folder, whose="kerfd"):
        self.kubectl("create", "secret", "generic", name, f"--from-file=ca.crt={folder}/ca.pem",
                     f"--from-file=tls.crt={folder}/{whose}.pem", f"--from-file=tls.key={folder}/{whose}.key")

    def check_sealed_redis(self, metrics_tls):
        """Its nodes answer nobody in the clear; the exporter knows its node by name, and answers Prometheus alone."""
        if "NOAUTH" not in self.redis_cli("PING") or self.redis_cli("PING", tls=""):
            raise Failed("Redis answers in the clear, or not over TLS")
        pod = pods.get(self.plane, NAMESPACE, "kerf-redis-0")
        ask = [*pods.enter(self.cluster.box, pod), "curl", "-sS", "--max-time", "10", "--cacert", metrics_tls / "ca.pem",
               "--resolve", "kerf-redis-metrics:9121:127.0.0.1", "https://kerf-redis-metrics:9121/metrics"]
        shown = run([*ask, "--cert", metrics_tls / "prometheus.pem", "--key", metrics_tls / "prometheus.key"])
        if "\nredis_up 1\n" not in shown.stdout:
            raise Failed("the exporter does not reach its node over TLS")
        if run(ask, check=False).returncode == 0:
            raise Failed("the exporter answers whoever asks")

    def images_of(self, name):
        return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"]
                for pod in self.pods(name) if "deletionTimestamp" not in pod["metadata"]}

    def tell(self):
        """For whoever must find out why it failed."""
        logs = ["logs", "--prefix", "--max-log-requests=40"]
        for arguments in (["get", "pods", "--output=wide"],
                          ["get", "events", "--sort-by=.lastTimestamp"],
                          [*logs, "--selector=app.kubernetes.io/component in (front, worker)",
                           "--tail=20"],
                          [*logs, "--selector=app.kubernetes.io/component=redis",
                           "--container=keeper", "--tail=5"]):
            done = self.kubectl(*arguments, check=False)
            print(f"--- kubectl {' '.join(arguments)}\n{done.stdout}{done.stderr}", flush=True)


STEPS = (("images", Scenario.images), ("fronts, workers and Redis become ready", Scenario.deploy),
         ("an agent backs up and restores", Scenario.back_up_and_restore),
         ("rolling updates of workers and of fronts", Scenario.roll),
         ("eviction of a worker", Scenario.evict_worker),
         ("a broken image of the fronts", Scenario.break_fronts),
         ("a broken image of the workers", Scenario.break_workers),
         ("new passwords of Redis", Scenario.change_passwords),
         ("a load test in pods", Scenario.put_load),
         ("NetworkPolicies: who may talk to whom", Scenario.try_policies),
         ("TLS, and who may do what", Scenario.secure))


def run_all(cluster, root, seed, is_thorough):
    """Every step, or Failed. `is_thorough`: with each fault of NetworkPolicies, planted."""
    with tempfile.TemporaryDirectory(prefix="kerf-kube-") as work:
        scenario = Scenario(cluster, root, pathlib.Path(work), seed, is_thorough)
        for title, step in STEPS:
            print(f"{title} ...", flush=True)
            began = time.monotonic()
            try:
                step(scenario)
            except Failed:
                scenario.tell()
                raise
            print(f"  {title}: passed in {time.monotonic() - began:.0f} s", flush=True)
