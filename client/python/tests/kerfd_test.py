"""The client against real programs: kerfd_test.py KERF KERFD."""

import io
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import kerf
from testing import content

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools/python"))

import processes  # noqa: E402

KERF, KERFD = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
PATIENCE_S = 60
README = ROOT / "client/python/README.md"
IDENTITY = """
[[identity]]
name = "{name}"
{more}
[[identity.grant]]
role = "{role}"
repositories = ["tests"]
"""


class Acting:
    """A reader that does something when it has come so far."""

    def __init__(self, data, at, act):
        self._inner, self._size, self._at, self._act = io.BytesIO(data), len(data), at, act

    def read(self, size):
        if self._act and self._inner.tell() >= self._at:
            act, self._act = self._act, None
            act()
        return self._inner.read(min(size, 100_000))


class KerfdTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kerf-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.store = kerf.FolderStore(self.folder / "store")
        self.running = {}

    def start(self, name="kerfd", *flags, listen=None):
        """Its address; a socket unless it is told otherwise."""
        ready = self.folder / f"{name}.ready"
        ready.unlink(missing_ok=True)
        if "--workers" not in flags:
            flags = ("--data-dir", self.folder / f"{name}.data", *flags)
        log = open(self.folder / f"{name}.log", "ab")
        self.addCleanup(log.close)
        process = subprocess.Popen([KERFD, "--listen", listen or f"unix:{self.folder / name}", "--ready-file", ready, *flags],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.running[name] = process
        self.addCleanup(self.kill, name)
        processes.wait_until(ready.exists, PATIENCE_S, name, lambda: processes.log_tail(self.folder / f"{name}.log"),
                             processes=[process])
        return ready.read_text().split("\n")[0]

    def kill(self, name, how=signal.SIGKILL):
        process = self.running[name]
        if process.poll() is None:
            process.send_signal(how)
        process.wait(PATIENCE_S)

    def open(self, servers, **options):
        # A repository has one digest algorithm for all its life.
        digest = options.get("digest", "blake3")
        repository = "tests" if digest == "blake3" else f"tests-{digest}"
        client = kerf.open(servers, repository, options.pop("store", self.store), **{"streams": 1, **options})
        self.addCleanup(client.close)
        return client

    def assert_whole(self, recipe, data, store=None):
        self.assertEqual(b"".join((store or self.store).restore(recipe)), data)

    def test_the_program_of_the_readme(self):
        address = self.start()
        readme = README.read_text(encoding="utf-8")
        name = re.search(r"^As `(\w+\.py)`", readme, re.MULTILINE)[1]
        command = re.search(r"^    python3 (\w+\.py) (\S+)$", readme, re.MULTILINE)
        self.assertEqual(command[1], name)
        program = re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1]
        self.assertLessEqual(len(program.strip().split("\n")), 30)
        empty = self.folder / "empty"
        empty.mkdir()
        (empty / name).write_text(program, encoding="utf-8")
        said = subprocess.run([sys.executable, "-B", name, address], cwd=empty, capture_output=True, text=True,
                              check=False, timeout=PATIENCE_S)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertRegex(said.stdout, r"(?s)first: .*second: .*freed: ")

    def test_profiles_and_digests(self):
        address = self.start()
        data = content(300_000)
        for profile, digest in (("mincdc-8k", "blake3"), ("fastcdc2020-64k", "sha256"), ("fixed-8k", "xxh3-128"),
                                ("ae-max-8k", "sha256"), ("fixed:size=64", "sha256"), ("fixed:size=4194304", "sha256"),
                                ("crc:min=256,bits=6,max=300", "sha256")):
            with self.subTest(profile=profile, digest=digest):
                store = kerf.FolderStore(self.folder / f"{profile}-{digest}", digest)
                some = data[:20_000] if "64" in profile or "256" in profile else data
                with self.open(address, store=store, profile=profile, digest=digest) as client:
                    first = client.upload(io.BytesIO(some), b"file")
                    again = client.upload(io.BytesIO(some), b"file")
                self.assert_whole(first, some, store)
                self.assertEqual((first.chunks, again.new_chunks), (again.chunks, 0))

    def test_a_chunk_as_long_as_can_be(self):
        address = self.start()
        data = content(9 << 20)
        store = kerf.FolderStore(self.folder / "long", "sha256")
        recipe = self.open(address, store=store, profile="fixed:size=4194304", digest="sha256",
                           window_bytes=1).upload(io.BytesIO(data), b"file")
        self.assert_whole(recipe, data, store)
        self.assertEqual([chunk.length for chunk in recipe.chunks], [4194304, 4194304, 1 << 20])

    def test_a_profile_that_is_none_is_refused(self):
        address = self.start()
        with self.assertRaises(kerf.Refused) as caught:
            self.open(address, profile="mincdc-9k").upload(b"x", b"file")
        self.assertEqual(caught.exception.reason, "BAD_FIELD")

    def test_killed_in_the_middle_and_started_anew(self):
        for how in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(how.name):
                name = f"kerfd-{how.name}"
                address = self.start(name, "--drain-ms", "200")
                data = content(3_000_000, int(how))

                def restart(name=name, how=how):
                    self.kill(name, how)
                    threading.Timer(0.3, self.start, (name,)).start()

                with self.open(address, commit_bytes=200_000) as client:
                    client.upload(b"met", b"met")
                    recipe = client.upload(Acting(data, 1_500_000, restart), b"file")
                    self.assert_whole(recipe, data)
                    again = client.upload(io.BytesIO(data), b"file")
                self.assertEqual((again.chunks, again.new_chunks), (recipe.chunks, 0))

    def front(self):
        workers = [self.start(f"worker-{number}", "--worker-name", f"worker-{number}") for number in (1, 2)]
        return self.start("front", "--role", "front", "--workers", workers[0], "--workers", workers[1])

    def test_through_fronts_and_past_them_over_a_lost_worker(self):
        front = self.front()
        for direct in (False, True):
            with self.subTest(direct=direct):
                client = self.open(front, direct=direct, commit_bytes=200_000)
                data = content(3_000_000, direct)

                def lose(client=client):
                    self.kill(client._lanes[0]._stream.worker)

                recipe = client.upload(Acting(data, 1_500_000, lose), b"file")
                self.assert_whole(recipe, data)
                self.assertNotEqual(client._lanes[0]._stream.worker, "")
                for number in (1, 2):
                    if self.running[f"worker-{number}"].poll() is not None:
                        self.start(f"worker-{number}", "--worker-name", f"worker-{number}")
                client.close()

    def test_past_a_front_a_worker_is_known_by_the_name_that_the_front_says(self):
        """ROU-8: not by the name that the front's own certificate has to have."""
        for worker_name in ("127.0.0.1", "worker.example"):
            with self.subTest(worker_name):
                tls = self.folder / worker_name
                processes.run([KERF, "tls", "init", tls, "--name", worker_name, "--client", "laptop"], PATIENCE_S)
                flags = ("--tls-cert", tls / "kerfd.pem", "--tls-key", tls / "kerfd.key")
                worker = self.start(f"worker-{worker_name}", *flags, listen="127.0.0.1:0")
                front = self.start(f"front-{worker_name}", "--role", "front", "--workers", worker, *flags, "--worker-tls-ca",
                                   tls / "ca.pem", "--worker-tls-name", worker_name, listen="127.0.0.1:0")
                client = self.open(front, tls=kerf.Tls(tls / "ca.pem", name=worker_name), direct=True)
                data = content(100_000)
                self.assert_whole(client.upload(data, b"file"), data)
                self.assertTrue(client._lanes[0]._is_past_front)
                client.close()

    def test_a_collection(self):
        address = self.start()
        one, two = content(400_000, 1), content(400_000, 2)
        with self.open(address) as client:
            client.snapshot("one", [client.upload(one, b"file")])
            client.snapshot("two", [client.upload(two, b"file")])
        beside = self.open(address)
        held = beside.upload(one, b"held")
        self.store.forget("one")
        with self.open(address) as client:
            done = client.collect(self.store.roots)
            self.assertEqual((done.deleted_bytes, done.is_index_believed, self.store.epoch()), (400_000, True, 3))
        with self.assertRaises(kerf.ChunksLost):
            beside.snapshot("held", [held])
        again = beside.upload(one, b"held")
        self.assertEqual((again.new_bytes, again.seen.epoch), (400_000, 3))
        beside.snapshot("held", [again])
        self.assert_whole(self.store.snapshot("held")[0], one)
        self.assert_whole(self.store.snapshot("two")[0], two)

    def test_a_stream_of_before_a_collection_is_begun_again(self):
        address = self.start()
        client = self.open(address)
        client.upload(b"before", b"file")
        with self.open(address) as other:
            other.collect(lambda: ())
        data = content(200_000)
        recipe = client.upload(io.BytesIO(data), b"file")
        self.assertEqual(recipe.seen.epoch, self.store.epoch())
        self.assert_whole(recipe, data)

    def test_an_index_that_is_lost_becomes_whole(self):
        address = self.start()
        data = content(400_000)
        with self.open(address) as client:
            client.upload(b"garbage", b"file")
            client.snapshot("one", [client.upload(data, b"file")])
            client.collect(self.store.roots)
        self.kill("kerfd")
        shutil.rmtree(self.folder / "kerfd.data")
        self.assertEqual(self.start(), address)
        with self.open(address) as client:
            # Found in the store, though the index knows nothing.
            self.assertEqual(client.upload(data, b"file").new_chunks, 0)
            self.assertTrue(client.collect(self.store.roots).is_index_believed)
            self.assertEqual(client.upload(data, b"file").new_chunks, 0)
        self.assert_whole(self.store.snapshot("one")[0], data)

    def test_tls_certificates_and_tokens(self):
        def run(*command):
            return processes.run([KERF, *command], PATIENCE_S).stdout

        tls = self.folder / "tls"
        run("tls", "init", tls, "--name", "127.0.0.1", "--client", "laptop")
        run("tls", "init", self.folder / "other", "--name", "127.0.0.1", "--client", "laptop")
        entry = run("token", "new", "nightly", "--output", self.folder / "token", "--role", "write", "--repository", "tests")
        me = IDENTITY.format(name=f"user/{os.getuid()}", role="write", more="")
        (self.folder / "access.toml").write_text(
            entry + IDENTITY.format(name="kerf://client/laptop", role="gc", more="") + me, encoding="ascii")
        address = self.start("kerfd", "--tls-cert", tls / "kerfd.pem", "--tls-key", tls / "kerfd.key", "--tls-client-ca",
                             tls / "ca.pem", "--tls-client-optional", "true", "--access", self.folder / "access.toml",
                             "--listen", f"unix:{self.folder / 'socket'}", listen="127.0.0.1:0")
        token = self.folder / "token"
        mine = {"cert": tls / "laptop.pem", "key": tls / "laptop.key"}
        data = content(100_000)
        for options in ({"tls": kerf.Tls(tls / "ca.pem", **mine)}, {"tls": kerf.Tls(tls / "ca.pem"), "token": token}):
            self.assert_whole(self.open(address, **options).upload(data, b"file"), data)
        # By a socket: the user, and a token.
        for options in ({}, {"token": token}):
            self.assert_whole(self.open(f"unix:{self.folder / 'socket'}", **options).upload(data, b"file"), data)
        with self.open(address, tls=kerf.Tls(tls / "ca.pem", **mine)) as client:
            client.collect(lambda: ())
        for options, kind, said in (
                ({"tls": kerf.Tls(tls / "ca.pem")}, kerf.Refused, "UNKNOWN_CALLER"),
                ({"tls": kerf.Tls(tls / "ca.pem"), "token": "kerf_nightly_0123456789abcdefghijABCDEFGHIJ"}, kerf.Refused,
                 "UNKNOWN_CALLER"),
                ({"tls": kerf.Tls(self.folder / "other/ca.pem", **mine)}, kerf.Retryable, "no server has answered"),
                ({"tls": kerf.Tls(tls / "ca.pem", self.folder / "other/laptop.pem", self.folder / "other/laptop.key")},
                 kerf.Retryable, "no server has answered"),
                ({"tls": kerf.Tls(tls / "ca.pem", **mine, name="elsewhere.example")}, kerf.Retryable, "no server has"),
                ({}, kerf.Retryable, "no server has answered")):
            with self.assertRaisesRegex(kind, said):
                self.open(address, **options).upload(data, b"file")
        with self.assertRaisesRegex(kerf.Refused, "NOT_YOURS"):
            with self.open(address, tls=kerf.Tls(tls / "ca.pem"), token=token) as client:
                self.store.raise_epoch(self.store.epoch() + 1)
                client.collect(lambda: ())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
