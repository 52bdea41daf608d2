"""Streams that are lost, refused or silent: an upload goes on where it was, or ends with the class of its error."""

import ctypes
import os
import sys
import threading
import time
import unittest
from unittest import mock

import kerf
from fake import babble, fail, go_away, kill, silence
from kerf.channel import Address
from kerf.errors import Action, Failure
from kerf.patience import Cancellation, Patience, Servers
from kerf.v1 import chunking_pb2 as pb
from testing import CHUNK_BYTES, ClientTest, Reader, Seeking, content

# docs/spec/protocol.md, Errors: the code, and what the last column says.
RETRIED = {
    "TOO_MANY_UNCOMMITTED_CHUNKS": "RESOURCE_EXHAUSTED", "TOO_MANY_UNCOMMITTED_FILES": "RESOURCE_EXHAUSTED",
    "TOO_MANY_STREAMS": "RESOURCE_EXHAUSTED", "NO_WORKER": "UNAVAILABLE", "WORKER_UNREACHABLE": "UNAVAILABLE",
    "MEMORY_EXHAUSTED": "RESOURCE_EXHAUSTED", "DRAINING": "UNAVAILABLE", "OPEN_TIMEOUT": "DEADLINE_EXCEEDED",
    "IDLE_TIMEOUT": "DEADLINE_EXCEEDED", "IDLE_EVICTED": "UNAVAILABLE", "READ_STALLED": "DEADLINE_EXCEEDED",
    "INDEX_UNAVAILABLE": "UNAVAILABLE", "INDEX_FULL": "RESOURCE_EXHAUSTED", "AUDIT_UNAVAILABLE": "UNAVAILABLE",
}
FINAL = {
    "MALFORMED_MESSAGE": "INVALID_ARGUMENT", "MESSAGE_TOO_LARGE": "RESOURCE_EXHAUSTED", "FRAME_ORDER": "INVALID_ARGUMENT",
    "BAD_FIELD": "INVALID_ARGUMENT", "UNKNOWN_DIGEST": "INVALID_ARGUMENT", "UNFINISHED_FILE": "INVALID_ARGUMENT",
    "PROFILE_TOO_LARGE": "FAILED_PRECONDITION", "CRITERION_NEEDS_HINTS": "FAILED_PRECONDITION",
    "DIGEST_ALGORITHM_MISMATCH": "FAILED_PRECONDITION",
    "SIZE_MISMATCH": "OUT_OF_RANGE", "OFFSET_TOO_LARGE": "OUT_OF_RANGE", "TOO_MANY_ENTRIES": "RESOURCE_EXHAUSTED",
    "FRONT_BEHIND_FRONT": "FAILED_PRECONDITION", "UNKNOWN_CALLER": "UNAUTHENTICATED", "NOT_YOURS": "PERMISSION_DENIED",
    "QUOTA_EXCEEDED": "RESOURCE_EXHAUSTED", "A_REASON_OF_TOMORROW": "UNAVAILABLE",
}
DATA = content(40 * CHUNK_BYTES + 7)


class LostStreamsTest(ClientTest):
    def setUp(self):
        super().setUp()
        # So that a file is many messages.
        self.fake.limits.max_message_bytes = 8 << 10

    def upload(self, **options):
        reader = Reader(DATA)
        with self.open(**{"commit_bytes": 8 << 10, **options}) as client:
            recipe = client.upload(reader, b"file")
        self.assertEqual(self.store.restore(recipe), DATA)
        return recipe

    def test_every_moment_is_survived(self):
        for event, count in (("opened", 1), ("data", 10), ("chunks", 9), ("commit", 4), ("end", 1)):
            for number in range(1, count + 1):
                for name, act in (("kill", kill), ("go away", go_away), ("evict", fail("UNAVAILABLE", "IDLE_EVICTED"))):
                    with self.subTest(event=event, number=number, how=name):
                        self.setUp_again()
                        self.fake.faults = {(event, number): act}
                        started = time.monotonic()
                        recipe = self.upload()
                        # Not by silence.
                        self.assertLess(time.monotonic() - started, 6)
                        self.assertGreaterEqual(len(self.fake.opens), 2 if event != "commit" else 1)
                        self.assertEqual((recipe.new_bytes, recipe.untold_chunks), (len(DATA), 0))
                        self.assert_told(recipe)

    def setUp_again(self):
        self.fake.index.entries.clear()
        self.fake.counts.clear()
        self.fake.opens.clear()
        self.store.content.clear()

    def test_many_losses_one_behind_the_other(self):
        self.fake.faults = {("data", number): kill for number in range(2, 40, 3)}
        recipe = self.upload()
        self.assertGreater(len(self.fake.opens), 5)
        self.assert_told(recipe)

    def test_only_what_was_not_answered_is_sent_again(self):
        self.fake.faults = {("data", 6): kill}
        self.upload()
        sent = self.fake.counts["data"] * (4 << 10)
        self.assertLess(sent, len(DATA) + (16 << 10))

    def test_col_34_what_was_pending_is_told_by_a_call_in_the_epoch_of_its_session(self):
        self.store.current_epoch = 5
        self.fake.faults = {("data", 6): kill}
        recipe = self.upload(window_bytes=1, commit_bytes=1 << 20)
        self.assertGreater(len(self.fake.late_commits), 0)
        self.assertEqual({epoch for epoch, _, _ in self.fake.late_commits}, {5})
        self.assert_told(recipe)

    def test_who_cannot_be_told_costs_no_recipe(self):
        self.fake.faults = {("data", 6): kill,
                            **{("CommitChunks", number): fail("PERMISSION_DENIED", "NOT_YOURS") for number in range(1, 9)}}
        client = self.open()
        recipe = client.upload(Reader(DATA), b"file")
        self.assertEqual(self.store.restore(recipe), DATA)
        self.assertGreater(recipe.untold_chunks, 0)
        self.assertIn("NOT_YOURS", "".join(client.warnings))

    def test_a_commit_that_was_not_answered_is_told_again(self):
        def lose_answer(stream):
            stream.fake.index.commit(1, [], replaces=False)
            kill(stream)

        self.fake.faults = {("commit", 1): lose_answer}
        self.assert_told(self.upload())

    def test_each_reason_that_may_pass(self):
        for reason, code in RETRIED.items():
            for event in ("open", "data"):
                with self.subTest(reason, event=event):
                    self.setUp_again()
                    self.fake.faults = {(event, 1 if event == "open" else 4): fail(code, reason, delay_s=0.01)}
                    self.assert_told(self.upload())

    def test_statuses_of_grpcs_own(self):
        for code in ("UNAVAILABLE", "CANCELLED", "INTERNAL", "UNKNOWN", "DEADLINE_EXCEEDED"):
            with self.subTest(code):
                self.setUp_again()
                self.fake.faults = {("data", 4): fail(code, message="words that nobody reads")}
                self.assert_told(self.upload())
        for code in ("UNIMPLEMENTED", "RESOURCE_EXHAUSTED", "UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT"):
            with self.subTest(code):
                self.setUp_again()
                self.fake.faults = {("data", 4): fail(code)}
                with self.assertRaises(kerf.Refused):
                    self.upload()
                self.assertEqual(len(self.fake.opens), 1)

    def test_each_reason_that_is_final(self):
        for reason, code in FINAL.items():
            with self.subTest(reason):
                self.setUp_again()
                self.fake.faults = {("data", 4): fail(code, reason)}
                with self.assertRaisesRegex(kerf.Refused, reason) as caught:
                    self.upload()
                self.assertEqual((caught.exception.reason, caught.exception.code), (reason, code))
                self.assertRegex(caught.exception.request_id, "^[0-9a-f]{32}$")
                self.assertEqual(len(self.fake.opens), 1)

    def test_once(self):
        for reason, code, event, again in (("INTERNAL", "INTERNAL", ("data", 4), ("data", 6)),
                                           ("CONTENT_MISMATCH", "DATA_LOSS", ("end", 1), ("end", 2))):
            with self.subTest(reason):
                self.setUp_again()
                # Of a CONTENT_MISMATCH nothing may have been answered (CLI-39).
                self.fake.lag_bytes = (1 << 30) if event[0] == "end" else self.fake.lag_bytes
                self.fake.faults = {event: fail(code, reason)}
                self.assert_told(self.upload())
                self.setUp_again()
                self.fake.faults = {one: fail(code, reason) for one in (event, again)}
                with self.assertRaisesRegex(kerf.Refused, f"{reason}.*second time"):
                    self.upload()
                self.assertEqual(len(self.fake.opens), 2)

    def test_cli_39_behind_a_mismatch_nothing_goes_on_of_which_a_part_was_answered(self):
        for data, lag_bytes, name in ((DATA, self.fake.lag_bytes, "in part"), (DATA[:-7], CHUNK_BYTES, "all of it")):
            with self.subTest(name):
                self.setUp_again()
                self.fake.lag_bytes = lag_bytes
                self.fake.faults = {("end", 1): fail("DATA_LOSS", "CONTENT_MISMATCH")}
                with self.open() as client, self.assertRaisesRegex(kerf.Refused, "a part of it was answered") as caught:
                    client.upload(Reader(data), b"file")
                self.assertEqual(caught.exception.reason, "CONTENT_MISMATCH")
                self.assertEqual(len(self.fake.opens), 1)

    def test_cli_39_what_has_changed_while_it_waited_is_not_sent_again(self):
        """Memory that is broken: the server is told the hash of what the bytes are by then, and would find nothing wrong."""
        class Keeping(Reader):
            kept: list[bytes] = []

            def read(self, size):
                self.kept.append(super().read(size))
                return self.kept[-1]

        def flip(stream):
            first = (ctypes.c_char * 1).from_address(id(Keeping.kept[0]) + sys.getsizeof(b"") - 1)
            first[0] = bytes([first[0][0] ^ 1])
            kill(stream)

        self.fake.lag_bytes = 1 << 30
        self.fake.faults = {("data", 3): flip}
        with self.open() as client, self.assertRaisesRegex(kerf.Refused, "are not those that were read"):
            client.upload(Keeping(DATA), b"file")
        self.assertEqual(self.store.content, {})

    def test_a_quota_with_a_delay_passes(self):
        self.fake.faults = {("data", 4): fail("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", delay_s=0.01)}
        self.assert_told(self.upload())

    def test_a_full_repository_is_a_warning(self):
        self.fake.faults = {("half_close", 1): fail("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")}
        client = self.open()
        recipe = client.upload(Reader(DATA), b"file")
        client.close()
        self.assertEqual(self.store.restore(recipe), DATA)
        self.assertIn("no room", client.warnings[0])

    def test_silence_is_a_loss_and_its_worker_is_avoided(self):
        self.fake.faults = {("data", 4): silence}
        started = time.monotonic()
        self.assert_told(self.upload(silence_s=0.5))
        self.assertLess(time.monotonic() - started, 10)
        avoided = [dict(metadata).get("kerf-avoid-worker-bin") for metadata in self.fake.metadata]
        self.assertEqual([name for name in avoided if name], [b"fake-worker"])

    def test_cli_42_whoever_says_nothing_in_many_messages_is_silent(self):
        for name, answers in (("none", ()), ("one of tomorrow", (pb.UploadAnswer(),)),
                              ("no chunks", (pb.UploadAnswer(chunks=pb.Chunks(file_number=1)),))):
            with self.subTest(name):
                self.setUp_again()
                self.fake.faults = {("data", 4): babble(*answers)}
                self.assert_told(self.upload(silence_s=2, retry_for_s=60))
                self.assertGreaterEqual(len(self.fake.opens), 2)
        with self.subTest("before Opened"):
            self.setUp_again()
            self.fake.faults = {("open", 1): babble(pb.UploadAnswer())}
            with self.assertRaisesRegex(kerf.Retryable, "silent"):
                self.upload(silence_s=2)

    def test_workers_that_a_client_avoids(self):
        for reason in ("INDEX_UNAVAILABLE", "AUDIT_UNAVAILABLE", "WORKER_UNREACHABLE", "MEMORY_EXHAUSTED"):
            with self.subTest(reason):
                self.setUp_again()
                self.fake.metadata.clear()
                self.fake.faults = {("data", 4): fail("UNAVAILABLE", reason, worker="one"),
                                    ("data", 8): fail("UNAVAILABLE", reason, worker="two")}
                self.upload(window_bytes=1)
                avoided = [name for metadata in self.fake.metadata for key, name in metadata if key == "kerf-avoid-worker-bin"]
                # Until a chunk is answered: so each stream is the first one again.
                self.assertEqual(avoided, [b"one", b"two"] if reason != "MEMORY_EXHAUSTED" else [])

    def test_rou_7_what_is_no_name_is_told_to_nobody(self):
        """Longer than that of any worker: eight of them would be more than a server takes of metadata."""
        self.fake.faults = {("data", 4): fail("UNAVAILABLE", "INDEX_UNAVAILABLE", worker="x" * 1_000)}
        self.assert_told(self.upload(window_bytes=1))
        self.assertFalse([key for metadata in self.fake.metadata for key, _ in metadata if key == "kerf-avoid-worker-bin"])

    def test_a_stream_that_ended_between_files_costs_nothing(self):
        client = self.open()
        client.upload(b"one", b"file")
        self.fake._server.stop(0).wait()
        again = self.new_fake(address=self.fake.address)
        recipe = client.upload(DATA, b"file")
        self.assertEqual(self.store.restore(recipe), DATA)
        self.assertEqual(len(again.opens), 1)

    def test_the_next_server_of_the_list(self):
        nobody = f"unix:{os.path.dirname(self.fake.address.removeprefix('unix:'))}/nobody"
        self.assert_told(self.upload(servers=[nobody, self.fake.address]))
        with self.assertRaises(kerf.Retryable) as caught:
            self.open([nobody, nobody]).upload(DATA, b"file")
        self.assertIn("no server has answered yet", str(caught.exception))

    def test_who_gives_up_says_so_and_when(self):
        self.fake.faults = {("data", number): kill for number in range(1, 400)}
        started = time.monotonic()
        with self.assertRaisesRegex(kerf.Retryable, "given up after"):
            self.upload(retry_for_s=0.3)
        self.assertLess(time.monotonic() - started, 5)

    def test_only_an_answered_chunk_is_progress(self):
        """A server that opens streams, and says something, and no chunk."""
        def a_word_and_no_chunk(stream):
            stream._answers.append(pb.UploadAnswer())
            kill(stream)

        self.fake.lag_bytes = 1 << 30
        self.fake.faults = {("data", number): a_word_and_no_chunk for number in range(1, 400)}
        started = time.monotonic()
        with self.assertRaisesRegex(kerf.Retryable, "given up after"):
            self.upload(retry_for_s=0.3)
        self.assertLess(time.monotonic() - started, 5)

    def test_time_that_the_reader_takes_is_not_the_servers(self):
        class Slow(Reader):
            def read(self, size):
                if self.offset:
                    time.sleep(0.4)
                return super().read(size)

        self.fake.faults = {("data", number): kill for number in (2, 4)}
        recipe = self.open(retry_for_s=0.2).upload(Slow(DATA[:12 << 10], most=4 << 10), b"file")
        self.assertEqual(self.store.restore(recipe), DATA[:12 << 10])

    def test_time_that_the_store_takes_is_no_silence(self):
        def slow(event):
            if event == "put" and len(self.store.volatile) == 3:
                time.sleep(1.2)

        self.store.before = slow
        # The server's next answer comes a little later.
        self.fake.faults = {("data", number): lambda _: time.sleep(0.3) for number in range(2, 11)}
        self.upload(silence_s=1, window_bytes=1)
        self.assertEqual(len(self.fake.opens), 1)

    def test_cancelled_by_another_thread(self):
        self.fake.faults = {("data", 3): silence}
        cancellation = kerf.Cancellation()
        client = self.open(silence_s=60)
        threading.Timer(0.3, cancellation.cancel).start()
        started = time.monotonic()
        with self.assertRaises(kerf.Cancelled):
            client.upload(DATA, b"file", cancellation=cancellation)
        self.assertLess(time.monotonic() - started, 5)
        self.assertEqual(self.store.restore(client.upload(DATA, b"file")), DATA)


    def test_cancelled_while_it_waits_for_its_turn(self):
        self.fake.faults = {("data", 1): silence}
        first, second = kerf.Cancellation(), kerf.Cancellation()
        client = self.open(silence_s=60)

        def upload_silently():
            with self.assertRaises(kerf.Cancelled):
                client.upload(DATA, b"first", cancellation=first)

        thread = threading.Thread(target=upload_silently)
        thread.start()
        while not self.fake.counts["data"]:
            time.sleep(0.01)
        threading.Timer(0.3, second.cancel).start()
        started = time.monotonic()
        with self.assertRaises(kerf.Cancelled):
            client.upload(DATA, b"second", cancellation=second)
        self.assertLess(time.monotonic() - started, 20)
        first.cancel()
        thread.join()
        self.assertEqual(self.store.restore(client.upload(DATA, b"file")), DATA)


class EpochTest(ClientTest):
    """COL-22 to COL-24."""

    def setUp(self):
        super().setUp()
        self.fake.limits.max_message_bytes = 8 << 10

    def raised(self, epoch, store_epoch=None):
        """A fault: a collection has fenced the index, and raised the store's epoch."""
        def act(_):
            self.store.current_epoch = store_epoch or epoch
            self.fake.index.epoch = epoch
        return act

    def test_all_is_begun_again_in_the_new_epoch(self):
        for event, number in (("commit", 1), ("commit", 2), ("CommitChunks", 1)):
            with self.subTest(event=event, number=number):
                self.setUp()
                self.fake.faults = {(event, number): self.raised(2)}
                if event == "CommitChunks":
                    self.fake.faults["data", 6] = kill
                # So that the lost stream leaves something to be told.
                commit_bytes = 1 << 20 if event == "CommitChunks" else 8 << 10
                recipe = self.open(commit_bytes=commit_bytes).upload(Seeking(DATA), b"file")
                self.assertEqual(self.store.restore(recipe), DATA)
                self.assertEqual(recipe.seen, kerf.Seen(2, False))
                self.assertEqual(self.fake.opens[-1].store_epoch, 2)
                self.assertEqual(self.events("epoch", "plan")[-2:], ["epoch", "plan"])
                self.assert_told(recipe)
                self.tearDown()

    def test_col_22_entries_are_not_sent_again_under_another_epoch(self):
        """What the first session had placed is condemned by the plan that the second one has read."""
        def fence(_):
            self.raised(2)(_)
            self.store.content.update(self.store.volatile)
            self.store.current_plan = kerf.store.Plan(3, condemned=frozenset(self.store.content)).encode()

        self.fake.faults = {("commit", 2): fence}
        recipe = self.open(commit_bytes=8 << 10).upload(Seeking(DATA), b"file")
        condemned = kerf.store.Plan.decode(self.store.current_plan).condemned
        told = {locator for epoch, _, locator in [*self.fake.commits, *self.fake.late_commits] if epoch == 2}
        self.assertFalse(told & condemned)
        self.assertGreaterEqual(recipe.new_chunks, len(condemned))

    def test_what_cannot_be_read_again_is_the_callers(self):
        self.fake.faults = {("commit", 2): self.raised(2)}
        client = self.open(commit_bytes=8 << 10)
        with self.assertRaises(kerf.EpochBehind) as caught:
            client.upload(Reader(DATA), b"file")
        self.assertFalse(caught.exception.is_set_back)
        recipe = client.upload(Reader(DATA), b"file")
        self.assertEqual((self.store.restore(recipe), recipe.seen.epoch), (DATA, 2))

    def test_col_24_a_store_that_was_set_back_is_said_and_not_mended_by_an_agent(self):
        self.fake.index.epoch = 9
        with self.assertRaisesRegex(kerf.EpochBehind, "a collection has to run") as caught:
            self.open().upload(Seeking(DATA), b"file")
        self.assertTrue(caught.exception.is_set_back)
        self.assertEqual(self.events("advance", "raise"), [])
        # COL-4: nor is the epoch taken from anywhere else.
        self.assertEqual({opened.store_epoch for opened in self.fake.opens}, {1})

    def test_it_is_not_begun_again_for_ever(self):
        for number in range(1, 20):
            self.fake.faults["commit", number] = self.raised(number + 1)
        with self.assertRaises(kerf.EpochBehind):
            self.open().upload(Seeking(DATA), b"file")
        self.assertEqual(len(self.fake.opens), 3)


class PatienceTest(unittest.TestCase):
    def waits(self, retry_for_s, failures, is_met=True):
        servers = Servers([Address.parse("a"), Address.parse("b")])
        servers.is_met = is_met
        now, waits, asked = 0.0, [], []
        cancellation = Cancellation()

        def sleep(seconds):
            nonlocal now
            waits.append(seconds)
            now += seconds

        cancellation.sleep = sleep
        with mock.patch("time.monotonic", lambda: now):
            patience = Patience(servers, retry_for_s, cancellation)
            try:
                for failure in failures:
                    asked.append(patience.server.text[0])
                    patience.next(failure)
            except kerf.Error as error:
                return waits, asked, error
        return waits, asked, None

    def test_waits_grow_to_20_s_and_are_jittered_by_half(self):
        waits, asked, _ = self.waits(300, [Failure(Action.RETRY, "x")] * 9)
        for wait, whole in zip(waits, (0.5, 1, 2, 4, 8, 16, 20, 20, 20), strict=True):
            self.assertTrue(whole / 2 <= wait <= whole, (wait, whole))
        self.assertEqual("".join(asked), "ababababa")
        again, _, _ = self.waits(300, [Failure(Action.RETRY, "x")] * 9)
        self.assertNotEqual(waits, again)

    def test_retry_info_comes_first(self):
        waits, _, _ = self.waits(300, [Failure(Action.RETRY, "x", delay_s=7)])
        self.assertEqual(waits, [7])

    def test_it_ends(self):
        waits, _, error = self.waits(60, [Failure(Action.RETRY, "x")] * 99)
        self.assertIsInstance(error, kerf.Retryable)
        self.assertLessEqual(sum(waits), 60)
        self.assertGreater(sum(waits), 35)

    def test_nobody_who_was_never_met_is_waited_for(self):
        waits, asked, error = self.waits(300, [Failure(Action.RETRY, "x")] * 9, is_met=False)
        self.assertEqual((waits, asked), ([0.0], ["a", "b"]))
        self.assertIsInstance(error, kerf.Retryable)


if __name__ == "__main__":
    unittest.main()
