"""This client and that of client/go on one folder, with a real server: interop_test.py KERFD INTEROP.

INTEROP is client/go/interop, built. What either writes the other one reads, counts on, and collects: docs/spec/client.md, CLI-28
and CLI-29.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import kerf
from testing import content

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools/python"))

import processes  # noqa: E402

KERFD, INTEROP = (str(pathlib.Path(path).resolve(strict=True)) for path in sys.argv[1:3])
PATIENCE_S = 60
ONE, TWO, THREE = (content(200_000, seed) for seed in (1, 2, 3))


class Broken(Exception):
    """A collection ended, as that of a process that dies."""


class BreakableStore(kerf.FolderStore):
    def __init__(self, path, is_broken):
        super().__init__(path)
        self._may_delete = 1 if is_broken else 1 << 60

    def delete(self, place):
        if not self._may_delete:
            raise Broken
        self._may_delete -= 1
        super().delete(place)


class OfPython:
    """One thing at a time, each by a client of its own: nothing is known from before."""

    def __init__(self, folder, server):
        self._folder, self._server = folder, server

    def _open(self, store):
        return kerf.open(self._server, "tests", store, streams=1, retry_for_s=20)

    def snapshot(self, name, data):
        store = kerf.FolderStore(self._folder)
        with self._open(store) as client:
            recipe = client.upload(data, b"file")
            client.snapshot(name, [recipe])
            return recipe.new_bytes

    def publish(self, name, data):
        store = kerf.FolderStore(self._folder)
        with self._open(store) as client:
            recipe = client.upload(data, b"file")
            store.publish(name, kerf.encode([recipe]))
            return recipe.new_bytes

    def restore(self, name):
        store = kerf.FolderStore(self._folder)
        return b"".join(part for recipe in store.snapshot(name) for part in store.restore(recipe))

    def collect(self):
        store = kerf.FolderStore(self._folder)
        with self._open(store) as client:
            done = client.collect(store.roots)
            return done.deleted_bytes, done.is_index_believed, done.epoch

    def collect_broken(self):
        store = BreakableStore(self._folder, is_broken=True)
        with self._open(store) as client:
            try:
                client.collect(store.roots)
            except Broken:
                return
        raise AssertionError("it came to its end")

    def error_of_collect(self):
        try:
            self.collect()
        except kerf.Error as error:
            return str(error)
        raise AssertionError("it came to its end")

    def lock(self):
        return kerf.FolderStore(self._folder).lock()


class HeldByGo:
    def __init__(self, arguments):
        self._arguments = arguments

    def __enter__(self):
        self._process = subprocess.Popen(self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self._process.stdout.readline() != b"locked\n":
            self.__exit__()
            raise AssertionError("it has no lock")

    def __exit__(self, *_):
        # Killed: the lock ends with its process.
        self._process.kill()
        self._process.communicate()


class OfGo:
    def __init__(self, folder, server):
        self._begin = (INTEROP, str(folder), server)

    def _run(self, *arguments, data=b"", is_error=False):
        done = subprocess.run([*self._begin, *arguments], input=data, capture_output=True, check=False, timeout=PATIENCE_S)
        if done.returncode != (1 if is_error else 0):
            raise AssertionError(f"{arguments}: {done.returncode}, {done.stderr.decode()}")
        return done.stderr.decode() if is_error else done.stdout

    def snapshot(self, name, data):
        return int(self._run("snapshot", name, data=data))

    def publish(self, name, data):
        return int(self._run("publish", name, data=data))

    def restore(self, name):
        return self._run("restore", name)

    def collect(self):
        deleted, is_believed, epoch = self._run("collect").split()
        return int(deleted), is_believed == b"true", int(epoch)

    def collect_broken(self):
        said = self._run("collect", "broken", is_error=True)
        if "broken off" not in said:
            raise AssertionError(said)

    def error_of_collect(self):
        return self._run("collect", is_error=True)

    def lock(self):
        return HeldByGo([*self._begin, "lock"])


class Both:
    """Of a folder, and a server that knows nothing of it. Subclasses say which of the two is first."""

    kinds: tuple

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kerf-interop-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        with open(self.folder / "log", "wb") as log:
            process = subprocess.Popen([KERFD, "--listen", f"unix:{self.folder}/kerfd", "--ready-file", self.folder / "ready",
                                        "--data-dir", self.folder / "data"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        processes.wait_until((self.folder / "ready").exists, PATIENCE_S, "kerfd",
                             lambda: processes.log_tail(self.folder / "log"), processes=[process])
        server = (self.folder / "ready").read_text().split("\n")[0]
        self.store = self.folder / "store"
        self.first, self.second = (kind(self.store, server) for kind in self.kinds)

    def stored_bytes(self):
        return sum(file.stat().st_size for file in (self.store / "chunks").glob("*/*"))

    def test_what_one_writes_the_other_reads_and_collects(self):
        first, second = self.first, self.second
        self.assertEqual(first.snapshot("one", ONE), len(ONE))
        self.assertEqual(second.snapshot("two", TWO), len(TWO))
        # Nothing is stored twice.
        self.assertEqual((first.snapshot("two-again", TWO), second.snapshot("one-again", ONE)), (0, 0))
        for name, data in (("one", ONE), ("two", TWO), ("one-again", ONE), ("two-again", TWO)):
            self.assertEqual((first.restore(name), second.restore(name)), (data, data))
        # What is pending of one is a root to the other.
        self.assertEqual(first.publish("three", THREE), len(THREE))
        self.assertEqual(second.collect()[0], 0)
        for name in ("two", "two-again"):
            (self.store / "snapshots" / name).unlink()
        self.assertEqual(second.collect(), (len(TWO), True, 3))
        (self.store / "pending/three").unlink()
        self.assertEqual(first.collect(), (len(THREE), True, 5))
        self.assertEqual((first.restore("one"), second.restore("one-again")), (ONE, ONE))
        self.assertEqual(kerf.FolderStore(self.store).epoch(), 5)
        # Each has read the epoch of the other.
        self.assertEqual((first.snapshot("two", TWO), second.snapshot("two-again", TWO)), (len(TWO), 0))

    def test_a_collection_that_broke_off_is_ended_by_the_other(self):
        first, second = self.first, self.second
        for name, data in (("one", ONE), ("two", TWO), ("three", THREE)):
            first.snapshot(name, data)
        for name in ("one", "three"):
            (self.store / "snapshots" / name).unlink()
        first.collect_broken()
        self.assertTrue((self.store / "plan").exists())
        left = self.stored_bytes()
        self.assertLess(len(ONE) + len(TWO), left)
        self.assertLess(left, len(ONE) + len(TWO) + len(THREE))
        # What the plan condemns the other one does not count on (COL-15), though it is there.
        self.assertEqual(second.snapshot("one-anew", ONE), len(ONE))
        self.assertEqual(self.stored_bytes(), left + len(ONE))
        deleted, is_believed, _ = second.collect()
        self.assertTrue(is_believed)
        self.assertFalse((self.store / "plan").exists())
        self.assertEqual(self.stored_bytes(), left + len(ONE) - deleted)
        self.assertEqual(first.snapshot("three-anew", THREE), len(THREE))
        for name, data in (("one-anew", ONE), ("two", TWO)):
            self.assertEqual((first.restore(name), second.restore(name)), (data, data))

    def test_a_collection_is_one_at_a_time(self):
        first, second = self.first, self.second
        first.snapshot("one", ONE)
        second.snapshot("two", TWO)
        (self.store / "snapshots/one").unlink()
        with first.lock():
            self.assertIn("another collection runs", second.error_of_collect())
            self.assertIn("another collection runs", first.error_of_collect())
        self.assertEqual(self.stored_bytes(), len(ONE) + len(TWO))
        with second.lock():
            self.assertIn("another collection runs", first.error_of_collect())
        self.assertEqual(first.collect()[0], len(ONE))

    def test_cli_29_what_is_damaged_ends_the_collections_of_both(self):
        first, second = self.first, self.second
        first.snapshot("one", ONE)
        second.snapshot("two", TWO)
        for name in ("one", "two"):
            path = self.store / "snapshots" / name
            body = path.read_bytes()
            # A digit of a digest, another one.
            at = body.index(b'[["') + 3
            path.write_bytes(body[:at] + (b"0" if body[at:at + 1] != b"0" else b"1") + body[at + 1:])
            for one in (first, second):
                self.assertRegex(one.error_of_collect(), f"snapshots/{name}: .*damaged")
            path.write_bytes(body)
        self.assertEqual(self.stored_bytes(), len(ONE) + len(TWO))


class PythonFirstTest(Both, unittest.TestCase):
    kinds = (OfPython, OfGo)


class GoFirstTest(Both, unittest.TestCase):
    kinds = (OfGo, OfPython)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
