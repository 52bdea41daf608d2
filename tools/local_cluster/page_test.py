#!/usr/bin/env python3
"""docs/cluster.md, as whoever follows it does: its commands, and the files that it has, with ports of loopback in the place of
its machines. tools/local_cluster/page_test.py [FOLDER OF kerf AND kerfd]; wants redis-server, redis-cli and promtool, too."""

import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/python"), str(ROOT / "tools/packaging")]

import package
import processes

PAGE = ROOT / "docs/cluster.md"
USERS = ROOT / "deploy/components/redis/users"
PROGRAMS = pathlib.Path(sys.argv.pop(1)).absolute() if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ROOT / "out"
PATIENCE_S = 120
HTTP_TIMEOUT_S = 10
FILE_BYTES = 3_000_000
_FENCE = re.compile(r"^```\w+\n# (.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_COMMAND = re.compile(r"^    (\S.*?)(?:   +#.*)?$", re.MULTILINE)
_COPY = re.compile(r"^\| (fronts|workers|Redis|Prometheus|laptop) \| (`.*) \| `(/[^`]*)` \|$", re.MULTILINE)
_FILE = re.compile(r"`([^`]+)`(?: as `([^`]+)`)?")
_USER = re.compile(r"^(?:user )?(\w+)(?: on #SUM-OF-\w+)? (\S.*)$", re.MULTILINE)
NODES, OF_EACH = 6, 2


def run(words, **options):
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S, **options)


class Page:
    def __init__(self):
        self._text = PAGE.read_text(encoding="utf-8")
        self.files = dict(_FENCE.findall(self._text))
        # Machine -> (what is copied, as what), and the folder to which.
        self.copies = {machine: ([(name, other or pathlib.Path(name).name) for name, other in _FILE.findall(names)], folder)
                       for machine, names, folder in _COPY.findall(self._text)}

    def file(self, name):
        found = [text for title, text in self.files.items() if title == name]
        if len(found) != 1:
            raise processes.Failed(f"{PAGE.name} has {len(found)} files '{name}'")
        return found[0]

    def command(self, begin):
        found = [line for line in _COMMAND.findall(self._text) if line.startswith(begin)]
        if len(found) != 1:
            raise processes.Failed(f"{PAGE.name} has {len(found)} commands that begin with '{begin}'")
        return found[0]


class PageTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kerf-page-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.page = Page()
        self.made = self.folder / "made"
        self.made.mkdir()

    # What is on one machine.

    def place(self, machine, path):
        """Where it lies here, of a path there."""
        return self.folder / machine / path.lstrip("/")

    def here(self, machine, text):
        for root in ("/etc/", "/var/log/"):
            text = text.replace(root, f"{self.folder}/{machine}{root}")
        return text

    def copy(self, machine):
        names, there = self.page.copies[machine]
        folder = self.place(machine, there)
        folder.mkdir(parents=True)
        for name, other in names:
            shutil.copyfile(self.made / name, folder / other)
            (folder / other).chmod(0o600)

    def write(self, machine, name, text):
        path = self.place(machine, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def start(self, name, *command):
        log = self.folder / f"{name}.log"
        process = self.enterContext(processes.running([str(word) for word in command], log))
        return process

    # The steps.

    def make_certificates(self):
        environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "HOME": str(self.folder)}
        done = run(["bash", "-euc", self.page.file("Certificates")], cwd=self.made, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for machine in self.page.copies:
            self.copy(machine)

    def start_redis(self):
        ports = processes.free_ports(2 * NODES)
        text = self.here("Redis", self.page.file("/etc/redis/redis-6379.conf"))
        for user in ("kerfd", "keeper", "operator"):
            password = (self.made / user).read_text()
            text = text.replace(f"#SUM-OF-{user.upper()}", f"#{hashlib.sha256(password.encode()).hexdigest()}")
            text = text.replace(f"PASSWORD-OF-{user.upper()}", password)
        self.assertNotRegex(text, "PASSWORD-OF|SUM-OF")
        for number, (port, bus) in enumerate(zip(ports[:NODES], ports[NODES:])):
            folder = self.folder / f"redis-{number}"
            folder.mkdir()
            own = text.replace("6379", str(port)).replace("bind 0.0.0.0", "bind 127.0.0.1").replace("/var/lib/redis", str(folder))
            own = re.sub(r"^pidfile .*$", f"pidfile {folder}/pid", own, flags=re.MULTILINE)
            # One machine has them all: the bus of each would be 10,000 above its port.
            own += f"cluster-port {bus}\n"
            conf = self.write(f"redis-{number}", "redis.conf", own)
            self.start(f"redis-{number}", "redis-server", conf)
        self.redis = [f"127.0.0.1:{port}" for port in ports[:NODES]]
        for address in self.redis:
            processes.wait_until(lambda node=address: self.ask_redis(node, "PING") == "PONG", PATIENCE_S, "Redis to answer")
        words = self.here("Redis", self.page.command("redis-cli --tls")).split()
        words = [word for word in words if not re.fullmatch(r"192\.0\.2\.\d+:\d+|--askpass", word)]
        at = words.index("create") + 1
        self.run_as_operator(*words[:at], *self.redis, *words[at:], "--cluster-yes")

    def run_as_operator(self, *words, check=True):
        environment = {**os.environ, "REDISCLI_AUTH": (self.made / "operator").read_text()}
        done = run(words, env=environment)
        if check:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.strip()

    def ask_redis(self, address, *words):
        port = address.rpartition(":")[2]
        tls = ("--tls", "--cacert", self.place("Redis", "/etc/redis/tls/ca.pem"))
        return self.run_as_operator("redis-cli", *tls, "--user", "operator", "--no-auth-warning", "-p", port, *words, check=False)

    def start_kerfd(self, machine, number, listen, metrics, **instead):
        text = self.page.file(f"/etc/kerf/kerfd.toml of {machine}")
        for before, after in {"0.0.0.0:7461": listen, "0.0.0.0:9461": metrics, **instead}.items():
            self.assertIn(before, text)
            text = text.replace(before, after)
        text = self.here(machine, text).replace("audit.log", f"audit-{number}.log")
        self.write(machine, "/etc/kerf/access.toml", self.page.file("/etc/kerf/access.toml"))
        self.place(machine, "/var/log/kerfd").mkdir(parents=True, exist_ok=True)
        config = self.write(machine, f"kerfd-{number}.toml", text)
        quick = ("--backend", "scalar", "--gpu", "off") if machine == "workers" else ()
        process = self.start(f"{machine}-{number}", PROGRAMS / "kerfd", "--config", config, *quick)
        return process

    def ask(self, metrics, path, *, with_certificate):
        """The status of an answer over TLS; 0 if there is none."""
        own = self.place("Prometheus", "/etc/prometheus/kerf")
        context = ssl.create_default_context(cafile=own / "ca.pem")
        # By an address, which no certificate here has; Prometheus is told the names.
        context.check_hostname = False
        if with_certificate:
            context.load_cert_chain(own / "prometheus.pem", own / "prometheus.key")
        try:
            with urllib.request.urlopen(f"https://{metrics}{path}", timeout=HTTP_TIMEOUT_S, context=context) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def start_cluster(self):
        addresses = [f"127.0.0.1:{port}" for port in processes.free_ports(8)]
        workers, worker_metrics, fronts, front_metrics = (addresses[at:at + OF_EACH] for at in range(0, 8, OF_EACH))
        redis = dict(zip((f"192.0.2.{number}:6379" for number in (21, 22, 23)), self.redis))
        started = {}
        for number in range(OF_EACH):
            started[workers[number]] = self.start_kerfd("workers", number, workers[number], worker_metrics[number], **redis)
        named = {f"worker-{number + 1}.example:7461": workers[number] for number in range(OF_EACH)}
        for number in range(OF_EACH):
            started[fronts[number]] = self.start_kerfd("fronts", number, fronts[number], front_metrics[number], **named)
        for metrics in worker_metrics + front_metrics:
            processes.wait_until(lambda address=metrics: self.ask(address, "/readyz", with_certificate=False) == 200,
                                 PATIENCE_S, f"{metrics} to be ready", self.logs)
            self.assertNotEqual(self.ask(metrics, "/metrics", with_certificate=False), 200, "anybody may read metrics")
            self.assertEqual(self.ask(metrics, "/metrics", with_certificate=True), 200)
        return workers, fronts, started

    def logs(self):
        return "\n".join(processes.log_tail(path) for path in sorted(self.folder.glob("*-?.log")))

    def kerf(self, words, environment=None):
        own = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        return run([PROGRAMS / "kerf", *map(str, words)], env={**own, **(environment or {})})

    def expect(self, done, code=0):
        self.assertEqual(done.returncode, code, f"{done.args}\n{done.stdout}{done.stderr}\n{self.logs()}")

    def backup_environment(self, fronts):
        """What the unit of systemd gives kerf, and the tree that it backs up."""
        tree = self.folder / "tree"
        tree.mkdir(exist_ok=True)
        text = self.here("laptop", self.page.file("/etc/kerf/backup/home.conf"))
        found = dict(re.findall(r'^(\w+)="?(.*?)"?$', text, re.MULTILINE))
        self.assertIn("KERF_BACKUP_PATHS", found)
        found.pop("KERF_BACKUP_PATHS")
        found |= {"KERF_STORE": str(self.folder / "store"), "KERF_SERVER": ",".join(fronts), "KERF_TLS_NAME": "front-1.example"}
        return tree, found

    def back_up(self, tree, environment):
        (tree / "file").write_bytes(os.urandom(FILE_BYTES))
        self.expect(self.kerf(["backup", tree], environment))

    def test_all_of_it(self):
        self.make_certificates()
        self.start_redis()
        workers, fronts, started = self.start_cluster()
        ping = self.here("laptop", self.page.command("kerf ping")).replace("front-1.example:7461", fronts[0]).split()[1:]
        self.expect(self.kerf([*ping, "--tls-name", "front-1.example"]))
        without = [word for word in ping if "laptop." not in word and word not in ("--tls-cert", "--tls-key")]
        stranger = self.kerf([*without, "--tls-name", "front-1.example"])
        self.assertNotEqual(stranger.returncode, 0, "who shows no certificate is let in")
        tree, environment = self.backup_environment(fronts)
        self.back_up(tree, environment)
        self.back_up(tree, environment)
        unit = self.page.file("/etc/systemd/system/kerf-backup@home.service.d/override.conf")
        lines = re.findall(r"^ExecStartPost=/usr/bin/kerf (.*)$", unit, re.MULTILINE)
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.expect(self.kerf(line.split(), environment))
        for address in (workers[0], fronts[0]):
            started[address].kill()
            started[address].wait()
        self.back_up(tree, environment)
        restored = self.folder / "restored"
        self.expect(self.kerf(["restore", "latest", "--target", restored], environment))
        self.assertEqual((restored / str(tree).lstrip("/") / "file").read_bytes(), (tree / "file").read_bytes())

    def test_prometheus_takes_its_settings_and_the_alerts(self):
        self.make_certificates()
        config = self.write("Prometheus", "/etc/prometheus/prometheus.yml", self.page.file("/etc/prometheus/prometheus.yml"))
        self.write("Prometheus", "/etc/prometheus/kerf-alerts.yml", package.alerts())
        self.assertIn("examples/alerts.yml /etc/prometheus/kerf-alerts.yml", self.page.command("cp /usr/share/doc/kerfd"))
        done = run(["promtool", "check", "config", config])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_users_of_redis_have_the_rights_of_the_manifests(self):
        lines = [line for line in USERS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        wanted = dict(line.split(" ", 1) for line in lines)
        text = "\n".join(line for line in self.page.file("/etc/redis/redis-6379.conf").splitlines() if " on #SUM" in line)
        self.assertEqual(dict(_USER.findall(text)), wanted)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        unittest.main()
