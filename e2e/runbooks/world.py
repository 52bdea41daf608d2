"""What a runbook is tried on: a folder of its own, kerfd, kerf and Redis on loopback."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/python"), str(ROOT / "e2e/fidelity")]

import disks
import page
import processes
import prometheus
import upload

OUT = pathlib.Path(os.environ.get("KERF_OUT", ROOT / "out"))
# A guard against a hang, not a measure.
PATIENCE_S = 60
HTTP_TIMEOUT_S = 10
# The file of --access is in force within three seconds, and the machine may be busy.
RELOAD_S = 20
MIB = 1 << 20
OK, FAILURE, USAGE, PARTIAL, REFUSED, UNAVAILABLE, INTEGRITY = 0, 1, 2, 3, 4, 5, 6
# It starts at once so: nothing is measured, and no GPU is looked for.
_QUICK = ("--backend", "scalar", "--worker-threads", "2", "--gpu", "off")


class Kerfd:
    """One that serves, or waits for something before it does."""

    def __init__(self, folder, name, flags, listen, is_waited_for=True):
        self.folder, self.name = folder, name
        self.log = folder / f"{name}.log"
        self._listen, self._ready, self._metrics_ready = listen, folder / f"{name}.ready", folder / f"{name}.metrics"
        for path in (self._ready, self._metrics_ready):
            path.unlink(missing_ok=True)
        # A front cuts nothing.
        own = () if "front" in flags else _QUICK
        command = [OUT / "kerfd", "--listen", listen, "--ready-file", self._ready, "--metrics-listen", "127.0.0.1:0",
                   "--metrics-ready-file", self._metrics_ready, *own, *flags]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._await(self._metrics_ready)
        if is_waited_for:
            self._await(self._ready)

    def _await(self, path):
        processes.wait_until(path.exists, PATIENCE_S, self.name, lambda: processes.log_tail(self.log), processes=[self.process])

    @property
    def address(self):
        return self._listen if self._listen.startswith("unix:") else self._ready.read_text().split("\n")[0]

    def get(self, path, ca=None):
        """(status, text), over HTTP, or over TLS with a certificate of `ca`."""
        url = f"{'https' if ca else 'http'}://{self._metrics_ready.read_text().split()[0]}{path}"
        context = ssl.create_default_context(cafile=ca) if ca else None
        try:
            with urllib.request.urlopen(url, timeout=HTTP_TIMEOUT_S, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self, ca=None):
        return self.get("/metrics", ca)[1]

    def has_logged(self, words):
        return words in self.log.read_text(errors="replace")

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE_S)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class RunbookTest(unittest.TestCase):
    """A test is called as the page that it tries: test_NO_WORKER, test_KerfNotReady."""

    def setUp(self):
        # Not below /tmp, which may be in memory; short, for there are paths of sockets below it.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kerf-rb-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.page = page.Page(self._testMethodName.removeprefix("test_"))
        self.store = self.folder / "store"
        self._file_count = 0

    # What the page says.

    def says(self, words):
        """These words, which have to stand on the page."""
        self.assertTrue(self.page.has(words), f"{self.page.name}.md does not say: {words}")
        return words

    def flags(self, words, *values):
        """Of kerfd, as the page names them; `values` where it leaves them to the reader."""
        return (*self.says(words).split(), *map(str, values))

    def step(self, template, *more, ends=OK, **values):
        """Runs a command of kerf that stands on the page, with `values` in the place of its words in capitals."""
        self.says(template)
        return self.kerf(*self.page.command(template, values)[1:], *more, ends=ends)

    # Programs.

    def start(self, name="kerfd", *flags, listen=None, is_waited_for=True):
        kerfd = Kerfd(self.folder, name, flags, listen or f"unix:{self.folder}/{name}.sock", is_waited_for)
        self.addCleanup(kerfd.stop, signal.SIGKILL)
        return kerfd

    def restart(self, kerfd, *flags, how=signal.SIGTERM, listen=None):
        """As whoever changes its settings does."""
        kerfd.stop(how)
        return self.start(kerfd.name, *flags, listen=listen)

    def kerf(self, *words, ends=None, timeout_s=PATIENCE_S):
        done = self.run_kerf(*words, timeout_s=timeout_s)
        if ends is not None:
            self.assertEqual(done.returncode, ends, f"kerf {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
        return done

    def environment(self):
        # With a home of its own, so that nothing of this machine is remembered.
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder)}

    def run_kerf(self, *words, timeout_s=PATIENCE_S):
        return subprocess.run([OUT / "kerf", *map(str, words)], env=self.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=timeout_s)

    def run_kerfd(self, *words):
        """One that ends by itself."""
        return subprocess.run([OUT / "kerfd", *map(str, words)], env=self.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    def limit_files(self, kerfd, count):
        """Of one that runs, as prlimit(1) does."""
        _, most = resource.prlimit(kerfd.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(kerfd.process.pid, resource.RLIMIT_NOFILE, (count, most))

    def summary(self, *words, ends=OK):
        """The last line of a run with --json."""
        return json.loads(self.kerf(*words, "--json", ends=ends).stdout.splitlines()[-1])

    def new_file(self, size=MIB):
        """Of bytes that nobody has seen."""
        self._file_count += 1
        path = self.folder / f"file-{self._file_count}"
        path.write_bytes(os.urandom(size))
        return path

    def back_up(self, kerfd, *more, ends=None, path=None, size=MIB):
        return self.kerf("backup", path or self.new_file(size), "--store", self.store, "--server", kerfd.address,
                         "--retry-for", "2s", *more, ends=ends)

    def repository(self):
        return self.summary("stats", "--store", self.store)["repository"]

    def upload(self, kerfd, profile="fixed-8k", **options):
        made = upload.Upload(kerfd.address, profile, **options)
        self.addCleanup(made.cancel)
        return made

    def expect_whole(self, kerfd, **options):
        self.assertEqual(upload.whole(kerfd.address, **options), "OK")

    def redis(self, *flags, password=""):
        """A Redis that is no cluster, unless it is told otherwise."""
        made = Redis(self.folder / "redis", flags or ("--masters", "1", "--replicas", "0", "--single"), password)
        self.addCleanup(made.down)
        return made

    # What is there to be seen.

    def metric(self, kerfd, name, **labels):
        self.says(name)
        return prometheus.value(kerfd.metrics(), name, **labels)

    def until(self, condition, what, timeout_s=PATIENCE_S):
        return processes.wait_until(condition, timeout_s, what, poll_s=0.2)

    def expect_fires(self, alert, *states):
        self.assertTrue(prometheus.fires(self.folder, alert, *states), f"{alert} does not fire")

    def expect_silent(self, alert, *states):
        self.assertFalse(prometheus.fires(self.folder, alert, *states), f"{alert} fires")

    @contextlib.contextmanager
    def small_disk(self, size):
        """A file system in memory, and a function that fills it but for some bytes."""
        disk = disks.Disk("tmpfs", self.folder / "disk", size)
        with disk.mounted():
            yield disk.path

    def fill(self, folder, free_bytes=0):
        """The file that takes the room; who removes it makes room."""
        filler = folder / "filler"
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        with open(filler, "wb") as file, contextlib.suppress(OSError):
            for _ in range(max(0, free - free_bytes) // 4096):
                file.write(bytes(4096))
                file.flush()
        return filler

    def identity(self, name, role, more="", repositories='["*"]'):
        """Lines of the file of --access."""
        return f'[[identity]]\nname = "{name}"\n{more}\n[[identity.grant]]\nrole = "{role}"\nrepositories = {repositories}\n'


class Redis:
    """One that tools/redis-cluster starts."""

    def __init__(self, folder, flags, password=""):
        self._folder, self.password = folder, password
        if password:
            secret = folder.with_suffix(".password")
            secret.write_text(password, encoding="utf-8")
            flags = (*flags, "--password-file", secret)
        self._do("up", *flags)

    def _do(self, verb, *words):
        return processes.run([str(word) for word in (ROOT / "tools/redis-cluster", "--dir", self._folder, verb, *words)]).stdout

    def addresses(self):
        """Of all nodes, also of those that do not answer."""
        state = json.loads((self._folder / "cluster.json").read_text(encoding="utf-8"))
        return [f"{processes.HOST}:{port}" for port, _ in state["ports"]]

    def flags(self, replicas=0):
        """Of kerfd."""
        found = ["--redis-replicas", str(replicas)]
        for address in self.addresses():
            found += ["--redis", address]
        return found

    def ask(self, *words, node=1):
        """redis-cli, at that node."""
        host, port = self.addresses()[node - 1].rsplit(":", 1)
        # The password belongs on no command line.
        command = ["env", f"REDISCLI_AUTH={self.password}"] if self.password else []
        return processes.run([*command, "redis-cli", "-h", host, "-p", port, *map(str, words)]).stdout.rstrip()

    def info(self, name, node=1):
        for line in self.ask("INFO", node=node).splitlines():
            if line.startswith(f"{name}:"):
                return line.partition(":")[2].strip()
        raise ValueError(f"Redis tells no {name}")

    def kill(self, node):
        self._do("kill", node)

    def start(self, node):
        self._do("start", node)

    def pause(self, node=1):
        self._do("pause", node)

    def resume(self, node=1):
        self._do("resume", node)

    def down(self):
        # One that is paused would not hear of it.
        for number in range(1, len(self.addresses()) + 1):
            with contextlib.suppress(processes.Failed):
                self.resume(number)
        self._do("down")
