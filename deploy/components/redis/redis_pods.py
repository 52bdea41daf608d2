"""Six nodes of Redis under components/redis/keeper.sh on loopback, as the pods of the StatefulSet are."""

import hashlib
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time

COMPONENT = pathlib.Path(__file__).resolve().parent
COUNT = 6
# Much, for a machine that does other work beside it: what never comes is missed all the same.
PATIENCE_S = 120
# The name by which kerfd calls them all.
NAME = "kerf-redis"
PASSWORDS = {"keeper": 'half "quoted" \\ and more', "kerfd": "of kerfd # alone", "operator": "of a person"}


def sum_of(password):
    return hashlib.sha256(password.encode()).hexdigest()


def make_certificates(kerf, folder, names):
    """As deploy/README.md says how to: what is mounted of the Secret, in `folder`."""
    made = folder / "made"
    subprocess.run([kerf, "tls", "init", made, *(word for name in names for word in ("--name", name))], check=True,
                   stdout=subprocess.DEVNULL)
    for source, target in (("ca.pem", "ca.crt"), ("kerfd.pem", "tls.crt"), ("kerfd.key", "tls.key")):
        shutil.copy(made / source, folder / target)
    return folder


def mount(folder, link):
    """As the kubelet does it: all of `folder` is there at once in the place of what was at `link`."""
    new = folder / "link"
    new.symlink_to(folder)
    new.rename(link)


class Pod:
    """What a pod is: two processes, an address for as long as they live, and a disk that outlives them."""

    def __init__(self, cluster, number):
        self.cluster, self.number = cluster, number
        self.disk = cluster.folder / f"disk-{number}"
        self.disk.mkdir()
        # What the kubelet mounts of the Secret.
        self.passwords = cluster.folder / f"passwords-{number}"
        self.exporter = cluster.folder / f"exporter-{number}"
        self.exporter.mkdir()
        self.processes = []
        self.certificates = cluster.folder / f"certificates-{number}"
        # How long it leaves its address to a replica that has not taken over from it yet.
        self.successor_s = PATIENCE_S
        self.mount({**PASSWORDS, **{f"{name}.sums": sum_of(password) for name, password in PASSWORDS.items()}})

    def mount(self, secret):
        """Nothing that the manifest does not name."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.cluster.folder, prefix=f"secret-{self.number}-"))
        for key in ("keeper", *(f"{name}.sums" for name in PASSWORDS)):
            (folder / key).write_text(secret[key] + "\n")
        mount(folder, self.passwords)

    def mount_certificates(self, source):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.cluster.folder, prefix=f"tls-{self.number}-"))
        for name in ("ca.crt", "tls.crt", "tls.key"):
            shutil.copy(source / name, folder)
        mount(folder, self.certificates)

    def environment(self):
        scratch = self.cluster.folder / f"scratch-{self.number}"
        return {"PATH": os.environ["PATH"], "KERF_REDIS_SETTINGS": str(self.cluster.settings),
                "KERF_REDIS_PASSWORDS_PATH": str(self.passwords),
                "KERF_REDIS_DATA": str(self.disk), "KERF_REDIS_SCRATCH": str(scratch),
                "KERF_REDIS_ADDRESS": self.cluster.addresses[self.number],
                "KERF_REDIS_PORT": str(self.cluster.port), "KERF_REDIS_PAUSE_S": "1",
                "KERF_REDIS_SUCCESSOR_S": str(self.successor_s),
                "KERF_REDIS_EXPORTER": str(self.exporter),
                **({"KERF_REDIS_TLS": str(self.certificates),
                    "KERF_REDIS_NAME": self.cluster.addresses[self.number]} if self.cluster.is_sealed else {})}

    def run(self, verb, **options):
        return subprocess.Popen(["sh", str(COMPONENT / "keeper.sh"), verb], env=self.environment(),
                                stdin=subprocess.DEVNULL, **options)

    def start(self):
        (self.cluster.folder / f"scratch-{self.number}").mkdir(exist_ok=True)
        for verb, name in (("start", "redis"), ("keep", "keeper")):
            with open(self.cluster.folder / f"{name}-{self.number}.log", "ab") as log:
                self.processes.append(self.run(verb, stdout=log, stderr=log, start_new_session=True))

    def stop(self, how=signal.SIGTERM):
        for process in self.processes:
            os.killpg(process.pid, how)
        for process in self.processes:
            self._await_end(process, how)
        self.processes = []

    @staticmethod
    def _await_end(process, how):
        """A replica that writes its first log says no to SIGTERM and goes on ("Writing initial AOF, can't exit"): it is
        asked again. Kubernetes kills it once its time is up."""
        for _ in range(PATIENCE_S):
            try:
                process.wait(1)
                return
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, how)
        process.wait(1)

    def signal(self, number):
        """To both, redis-server and keeper.sh: SIGSTOP and SIGCONT."""
        for process in self.processes:
            os.killpg(process.pid, number)

    def log(self, name):
        return (self.cluster.folder / f"{name}-{self.number}.log").read_text(errors="replace")

    def ask(self, *command, user="operator", password=None):
        return self.cli("-c", "--user", user, "--no-auth-warning", *command,
                        environment={"REDISCLI_AUTH": password or PASSWORDS[user]}).stdout.strip()

    def cli(self, *arguments, environment=None):
        tls = ["--tls", "--cacert", str(self.certificates / "ca.crt")] if self.cluster.is_sealed else []
        return subprocess.run(["redis-cli", "-h", self.cluster.addresses[self.number], "-p", str(self.cluster.port), *tls,
                               *arguments], env={**os.environ, **(environment or {})}, capture_output=True, text=True,
                              check=False, timeout=PATIENCE_S)

    def connect(self):
        """A connection of its own, as kerfd makes it."""
        connection = socket.create_connection((self.cluster.addresses[self.number], self.cluster.port), timeout=PATIENCE_S)
        if not self.cluster.is_sealed:
            return connection
        context = ssl.create_default_context(cafile=self.certificates / "ca.crt")
        return context.wrap_socket(connection, server_hostname=NAME)

    def is_ready(self):
        return self.run("ready").wait(PATIENCE_S) == 0

    def is_master(self):
        return "role:master" in self.ask("INFO", "replication")


class Cluster:
    """`kerf` makes the certificates of nodes that speak TLS; they speak in the clear without."""

    def __init__(self, folder, rng, kerf=None):
        self.folder, self.kerf = folder, kerf
        self.is_sealed = kerf is not None
        self.settings = folder / "settings"
        self.settings.mkdir()
        settings = (COMPONENT / "redis.conf").read_text().replace("cluster-node-timeout 5000", "cluster-node-timeout 1500")
        # A replica may be without its master as long as where it is deployed: no shorter for a busy machine.
        settings += "cluster-replica-validity-factor 33\n"
        # The same sooner: by default a master waits 5 s for more replicas to come before it sends anything.
        (self.settings / "redis.conf").write_text(settings + "repl-diskless-sync-delay 0\n")
        shutil.copy(COMPONENT / "users", self.settings)
        # A network of its own, so that two runs do not meet; the bus is 10,000 above the port.
        self.network = f"127.{rng.randrange(16, 250)}"
        self.subnet = 0
        with socket.socket() as probe:
            probe.bind((f"{self.network}.0.1", 0))
            self.port = 20_000 + probe.getsockname()[1] % 10_000
        self.renumber()
        self.pods = [Pod(self, number) for number in range(COUNT)]
        if self.is_sealed:
            certificates = self.new_certificates()
            for pod in self.pods:
                pod.mount_certificates(certificates)

    def new_certificates(self):
        """Of a CA of its own each time; with the addresses of now in the place of names of pods."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder, prefix="new-tls-"))
        return make_certificates(self.kerf, folder, (NAME, *self.addresses))

    def renumber(self):
        """New addresses for all; to be called while no pod runs."""
        self.subnet += 1
        self.set_addresses([f"{self.network}.{self.subnet}.{number + 1}" for number in range(COUNT)])

    def set_addresses(self, addresses):
        """What the name server does: the same names in the same order have other addresses."""
        self.addresses = addresses
        changed = self.settings / "peers.new"
        changed.write_text("".join(f"{address}\n" for address in addresses))
        changed.rename(self.settings / "peers")

    def why_not_whole(self):
        ids = set()
        for pod in self.pods:
            if not pod.is_ready():
                return f"node {pod.number} is not ready"
            lines = [line.split() for line in pod.ask("CLUSTER", "NODES").splitlines()]
            known = {line[0] for line in lines}
            ids = ids or known
            if len(known) != COUNT or known != ids:
                return f"node {pod.number} knows {len(known)} nodes"
            masters = [line[0] for line in lines if "master" in line[2]]
            followed = sorted(line[3] for line in lines if "slave" in line[2])
            if len(masters) != 3 or followed != sorted(masters):
                return f"node {pod.number} sees {len(masters)} masters, and replicas of {followed}"
        return ""

    def wait_until_whole(self, step):
        started = time.monotonic()
        while why := self.why_not_whole():
            if time.monotonic() - started > PATIENCE_S:
                raise AssertionError(f"{step}: not whole after {PATIENCE_S} s: {why}")
            time.sleep(0.5)
        print(f"keeper_test: {step}: whole after {time.monotonic() - started:.1f} s")


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def wait_until(condition, what, patience_s=PATIENCE_S):
    deadline = time.monotonic() + patience_s
    while not condition():
        check(time.monotonic() < deadline, f"{what}: not within {patience_s} s")
        time.sleep(0.1)
