"""The end of a backup: published, looked at, and only then a snapshot (COL-18, COL-26 to COL-32)."""

import hashlib
import unittest

import kerf
from fake import kill
from kerf.v1 import chunking_pb2 as pb
from testing import CHUNK_BYTES, ClientTest, Reader, content

DATA = content(6 * CHUNK_BYTES)


class SnapshotTest(ClientTest):
    def upload(self, **options):
        client = self.open(**options)
        return client, client.upload(DATA, b"file")

    def delete(self, *digests):
        """As a collection does."""
        for locator in [locator for locator, (digest, _) in self.store.content.items() if digest in digests]:
            del self.store.content[locator]

    def test_the_short_way(self):
        client, recipe = self.upload()
        self.log.clear()
        client.snapshot("monday", [recipe])
        # COL-28: nothing is looked at for nothing; COL-26, COL-27: published first, then the epoch, then the plan.
        self.assertEqual(self.log, ["publish", "epoch", "plan", "confirm"])
        self.assertEqual(self.store.restore_snapshot("monday"), {b"file": DATA})

    def test_col_29_a_plan_now_a_plan_then_or_another_epoch_is_the_long_way(self):
        def plan_now():
            self.store.current_plan = kerf.store.Plan(3).encode()

        def other_epoch():
            self.store.current_epoch = 3

        for change in (plan_now, other_epoch):
            with self.subTest(change.__name__):
                self.setUp()
                client, recipe = self.upload()
                change()
                self.delete(recipe.chunks[2].digest)
                with self.assertRaises(kerf.ChunksLost) as caught:
                    client.snapshot("monday", [recipe])
                self.assertEqual(caught.exception.digests, (recipe.chunks[2].digest,))
                # COL-30: withdrawn.
                self.assertEqual((self.store.pending, self.store.snapshots), ({}, {}))

    def test_one_that_could_not_be_looked_at_leaves_its_name_free(self):
        client, recipe = self.upload()

        def unreadable(event):
            if event == "plan" and self.store.pending:
                raise OSError("cannot be read")

        self.store.before = unreadable
        with self.assertRaisesRegex(OSError, "cannot be read"):
            client.snapshot("monday", [recipe])
        self.assertEqual((self.store.pending, self.store.snapshots), ({}, {}))

        def nor_withdrawn(event):
            unreadable(event)
            if event == "withdraw":
                raise OSError("the disk")

        self.store.before = nor_withdrawn
        with self.assertRaisesRegex(OSError, "cannot be read") as caught:
            client.snapshot("monday", [recipe])
        self.assertEqual(caught.exception.__notes__, ["snapshot monday could not be withdrawn: the disk"])
        self.store.before = lambda event: None
        client.snapshot("monday", [recipe])
        self.assertEqual(self.store.restore_snapshot("monday"), {b"file": DATA})

    def test_col_29_a_plan_that_was_there_is_heeded_though_it_is_gone(self):
        self.store.current_plan = kerf.store.Plan(3).encode()
        client, recipe = self.upload()
        self.store.current_plan = None
        self.delete(recipe.chunks[0].digest)
        with self.assertRaises(kerf.ChunksLost):
            client.snapshot("monday", [recipe])

    def test_col_29_a_plan_then_and_another_one_now(self):
        # The epoch is the same: the collector has published, and not yet raised it.
        self.store.current_plan = kerf.store.Plan(3).encode()
        client, recipe = self.upload()
        self.store.current_plan = kerf.store.Plan(3, condemned=frozenset(self.store.content)).encode()
        with self.assertRaises(kerf.ChunksLost):
            client.snapshot("monday", [recipe])

    def test_col_29_what_is_condemned_is_lost_and_a_safe_copy_is_not(self):
        client, recipe = self.upload()
        self.store.current_plan = kerf.store.Plan(3, condemned=frozenset(self.store.content)).encode()
        with self.assertRaises(kerf.ChunksLost) as caught:
            client.snapshot("monday", [recipe])
        self.assertEqual(len(caught.exception.digests), 6)
        self.store.content.update({b"copy of " + locator: chunk for locator, chunk in self.store.content.items()})
        client.snapshot("monday", [client.reuse(recipe)])
        self.assertEqual(self.store.restore_snapshot("monday"), {b"file": DATA})

    def test_col_20_what_the_long_way_counts_on_is_durable_before_the_snapshot(self):
        client, recipe = self.upload()
        self.store.current_epoch = 3
        self.store.names_at_risk = set(self.store.content)
        self.store.before = lambda event: self.assertFalse(event == "confirm" and self.store.names_at_risk)
        client.snapshot("monday", [recipe])

    def test_what_is_lost_is_uploaded_again_in_the_new_epoch(self):
        client, recipe = self.upload()
        self.store.current_epoch = self.fake.index.epoch = 3
        self.delete(recipe.chunks[1].digest)
        self.fake.index.remove([recipe.chunks[1].digest])
        with self.assertRaises(kerf.ChunksLost):
            client.snapshot("monday", [recipe])
        again = client.upload(DATA, b"file")
        self.assertEqual((again.new_chunks, again.seen.epoch), (1, 3))
        client.snapshot("monday", [again])
        self.assertEqual(self.store.restore_snapshot("monday"), {b"file": DATA})

    def test_col_31_one_that_is_gone_is_not_confirmed(self):
        client, recipe = self.upload()

        def collected(event):
            if event == "confirm":
                self.store.pending.clear()

        self.store.before = collected
        with self.assertRaises(kerf.StoreError):
            client.snapshot("monday", [recipe])
        self.assertEqual(self.store.snapshots, {})
        self.assertEqual(self.events("publish"), ["publish"])

    def test_col_6_35_files_of_two_epochs_are_looked_at(self):
        """The second file's stream had its commit refused; the first file was answered before the collection."""
        client, first = self.upload()
        self.store.current_epoch = self.fake.index.epoch = 3
        self.delete(first.chunks[0].digest)
        second = client.upload(content(CHUNK_BYTES, 9), b"other")
        self.assertEqual(second.seen.epoch, 3)
        with self.assertRaises(kerf.ChunksLost):
            client.snapshot("monday", [second, first])

    def test_col_81_an_index_that_has_moved_on_is_the_long_way(self):
        """The store's epoch is read as it was; of the second upload nothing is new, so that no commit is refused."""
        client, first = self.upload()
        self.assertFalse(first.is_overtaken)
        self.fake.index.epoch = 3
        second = client.upload(DATA, b"file")
        self.assertEqual((second.new_chunks, second.index_epoch, second.is_overtaken), (0, 3, True))
        self.delete(first.chunks[2].digest)
        with self.assertRaises(kerf.ChunksLost):
            client.snapshot("monday", [second])

    def test_col_81_a_commit_tells_it_too(self):
        self.fake.told_epoch = lambda: 3
        self.fake.change_done = lambda done: pb.FileDone(file_number=done.file_number, size_bytes=done.size_bytes)
        self.assertTrue(self.upload()[1].is_overtaken)

    def test_col_81_the_next_stream_begins_with_the_epoch(self):
        client, _ = self.upload()
        self.store.current_epoch = self.fake.index.epoch = 3
        self.assertTrue(client.upload(DATA, b"file").is_overtaken)
        third = client.upload(DATA, b"file")
        self.assertEqual((third.seen, third.is_overtaken), (kerf.Seen(3, False), False))
        self.assertEqual([opened.store_epoch for opened in self.fake.opens], [1, 3])

    def test_col_81_a_server_that_tells_nothing_is_no_reason(self):
        self.fake.tells_epoch = False
        client, _ = self.upload()
        self.fake.index.epoch = 3
        recipe = client.upload(DATA, b"file")
        self.assertEqual((recipe.index_epoch, recipe.is_overtaken), (0, False))
        self.log.clear()
        client.snapshot("monday", [recipe])
        self.assertEqual(self.log, ["publish", "epoch", "plan", "confirm"])

    def test_each_snapshot_begins_with_the_epoch(self):
        client, recipe = self.upload()
        client.snapshot("monday", [recipe])
        self.store.current_epoch = self.fake.index.epoch = 5
        self.assertEqual(client.upload(DATA, b"file").seen.epoch, 5)
        self.assertEqual([opened.store_epoch for opened in self.fake.opens], [1, 5])

    def test_col_18_a_file_that_is_taken_over_is_looked_up(self):
        client, recipe = self.upload()
        client.snapshot("monday", [recipe])
        (kept,) = kerf.decode(self.store.snapshots["monday"])
        self.store.current_epoch = 2
        taken = client.reuse(kept)
        self.assertEqual((taken.chunks, taken.seen), (recipe.chunks, kerf.Seen(2, False)))
        self.store.current_plan = kerf.store.Plan(3, condemned=frozenset(list(self.store.content)[:1])).encode()
        self.assertIsNone(self.open().reuse(kept))
        self.store.current_plan = None
        self.delete(kept.chunks[3].digest)
        self.assertIsNone(self.open().reuse(kept))

    def test_col_36_recipes_that_were_kept_are_always_looked_up(self):
        client, recipe = self.upload()
        (kept,) = kerf.decode(kerf.encode([recipe]))
        self.delete(recipe.chunks[0].digest)
        with self.assertRaises(kerf.ChunksLost):
            client.snapshot("monday", [kept])

    def test_col_26_all_is_durable_before_it_is_pending(self):
        # A stream that was lost behind its last answer leaves nothing that is not synced: MemoryStore.publish looks.
        self.fake.faults = {("commit", 1): kill}
        client, recipe = self.upload()
        client.snapshot("monday", [recipe])
        self.store.names_at_risk = set(self.store.content)
        taken = client.reuse(recipe)
        client.snapshot("tuesday", [taken])
        self.assertEqual(self.store.names_at_risk, set())

    def test_snapshots_of_other_versions_are_not_read(self):
        for text in (b'{"version":2,"files":[]}', b"{}", b"[]", b"\0", b'{"version":1,"files":[{"key":"","size":1,"chunks":[]}]}',
                     b'{"version":1,"files":[{"key":"","size":0,"chunks":[["00",0]]}]}',
                     b'{"version":1,"files":[{"key":"","size":0,"chunks":[["00",1],["01",-1]]}]}'):
            with self.assertRaisesRegex(kerf.StoreError, "a snapshot (that is none|of version 2)"):
                kerf.decode(hashlib.sha256(text).digest() + text)
        for body in (b"", b"short", b'{"version":1,"files":[]}'):
            with self.assertRaisesRegex(kerf.StoreError, "damaged"):
                kerf.decode(body)


if __name__ == "__main__":
    unittest.main()
