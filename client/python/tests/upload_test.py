"""Uploads where nothing breaks: what becomes of each answer, and what is held within bounds."""

import hashlib
import io
import threading
import unittest

import kerf
from fake import fail
from kerf.lane import chunk_bounds
from kerf.v1 import chunking_pb2 as pb
from memory_store import BareStore
from testing import CHUNK_BYTES, ClientTest, Reader, content


def sha256(data):
    return hashlib.sha256(data).digest()


class UploadTest(ClientTest):
    def test_a_recipe_is_the_file(self):
        client = self.open()
        for size in (0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 20 * CHUNK_BYTES, 500_000):
            data = content(size, size)
            recipe = client.upload(io.BytesIO(data), b"file")
            self.assertEqual(self.store.restore(recipe), data)
            self.assertEqual((recipe.size, recipe.new_bytes, recipe.untold_chunks), (size, size, 0))
            self.assert_told(recipe)
        self.assertEqual(len(self.fake.opens), 1)

    def test_what_is_there_is_not_stored_again(self):
        client = self.open()
        data = content(50_000)
        first, second = client.upload(data, b"file"), client.upload(data, b"file")
        self.assertEqual(first.chunks, second.chunks)
        self.assertEqual((second.new_chunks, second.new_bytes), (0, 0))
        self.assertEqual(len(self.fake.commits), len(first.chunks))

    def test_a_chunk_that_comes_twice_is_stored_and_committed_once(self):
        recipe = self.open().upload(bytes(10 * CHUNK_BYTES), b"zeros")
        self.assertEqual((recipe.new_chunks, len(recipe.chunks), len(self.fake.commits)), (1, 10, 1))

    def test_readers_that_return_little(self):
        data = content(30_000)
        self.assertEqual(self.store.restore(self.open().upload(Reader(data, most=7), b"file")), data)

    def test_what_a_reader_raises_comes_to_the_caller(self):
        class Broken:
            def read(self, size):
                raise OSError("the disk")

        client = self.open()
        with self.assertRaisesRegex(OSError, "the disk"):
            client.upload(Broken(), b"file")
        for bad in ("text", None):
            with self.assertRaises(TypeError):
                client.upload(type("Bad", (), {"read": lambda self, size, bad=bad: bad})(), b"file")
        self.assertEqual(self.store.restore(client.upload(b"well", b"file")), b"well")

    def test_open_says_what_the_documents_ask_for(self):
        self.store.current_epoch = 7
        self.open(agent="tests").upload(b"x", b"file")
        opened = self.fake.opens[0]
        self.assertEqual((opened.repository, opened.store_epoch, opened.digest_algorithm, opened.agent),
                         ("tests", 7, pb.DIGEST_ALGORITHM_SHA256, "tests"))
        self.assertEqual(opened.features, ["index-epoch"])

    def test_col_2_the_epoch_then_the_plan_then_the_first_stream(self):
        self.open().upload(b"x", b"file")
        self.assertEqual(self.events("epoch", "plan", "open"), ["epoch", "plan", "open 1"])

    def test_col_5_without_epoch_or_plan_nothing_begins(self):
        client = self.open()
        self.store.current_plan = b"no plan at all, by anybody, and long enough"
        with self.assertRaises(kerf.StoreError):
            client.upload(b"x", b"file")

        def unreadable(event):
            if event == self.unreadable:
                raise OSError("cannot be read")

        self.store.current_plan = None
        self.store.before = unreadable
        for self.unreadable in ("epoch", "plan"):
            with self.assertRaises(OSError):
                client.upload(b"x", b"file")
        self.assertEqual(self.fake.opens, [])

    def test_col_7_a_store_that_is_never_collected_is_at_1(self):
        store = BareStore()
        self.fake.is_durable = lambda digest, locator: True
        client = self.open(store=store)
        data = content(5_000)
        recipe = client.upload(data, b"file")
        self.assertEqual(store.restore(recipe), data)
        self.assertEqual([opened.store_epoch for opened in self.fake.opens], [1])
        for call in (lambda: client.snapshot("a", [recipe]), lambda: client.collect(lambda: [])):
            with self.assertRaisesRegex(TypeError, "CollectedStore"):
                call()

    def test_a_store_with_half_of_the_callbacks_is_none(self):
        store = BareStore()
        store.epoch = lambda: 1
        with self.assertRaisesRegex(TypeError, "raise_epoch"):
            self.open(store=store)

    def test_col_11_new_is_looked_up_and_else_stored(self):
        data = content(CHUNK_BYTES)
        place = self.store.add(sha256(data), data)
        recipe = self.open().upload(data, b"file")
        self.assertEqual((recipe.new_chunks, self.events("put")), (0, []))
        self.assertEqual(self.fake.commits, [(1, sha256(data), place)])

    def test_cli_41_a_chunk_whose_entry_has_another_length_is_not_stored_again(self):
        data = content(CHUNK_BYTES)
        client = self.open()
        client.upload(data, b"file")
        self.fake.index.entries[sha256(data)].length += 1
        for _ in range(2):
            again = client.upload(data, b"file")
            self.assertEqual((again.new_chunks, self.store.restore(again)), (0, data))

    def test_col_12_unverified_is_looked_up_and_else_stored(self):
        here, gone = content(CHUNK_BYTES, 1), content(CHUNK_BYTES, 2)
        place = self.store.add(sha256(here), here)
        self.fake.verdict = lambda digest, verdict: pb.VERDICT_UNVERIFIED
        recipe = self.open().upload(here + gone, b"file")
        self.assertEqual(self.store.restore(recipe), here + gone)
        self.assertEqual(recipe.new_chunks, 1)
        self.assertEqual(self.fake.commits[0], (1, sha256(here), place))
        self.assert_told(recipe)

    def test_a_verdict_that_nobody_knows_is_new(self):
        self.fake.verdict = lambda digest, verdict: 9
        data = content(3 * CHUNK_BYTES)
        self.store.add(sha256(data[:CHUNK_BYTES]), data[:CHUNK_BYTES])
        recipe = self.open(silence_s=1, retry_for_s=0.5).upload(data, b"file")
        self.assertEqual(self.store.restore(recipe), data)
        self.assert_told(recipe)

    def test_an_answer_that_nobody_knows_is_passed_over(self):
        def with_another(stream):
            stream._answers.insert(0, pb.UploadAnswer())
            stream._answers.append(pb.UploadAnswer())
        self.fake.faults = {("opened", 1): with_another, ("chunks", 1): with_another}
        data = content(3 * CHUNK_BYTES)
        self.assertEqual(self.store.restore(self.open().upload(data, b"file")), data)
        self.assertEqual(len(self.fake.opens), 1)

    def test_col_13_16_a_stale_duplicate_is_stored_reported_and_committed(self):
        client = self.open()
        data = content(6 * CHUNK_BYTES)
        recipe = client.upload(data, b"file")
        stale = {chunk.digest: self.fake.index.entries[chunk.digest].locator for chunk in recipe.chunks[::2]}
        for locator in stale.values():
            del self.store.content[locator]
        self.log.clear()
        again = client.upload(data + data, b"file")
        self.assertEqual(self.store.restore(again), data + data)
        self.assertEqual(again.new_chunks, len(stale))
        self.assertEqual(sorted(self.fake.reports), sorted(stale.items()))
        self.assertEqual(self.events("report", "commit"), ["report", "commit"])
        self.assert_told(again)

    def test_col_15_what_is_condemned_is_stored_anew_whatever_the_verdict(self):
        client = self.open()
        data = content(4 * CHUNK_BYTES)
        recipe = client.upload(data, b"file")
        condemned = {self.fake.index.entries[chunk.digest].locator for chunk in recipe.chunks}
        for verdict in (pb.VERDICT_DUPLICATE, pb.VERDICT_UNVERIFIED, pb.VERDICT_NEW):
            self.fake.verdict = lambda digest, _, verdict=verdict: verdict
            self.fake.commits.clear()
            self.store.current_plan = kerf.store.Plan(3, condemned=frozenset(self.store.content)).encode()
            again = self.open().upload(data, b"file")
            self.assertEqual(again.new_chunks, 4, verdict)
            self.assertFalse({locator for _, _, locator in self.fake.commits} & condemned)
            self.assertEqual(self.fake.reports, [])

    def test_col_15_a_safe_place_beside_a_condemned_one_is_counted_on(self):
        client = self.open()
        data = content(CHUNK_BYTES)
        recipe = client.upload(data, b"file")
        (condemned,) = self.store.content
        place = self.store.add(recipe.chunks[0].digest, data)
        self.store.current_plan = kerf.store.Plan(3, condemned=frozenset([condemned])).encode()
        self.fake.verdict = lambda digest, verdict: pb.VERDICT_UNVERIFIED
        self.fake.commits.clear()
        self.assertEqual(self.open().upload(data, b"file").new_chunks, 0)
        self.assertEqual([locator for _, _, locator in self.fake.commits], [place])

    def test_col_19_nothing_is_committed_before_it_is_durable(self):
        # Fake.is_durable judges each Commit as it comes; here the disk fails.
        def full(event):
            if event == "sync":
                raise OSError("no room")

        self.store.before = full
        with self.assertRaisesRegex(OSError, "no room"):
            self.open(commit_bytes=4_096).upload(content(50_000), b"file")
        self.assertEqual((self.fake.commits, self.fake.index.entries), ([], {}))

    def test_col_19_what_a_sync_that_failed_should_have_kept_is_never_committed(self):
        # The second sync goes well, and says nothing of what the first one has lost: by another file, on another stream.
        client = self.open(streams=2)
        syncs = []

        def fails_once(event):
            if event == "sync":
                syncs.append(event)
                if len(syncs) == 1:
                    self.store.volatile.clear()
                    raise OSError("an error of the disk")

        self.store.before = fails_once
        data = content(10 * CHUNK_BYTES)
        with self.assertRaisesRegex(OSError, "of the disk"):
            client.upload(data, b"one")
        for call in (lambda: client.upload(data, b"two"), lambda: client.snapshot("one", [])):
            with self.assertRaisesRegex(kerf.StoreError, "could not sync"):
                call()
        self.assertEqual((self.fake.index.entries, self.store.pending), ({}, {}))
        recipe = self.open().upload(data, b"two")
        self.assertEqual(self.store.restore(recipe), data)

    def test_col_20_a_name_of_another_writer_is_made_durable_first(self):
        data = content(CHUNK_BYTES)
        self.store.add(sha256(data), data)
        client = self.open()
        client.upload(data, b"file")
        self.assertEqual(self.store.names_at_risk, set())
        # Also where it is only counted on.
        (place,) = self.store.content
        self.store.names_at_risk.add(place)
        client.upload(data, b"file")
        self.assertEqual(self.store.names_at_risk, set())

    def test_locators_of_put_are_checked(self):
        for bad in (b"", b"x" * 65):
            self.store.put = lambda digest, data, bad=bad: bad
            with self.assertRaisesRegex(ValueError, "1 to 64"):
                self.open().upload(b"x", b"file")
        self.assertEqual(self.fake.commits, [])

    def test_many_streams_at_a_time(self):
        client = self.open(streams=3)
        files = {b"file %d" % number: content(40_000, number) for number in range(9)}
        recipes, threads = {}, []
        for key, data in files.items():
            threads.append(threading.Thread(target=lambda key=key, data=data: recipes.update({key: client.upload(data, key)})))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertEqual({key: self.store.restore(recipe) for key, recipe in recipes.items()}, files)
        self.assertLessEqual(len(self.fake.opens), 3)

    def test_arguments(self):
        for bad in ({"servers": []}, {"servers": ["a b"]}, {"servers": ["unix:"]}, {"digest": "md5"}, {"streams": 0}):
            with self.assertRaises(ValueError, msg=bad):
                kerf.open(**{"servers": ["h"], "repository": "r", "store": self.store, "digest": "sha256", **bad})
        with self.assertRaisesRegex(ValueError, "digests of blake3"):
            self.store.digest_name = "blake3"
            kerf.open(["h"], "r", self.store, digest="sha256")
        del self.store.digest_name
        for repository in ("", "a/b", "a" * 65):
            with self.assertRaises(ValueError):
                kerf.open(["h"], repository, self.store, digest="sha256")
        with self.assertRaises(ValueError):
            self.open().upload(b"", b"k" * 4097)
        client = self.open()
        client.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            client.upload(b"", b"file")


class BoundsTest(ClientTest):
    def test_what_is_read_ahead_of_answers_is_bounded(self):
        # The server answers nothing for the first 1 MiB.
        self.fake.lag_bytes = 1 << 20
        client = self.open(window_bytes=2 << 20)
        reader = Reader(content(6 << 20))
        most = 0

        def look(event):
            nonlocal most
            if event == "put":
                most = max(most, reader.offset - sum(len(data) for _, data in [*self.store.content.values(),
                                                                               *self.store.volatile.values()]))

        self.store.before = look
        client.upload(reader, b"file")
        self.assertLessEqual(most, (2 << 20) + CHUNK_BYTES)
        self.assertGreater(most, 1 << 20)

    def test_the_window_is_as_long_as_a_cut_needs(self):
        # 1 MiB of a chunk, and no cut is certain before 3 MiB are there: a window of 64 KiB would wait for ever.
        fake = self.new_fake(chunk_bytes=1 << 20)
        data = content(5 << 20)
        recipe = self.open([fake.address], window_bytes=64 << 10, silence_s=5).upload(data, b"file")
        self.assertEqual(self.store.restore(recipe), data)
        self.assertEqual(fake.violations, [])

    def test_a_profile_without_an_end_is_refused(self):
        # Three of its longest chunks would be read ahead: as many gigabytes as a server likes.
        fake = self.new_fake(chunk_bytes=1 << 30)
        reader = Reader(content(1 << 20))
        with self.assertRaisesRegex(kerf.Refused, "this client takes"):
            self.open([fake.address]).upload(reader, b"file")
        self.assertEqual(reader.offset, 0)
        fake = self.new_fake(chunk_bytes=4 << 20)
        self.open([fake.address]).upload(Reader(content(1 << 20)), b"file")

    def test_the_lengths_of_a_profile_are_a_servers_word(self):
        for profile, found in (("fastcdc:min=256,avg=1024,max=4096+zeros", (256, 4096)), ("fixed:size=1024", (1024, 1024)),
                               ("", (64, 4 << 20)), ("fixed:size=0", (64, 4 << 20)), ("fixed:size=-1,min=x,max=", (64, 4 << 20)),
                               ("a:min=0,max=99999999999999999999", (64, 4 << 20)), ("a:min=\u0663", (64, 4 << 20)),
                               ("+:min=1", (64, 4 << 20))):
            with self.subTest(profile):
                self.assertEqual(chunk_bounds(profile), found)

    def test_commits_and_messages_keep_to_the_servers_limits(self):
        self.fake.limits.max_commit_entries = 16
        self.fake.limits.max_message_bytes = 64 << 10
        data = content(200 * CHUNK_BYTES)
        recipe = self.open().upload(data, b"file")
        self.assertEqual(self.store.restore(recipe), data)
        self.assert_told(recipe)
        self.assertGreaterEqual(self.fake.counts["commit"], 200 / 16)

    def test_uncommitted_chunks_keep_to_the_servers_limit(self):
        fake = self.new_fake(chunk_bytes=64)
        fake.limits.max_uncommitted_chunks = 4_096
        # So that a server holds many before it answers the first one.
        fake.lag_bytes = 64 << 10
        data = content(64 * 12_000)
        recipe = self.open([fake.address]).upload(data, b"file")
        self.assertEqual(self.store.restore(recipe), data)
        self.assertEqual(fake.violations, [])
        self.assertGreater(len(recipe.chunks), 2 * 4_096)

    def test_commits_come_in_between(self):
        recipe = self.open(commit_bytes=8 * CHUNK_BYTES).upload(content(4 << 20), b"file")
        self.assert_told(recipe)
        self.assertGreater(self.fake.counts["commit"], 5)

    def test_an_answer_that_is_too_long_ends_the_stream(self):
        def too_long(stream):
            # PRO-71, of a field that is otherwise passed over (CLI-10).
            stream._answers.append(pb.UploadAnswer.FromString(b"\xa2\x06\x80\x80\x80\x01" + bytes(2 << 20)))

        self.fake.faults = {("data", 1): too_long}
        with self.assertRaises(kerf.Refused) as caught:
            self.open().upload(b"x", b"file")
        self.assertEqual((caught.exception.code, len(self.fake.opens)), ("RESOURCE_EXHAUSTED", 1))

    def test_a_server_with_too_little_is_refused(self):
        for limit, value in (("max_uncommitted_chunks", 100), ("max_commit_entries", 15), ("max_message_bytes", 1)):
            fake = self.new_fake()
            setattr(fake.limits, limit, value)
            with self.assertRaisesRegex(kerf.Refused, str(value)):
                self.open([fake.address]).upload(b"x", b"file")


class WrongAnswersTest(ClientTest):
    """COL-10: an answer that is not of the bytes that were sent is believed by nobody. Another stream is tried, once."""

    def upload_with(self, change=None, done=None, only=None):
        """`only` the n-th answer is wrong; else each is."""
        count = 0

        def changed(chunk):
            nonlocal count
            count += 1
            return change(chunk) if change and only in (None, count) else chunk

        self.fake.change = changed
        if done:
            self.fake.change_done = done
        data = content(20 * CHUNK_BYTES)
        recipe = self.open().upload(Reader(data), b"file")
        return data, recipe

    CHANGES = {
        "check": lambda chunk: pb.Chunk(end_offset=chunk.end_offset, digest=chunk.digest, verdict=chunk.verdict,
                                        check=chunk.check ^ 1),
        "digest": lambda chunk: pb.Chunk(end_offset=chunk.end_offset, digest=sha256(chunk.digest), verdict=chunk.verdict,
                                         check=chunk.check),
        "digest length": lambda chunk: pb.Chunk(end_offset=chunk.end_offset, digest=chunk.digest[:20], verdict=chunk.verdict,
                                                check=chunk.check),
        "shorter": lambda chunk: pb.Chunk(end_offset=chunk.end_offset - 1, digest=chunk.digest, verdict=chunk.verdict,
                                          check=chunk.check),
        "empty": lambda chunk: pb.Chunk(end_offset=chunk.end_offset - CHUNK_BYTES, digest=chunk.digest,
                                        verdict=chunk.verdict, check=chunk.check),
        "beyond what was sent": lambda chunk: pb.Chunk(end_offset=chunk.end_offset + (1 << 30), digest=chunk.digest,
                                                       verdict=chunk.verdict, check=chunk.check),
        "left out": lambda chunk: None,
    }

    def test_once_is_another_stream(self):
        for name, change in self.CHANGES.items():
            with self.subTest(name):
                self.store.content.clear()
                self.fake.index.entries.clear()
                before = len(self.fake.opens)
                data, recipe = self.upload_with(change, only=4)
                self.assertEqual(self.store.restore(recipe), data)
                self.assertEqual(len(self.fake.opens) - before, 2)
                self.assert_told(recipe)

    def test_twice_is_the_end(self):
        for name, change in self.CHANGES.items():
            if name == "left out":
                # Of all answers: the server says nothing at all.
                continue
            with self.subTest(name):
                with self.assertRaises(kerf.Disagreement):
                    self.upload_with(change)
                for digest, data in self.store.content.values():
                    self.assertEqual(digest, sha256(data))

    def test_a_chunk_of_nothing(self):
        def one_more(stream):
            chunks = stream._answers[-1].chunks.chunks
            chunks.append(pb.Chunk(end_offset=chunks[-1].end_offset, digest=sha256(b""), verdict=pb.VERDICT_NEW,
                                   check=kerf.digests.check_of(b"")))

        self.fake.faults = {("chunks", 1): one_more}
        data, recipe = self.upload_with()
        self.assertEqual(self.store.restore(recipe), data)
        self.assertTrue(all(chunk.length for chunk in recipe.chunks))

    def test_a_wrong_duplicate_is_wrong_as_well(self):
        self.fake.verdict = lambda digest, verdict: pb.VERDICT_DUPLICATE
        for name in ("check", "digest"):
            with self.assertRaises(kerf.Disagreement, msg=name):
                self.upload_with(self.CHANGES[name])

    def test_out_of_order(self):
        held = []

        def swapped(chunk):
            held.append(chunk)
            return None if len(held) % 2 else held[-1]

        with self.assertRaises(kerf.Disagreement):
            self.upload_with(swapped)

    def test_of_a_file_whose_chunks_are_all_compared_no_other_word_counts(self):
        for done in (lambda done: pb.FileDone(file_number=done.file_number, size_bytes=done.size_bytes - 1),
                     lambda done: pb.FileDone(file_number=done.file_number + 1, size_bytes=done.size_bytes)):
            data, recipe = self.upload_with(done=done)
            self.assertEqual(self.store.restore(recipe), data)

    def test_behind_the_last_chunk_no_status_counts(self):
        for reason, code in (("NOT_YOURS", "PERMISSION_DENIED"), ("INTERNAL", "INTERNAL"), ("DRAINING", "UNAVAILABLE")):
            with self.subTest(reason):
                self.setUp()
                self.fake.faults = {("chunks", 1): fail(code, reason)}
                client = self.open()
                data = content(2 * CHUNK_BYTES)
                recipe = client.upload(Reader(data), b"file")
                self.assertEqual(self.store.restore(recipe), data)
                self.assert_told(recipe)
                self.assertEqual((len(self.fake.opens), len(client.warnings)), (1, int(reason == "NOT_YOURS")))
        # But not that a collection ran: verdicts of before count no more (COL-23).
        self.setUp()
        self.fake.faults = {("chunks", 1): fail("FAILED_PRECONDITION", "EPOCH_BEHIND")}
        with self.assertRaises(kerf.EpochBehind):
            self.open().upload(Reader(content(2 * CHUNK_BYTES)), b"file")

    def test_answers_of_another_file(self):
        def other(stream):
            stream._answers[-1].chunks.file_number += 1

        self.fake.faults = {("chunks", number): other for number in range(1, 9)}
        with self.assertRaises(kerf.Disagreement):
            self.upload_with()

    def test_too_few_bytes(self):
        """The last chunk is never answered, and the file is done all the same."""
        self.open().upload(content(20 * CHUNK_BYTES), b"file")
        with self.assertRaisesRegex(kerf.Disagreement, "FileDone behind 19456 bytes of 20480"):
            self.upload_with(lambda chunk: None if chunk.end_offset == 20 * CHUNK_BYTES else chunk)


if __name__ == "__main__":
    unittest.main()
