"""The store in a folder: what is durable when, and what it does with what is damaged."""

import hashlib
import os
import pathlib
import resource
import tempfile
import unittest
from unittest import mock

import kerf
from kerf import folder_store
from kerf.recipe import Chunk, Recipe, Seen
from testing import ClientTest


def sha256(data):
    return hashlib.sha256(data).digest()


class FolderStoreTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kerf-folder-store-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "store"
        self.store = kerf.FolderStore(self.path, "sha256")
        # What was synced, and renamed or linked, in this order.
        self.steps = []
        sync = folder_store._sync

        def synced(path):
            self.steps.append(("sync", pathlib.Path(path).relative_to(self.path).parts[:1]))
            sync(path)

        self.enterContext(mock.patch.object(folder_store, "_sync", synced))

    def recipe(self, *parts):
        for part in parts:
            self.store.put(sha256(part), part)
        self.store.sync()
        chunks = tuple(Chunk(sha256(part), len(part)) for part in parts)
        return Recipe(b"key", sum(map(len, parts)), chunks, Seen(1, False))

    def test_chunks(self):
        recipe = self.recipe(b"one", b"two", b"one")
        self.assertEqual(b"".join(self.store.restore(recipe)), b"onetwoone")
        self.assertEqual(len(self.store.has(sha256(b"one"))), 2)
        self.assertEqual(self.store.has(sha256(b"three")), [])
        self.assertEqual({(place.digest, place.length) for place in self.store.chunks()},
                         {(sha256(b"one"), 3), (sha256(b"two"), 3)})
        for place in self.store.chunks():
            self.assertIn(place.locator, self.store.has(place.digest))
            self.assertLessEqual(len(place.locator), 64)
            self.store.delete(place)
            self.store.delete(place)
        self.assertEqual(list(self.store.chunks()), [])

    def test_what_is_put_is_there_once_it_is_synced(self):
        self.store.put(sha256(b"one"), b"one")
        self.assertEqual(self.store.has(sha256(b"one")), [])
        self.store.sync()
        # The bytes before the name.
        self.assertEqual(self.steps[0], ("sync", ("tmp",)))
        self.assertEqual({step[1] for step in self.steps[1:]}, {("chunks",)})
        self.assertEqual(len(self.steps), 3)
        self.steps.clear()
        # COL-20: the name is perhaps another's.
        other = kerf.FolderStore(self.path, "sha256")
        self.assertEqual(len(other.has(sha256(b"one"))), 1)
        other.sync()
        self.assertEqual(len(self.steps), 2)

    def test_behind_a_sync_that_failed_nothing_of_it_is_named(self):
        self.store.put(sha256(b"one"), b"one")
        written, = (self.path / "tmp").iterdir()
        written.unlink()
        with self.assertRaises(FileNotFoundError):
            self.store.sync()
        # A later one goes well, with what is left of the bytes; also for another client.
        written.write_bytes(b"")
        for act in (self.store.sync, lambda: self.store.put(sha256(b"one"), b"one"), lambda: self.store.has(sha256(b"one"))):
            with self.assertRaisesRegex(kerf.StoreError, "open it anew"):
                act()
        self.assertEqual(kerf.FolderStore(self.path, "sha256").has(sha256(b"one")), [])

    def test_what_a_disk_does_not_take_is_not_left_on_it(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            with self.assertRaises(OSError):
                self.store.put(sha256(bytes(100_000)), bytes(100_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        self.assertEqual(os.listdir(self.path / "tmp"), [])
        self.store.put(sha256(b"one"), b"one")

        def fails(path):
            raise OSError(28, "No space left on device", path)

        with mock.patch.object(folder_store, "_sync", fails), self.assertRaises(OSError):
            self.store.sync()
        self.assertEqual(os.listdir(self.path / "tmp"), [])

    def test_cli_20_a_name_whose_folder_could_not_be_synced_is_not_named(self):
        self.recipe(b"one")
        self.store.put(sha256(b"one"), b"one")
        self.store.put(sha256(b"two"), b"two")
        sync = folder_store._sync

        def fails(path):
            if path.parent.name == "chunks":
                raise OSError(5, "Input/output error", path)
            sync(path)

        with mock.patch.object(folder_store, "_sync", fails), self.assertRaises(OSError):
            self.store.sync()
        other = kerf.FolderStore(self.path, "sha256")
        self.assertEqual((len(other.has(sha256(b"one"))), other.has(sha256(b"two"))), (1, []))
        other.sync()
        self.assertEqual(other.has(sha256(b"two")), [])
        # Whoever has found the name before, and synced it himself, finds his bytes; a collection finds the place.
        self.assertEqual(other.read(sha256(b"two")), b"two")
        places = list(other.chunks())
        self.assertEqual(sorted(place.digest for place in places), sorted([sha256(b"one")] * 2 + [sha256(b"two")]))
        other.put(sha256(b"two"), b"two")
        other.sync()
        self.assertEqual(len(other.has(sha256(b"two"))), 1)
        for place in other.chunks():
            other.delete(place)
        self.assertEqual([os.listdir(folder) for folder in (self.path / "chunks").iterdir()], [[], []])

    def test_cli_20_a_doubt_that_cannot_be_noted_leaves_no_other_one_out(self):
        parts = (b"one", b"two", b"three")
        for part in parts:
            self.store.put(sha256(part), part)
        sync, touch, refused = folder_store._sync, pathlib.Path.touch, []

        def fails(path):
            if path.parent.name == "chunks":
                raise OSError(5, "Input/output error", path)
            sync(path)

        def is_full_once(path, mode):
            if not refused:
                refused.append(path)
                raise OSError(28, "No space left on device", path)
            touch(path, mode)

        with (mock.patch.object(folder_store, "_sync", fails), mock.patch.object(pathlib.Path, "touch", is_full_once),
              self.assertRaises(OSError)):
            self.store.sync()
        other = kerf.FolderStore(self.path, "sha256")
        self.assertEqual(sum(len(other.has(sha256(part))) for part in parts), 1)

    def test_cli_36_a_file_of_another_length_is_not_there(self):
        self.recipe(b"one", b"one", b"one")
        first, second, third = (self.store._chunk(place) for place in self.store.has(sha256(b"one")))
        first.write_bytes(b"")
        second.write_bytes(b"on")
        self.assertEqual(len(self.store.has(sha256(b"one"))), 2)
        self.assertEqual([self.store._chunk(place) for place in self.store.has_of_length(sha256(b"one"), 3)], [third])
        self.assertEqual(self.store.read(sha256(b"one")), b"one")

    def test_begun_by_two_at_a_time_its_epoch_stays(self):
        self.store.raise_epoch(7)
        # The other one has looked before this one was done.
        with mock.patch.object(folder_store, "_sync"):
            self.store._begin()
        self.assertEqual((self.store.epoch(), os.listdir(self.path / "tmp")), (7, []))

    def test_folders_above_it_are_durable(self):
        synced = []
        with mock.patch.object(folder_store, "_sync", synced.append):
            kerf.FolderStore(self.path / "tmp" / "a" / "b", "sha256")
        for folder in ("tmp", "tmp/a", "tmp/a/b"):
            self.assertIn(self.path / folder, synced)

    def test_a_chunk_that_has_rotted_is_not_read(self):
        recipe = self.recipe(b"one", b"one")
        first, second = (self.store._chunk(place) for place in self.store.has(sha256(b"one")))
        first.write_bytes(b"eno")
        self.assertEqual(self.store.read(sha256(b"one")), b"one")
        # Nor is one that the disk does not give a reason not to look at the others.
        for one, other in ((first, second), (second, first)):
            one.unlink()
            one.mkdir()
            other.write_bytes(b"one")
            self.assertEqual(self.store.read(sha256(b"one")), b"one")
            one.rmdir()
        first.unlink()
        second.mkdir()
        with self.assertRaisesRegex(kerf.StoreError, "directory"):
            self.store.read(sha256(b"one"))
        second.rmdir()
        with self.assertRaises(kerf.StoreError):
            b"".join(self.store.restore(recipe))

    def test_snapshots(self):
        recipe = self.recipe(b"one")
        self.store.publish("a", kerf.encode([recipe]))
        self.assertEqual(self.store.snapshots(), [])
        with self.assertRaises(FileExistsError):
            self.store.publish("a", b"")
        self.store.confirm("a")
        self.assertEqual((self.store.snapshots(), os.listdir(self.path / "pending"), os.listdir(self.path / "tmp")),
                         (["a"], [], []))
        self.assertEqual(self.store.snapshot("a")[0].chunks, recipe.chunks)
        with self.assertRaises(FileExistsError):
            self.store.publish("a", b"")
        # COL-31.
        self.store.publish("b", kerf.encode([recipe]))
        self.store.withdraw("b")
        with self.assertRaises(FileNotFoundError):
            self.store.confirm("b")
        self.assertEqual(self.store.snapshots(), ["a"])
        self.store.forget("a")
        self.assertEqual(self.store.snapshots(), [])
        for name in ("", ".", "..", "a/b", ".a", "a" * 201):
            with self.assertRaises(ValueError):
                self.store.publish(name, b"")

    def test_col_45_47_roots(self):
        self.store.publish("a", kerf.encode([self.recipe(b"one")]))
        self.store.confirm("a")
        self.store.publish("b", kerf.encode([self.recipe(b"two")]))
        self.steps.clear()
        roots = iter(self.store.roots())
        self.assertEqual(next(roots), sha256(b"two"))
        # Renamed meanwhile: it is seen a second time, and not missed.
        self.store.confirm("b")
        self.assertEqual(sorted(roots), sorted([sha256(b"one"), sha256(b"two")]))
        self.assertEqual([step for step in self.steps if step[1] in (("pending",), ("snapshots",))][-2:],
                         [("sync", ("pending",)), ("sync", ("snapshots",))])
        (self.path / "snapshots" / "a").write_bytes(b"rotten")
        with self.assertRaises(kerf.StoreError):
            list(self.store.roots())

    def test_epoch_plan_and_lock(self):
        self.assertEqual((self.store.epoch(), self.store.plan()), (1, None))
        self.store.raise_epoch(5)
        for epoch in (5, 4):
            with self.assertRaises(kerf.StoreError):
                self.store.raise_epoch(epoch)
        self.store.write_plan(b"plan")
        other = kerf.FolderStore(self.path, "sha256")
        self.assertEqual((other.epoch(), other.plan()), (5, b"plan"))
        self.store.remove_plan()
        self.assertIsNone(other.plan())
        with self.store.lock(), self.assertRaises(kerf.Retryable):
            with other.lock():
                pass
        with other.lock():
            pass

    def test_what_is_no_store_of_that_kind(self):
        with self.assertRaises(kerf.StoreError):
            kerf.FolderStore(self.path, "xxh3-128")
        for body in (b"", b"{", b"[]", b"\xff", b'{"version": 2, "digest": "sha256"}'):
            (self.path / "config").write_bytes(body)
            with self.assertRaisesRegex(kerf.StoreError, "not of version 1 and sha256"):
                kerf.FolderStore(self.path, "sha256")
        self.recipe(b"one")
        for name in ("epoch", "config"):
            (self.path / name).unlink()
        with self.assertRaises(kerf.StoreError):
            kerf.FolderStore(self.path, "sha256")
        with self.assertRaises(FileNotFoundError):
            self.store.epoch()


class RottenChunkTest(ClientTest):
    def test_cli_36_it_is_stored_anew(self):
        folder = tempfile.TemporaryDirectory(prefix="kerf-folder-store-")
        self.addCleanup(folder.cleanup)
        store = kerf.FolderStore(pathlib.Path(folder.name) / "store", "sha256")
        self.fake.is_durable = lambda digest, locator: locator in store.has(digest)
        client = self.open(store=store)
        recipe = client.upload(b"some bytes", b"f")
        place, = store.chunks()
        for rotten in (b"", b"some byte"):
            store._chunk(place.locator).write_bytes(rotten)
            self.assertIsNone(client.reuse(recipe))
            again = client.upload(b"some bytes", b"f")
            self.assertEqual((again.new_chunks, b"".join(store.restore(again))), (1, b"some bytes"))
            client.snapshot(f"of-{len(rotten)}", [again])
            for stored in store.chunks():
                if stored.locator != place.locator:
                    store.delete(stored)


class DamagedTest(ClientTest):
    """What has rotted ends a collection before anything is forgotten or deleted (COL-45, COL-46)."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="kerf-folder-store-")
        self.addCleanup(folder.cleanup)
        self.folder = kerf.FolderStore(pathlib.Path(folder.name) / "store", "sha256")
        self.fake.is_durable = lambda digest, locator: locator in self.folder.has(digest)
        self.client = self.open(store=self.folder)
        self.recipe = self.client.upload(b"some bytes", b"f")
        self.client.upload(b"garbage", b"g")
        self.assertEqual(len(list(self.folder.chunks())), 2)

    def assert_ends_a_collection(self, said):
        with self.assertRaisesRegex(kerf.StoreError, said):
            self.client.collect(self.folder.roots)
        self.assertEqual(self.fake.index.epoch, 0)
        self.assertEqual((len(list(self.folder.chunks())), self.folder.epoch(), self.folder.plan()), (2, 1, None))

    def test_cli_29_a_damaged_snapshot_ends_a_collection(self):
        self.client.snapshot("one", [self.recipe])
        for folder in ("snapshots", "pending"):
            path = self.folder.path / folder / "one"
            body = (self.folder.path / "snapshots/one").read_bytes()
            damaged = [body[:at] + bytes([body[at] ^ 1]) + body[at + 1:] for at in range(len(body))]
            damaged += [body[:size] for size in range(len(body))] + [body + b" ", body[32:]]
            for rotten in damaged:
                path.write_bytes(rotten)
                self.assert_ends_a_collection(f"{folder}/one: .*damaged.*sound copy.*remove it")
                if folder == "snapshots":
                    with self.assertRaisesRegex(kerf.StoreError, "snapshots/one: .*damaged"):
                        self.folder.snapshot("one")
            path.write_bytes(body)
        # Sound again, it goes on.
        self.assertEqual(self.client.collect(self.folder.roots).deleted_bytes, len(b"garbage"))
        self.assertEqual(b"".join(self.folder.restore(self.folder.snapshot("one")[0])), b"some bytes")

    def test_cli_29_one_of_a_newer_version_ends_a_collection(self):
        text = b'{"version":2,"files":[]}'
        (self.folder.path / "snapshots/one").write_bytes(sha256(text) + text)
        self.assert_ends_a_collection("snapshots/one: .*version 2: a newer kerf")

    def test_a_folder_that_is_gone_is_not_made_anew(self):
        self.client.snapshot("one", [self.recipe])
        for name in ("snapshots", "pending", "chunks", "tmp"):
            folder = self.folder.path / name
            folder.rename(self.folder.path / "elsewhere")
            with self.assertRaisesRegex(kerf.StoreError, f"no folder {name}: it is damaged"):
                kerf.FolderStore(self.folder.path, "sha256")
            if name in ("snapshots", "pending"):
                with self.assertRaises(FileNotFoundError):
                    self.client.collect(self.folder.roots)
            (self.folder.path / "elsewhere").rename(folder)
        self.assertEqual(len(list(kerf.FolderStore(self.folder.path, "sha256").chunks())), 2)

    def test_cli_35_an_epoch_that_is_damaged_stops_all(self):
        self.folder.raise_epoch(12)
        body = (self.folder.path / "epoch").read_bytes()
        self.assertEqual(body, b"12 6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918")
        damaged = [body[:at] + bytes([body[at] ^ 1]) + body[at + 1:] for at in range(len(body))]
        damaged += [body[:size] for size in range(len(body))]
        for body in (*damaged, b"12", b"x", b"-1", b"1_0", b"+5", b"1 2", b"1.0", b"\xff", b"9" * 20):
            (self.folder.path / "epoch").write_bytes(body)
            with self.assertRaisesRegex(kerf.StoreError, "epoch.*damaged"):
                self.client.collect(self.folder.roots)
            with self.assertRaisesRegex(kerf.StoreError, "epoch.*damaged"):
                self.folder.raise_epoch(99)
        self.assertEqual(len(list(self.folder.chunks())), 2)
        # As the message says.
        (self.folder.path / "epoch").write_text("1 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b\n")
        self.assertEqual(self.folder.epoch(), 1)


if __name__ == "__main__":
    unittest.main()
