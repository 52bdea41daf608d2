"""Collections: their order, what they do beside agents at every moment, when they die at any, and with an index that has
gone back. docs/spec/collection.md, COL-40 to COL-61."""

import contextlib
import hashlib
import random
import threading
import time
import types
import unittest
import unittest.mock

import kerf
from fake import fail
from kerf.collect import Collector
from kerf.patience import Cancellation
from testing import CHUNK_BYTES, SEED, ClientTest, Seeking, content

DEAD, LIVE, FRESH = content(3 * CHUNK_BYTES, 11), content(2 * CHUNK_BYTES, 12), content(2 * CHUNK_BYTES, 13)
INDEX_CALLS = ("GetIndexStats", "CommitChunks", "ForgetChunks", "ForgetOlderChunks", "AdvanceEpoch")


class Died(BaseException):
    """A process, and none of its exceptions."""


class Collecting(ClientTest):
    """A snapshot was forgotten: its own chunks are garbage."""

    def setUp(self):
        super().setUp()
        with self.open() as client:
            dead, live = client.upload(DEAD, b"dead"), client.upload(LIVE, b"live")
            client.snapshot("old", [dead, live])
        with self.open() as client:
            client.snapshot("new", [client.upload(LIVE, b"live")])
        del self.store.snapshots["old"]
        self.log.clear()

    def collect(self):
        with self.open() as client:
            return client.collect(self.store.roots)

    def back_up(self, name="agent", data=DEAD):
        """What an agent does, who begins again where he must."""
        for _ in range(5):
            with self.open() as client:
                try:
                    client.snapshot(name, [client.upload(Seeking(data), b"agent")])
                    return
                except kerf.ChunksLost:
                    pass
        self.fail("an agent that never gets through")

    def assert_sound(self):
        """Each snapshot can be restored, and the index names nothing that is gone to whoever comes now."""
        for name in self.store.snapshots:
            self.store.restore_snapshot(name)
        here = {digest for digest, _ in self.store.content.values()}
        for digest, entry in self.fake.index.entries.items():
            verdict, _ = self.fake.index.verdict(digest, entry.length, self.store.current_epoch)
            self.assertTrue(verdict != 2 or digest in here, "a DUPLICATE of what is gone")

    def assert_believed(self):
        for digest, data in self.store.content.values():
            self.assertEqual(self.fake.index.verdict(digest, len(data), self.store.current_epoch)[0], 2)

    def at_moment(self, number, act):
        """`act` at the n-th thing that the collection does, in the store or at the index; how many there were."""
        count, is_busy = 0, False
        forward = type(self.fake).event

        def moment(*_):
            nonlocal count, is_busy
            if is_busy:
                return
            count += 1
            if count == number:
                is_busy = True
                try:
                    act()
                finally:
                    is_busy = False

        def at_server(name, stream=None):
            if name in INDEX_CALLS:
                moment()
            forward(self.fake, name, stream)

        self.store.before, self.fake.event = moment, at_server
        try:
            self.collect()
        finally:
            self.store.before = lambda event: None
            del self.fake.event
        return count


class CollectTest(Collecting):
    def test_what_no_snapshot_needs_goes(self):
        done = self.collect()
        self.assertEqual((done.deleted_chunks, done.deleted_bytes, done.kept_chunks, done.is_index_believed, done.epoch),
                         (3, len(DEAD), 2, True, 3))
        self.assertEqual(self.store.restore_snapshot("new"), {b"live": LIVE})
        self.assertEqual((self.store.current_epoch, self.fake.index.epoch, self.store.current_plan), (3, 3, None))
        self.assert_sound()
        self.assert_believed()
        again = self.collect()
        self.assertEqual((again.deleted_chunks, self.store.current_epoch), (0, 3))

    def test_the_order(self):
        self.collect()
        self.assertEqual(self.log, [
            "lock", "epoch", "plan", "stats", "roots", "chunks", "write_plan", "raise 2", "advance 2", "roots", "forget",
            "raise 3", "advance 3", "forget", "write_plan", "delete", "delete", "delete", "remove_plan", "unlock"])

    def test_col_40_one_at_a_time(self):
        self.store.is_locked = True
        with self.assertRaises(kerf.Retryable):
            self.collect()
        self.assertEqual(self.log, ["lock"])

    def test_col_43_no_index_is_followed_too_far(self):
        self.fake.index.epoch = 2**41 + 1
        with self.assertRaisesRegex(kerf.Refused, "operator"):
            self.collect()
        self.assertEqual((self.store.current_epoch, len(self.store.content)), (1, 5))

    def test_col_43_the_epoch_is_the_largest_of_all(self):
        for prepare, least in ((lambda: setattr(self.fake.index, "epoch", 40), 42),
                               (lambda: setattr(self.store, "current_plan", kerf.store.Plan(60).encode()), 62),
                               (lambda: setattr(self.store, "current_plan", b"x" * 99), 5)):
            with self.subTest(least):
                self.setUp()
                prepare()
                self.collect()
                self.assertGreaterEqual(self.store.current_epoch, least)
                self.assert_sound()
                self.assert_believed()

    def test_col_80_what_died_is_told_first(self):
        for has_gone_back, epoch in ((False, 6), (True, 5)):
            for is_refused in (False, True):
                with self.subTest(epoch, is_refused=is_refused):
                    self.setUp()
                    self.store.current_epoch, self.fake.index.epoch = 6, 4
                    self.store.current_plan = kerf.store.Plan(8, 4, has_gone_back).encode()
                    if is_refused:
                        self.fake.faults = {("AdvanceEpoch", 1): fail("PERMISSION_DENIED", "NOT_YOURS")}
                        with self.assertRaisesRegex(kerf.Refused, "NOT_YOURS"):
                            self.collect()
                        self.assertEqual(self.store.current_epoch, 6)
                        continue
                    self.collect()
                    self.assertEqual(self.events("advance")[0], f"advance {epoch}")
                    self.assert_sound()
                    self.assert_believed()

    def test_cli_28_a_plan_of_a_newer_version_stops_it(self):
        for text in (b'{"version": 2}', b"[]", b'{"version": 1}'):
            self.store.current_plan = hashlib.sha256(text).digest() + text
            with self.assertRaisesRegex(kerf.StoreError, "the plan is (of version 2|none)"):
                self.collect()
            self.assertEqual((self.store.current_epoch, len(self.store.content)), (1, 5))

    def test_cli_33_roots_that_are_no_digests_stop_it(self):
        for change in (lambda digest: digest.hex(), lambda digest: digest.hex().encode(), lambda digest: digest[:31]):
            with self.open() as client, self.assertRaisesRegex(kerf.StoreError, "a root"):
                client.collect(lambda change=change: map(change, self.store.roots()))
        self.store.content = {locator: (digest.hex().encode(), data) for locator, (digest, data) in self.store.content.items()}
        with self.assertRaisesRegex(kerf.StoreError, "a chunk"):
            self.collect()
        self.assertEqual(len(self.store.content), 5)

    def test_col_45_roots_that_cannot_be_read_stop_it(self):
        self.store.snapshots["new"] = b"rotten"
        with self.assertRaises(kerf.StoreError):
            self.collect()
        self.assertEqual((len(self.store.content), self.store.current_epoch, self.store.current_plan), (5, 1, None))

    def test_col_51_who_was_published_before_he_saw_the_plan_keeps_his_chunks(self):
        with self.open() as client:
            recipe = client.upload(DEAD, b"agent")

            def publish(event):
                if event == "write_plan":
                    self.store.before = lambda event: None
                    self.store.pending["agent"] = kerf.encode([recipe])

            self.store.before = publish
            self.collect()
        self.store.confirm("agent")
        self.assertEqual(self.store.restore_snapshot("agent"), {b"agent": DEAD})

    def test_col_52_a_call_that_fails_deletes_nothing(self):
        for number in (1, 2):
            self.setUp()
            self.fake.faults = {("ForgetChunks", number): fail("PERMISSION_DENIED", "NOT_YOURS")}
            with self.assertRaises(kerf.Refused):
                self.collect()
            self.assertEqual(len(self.store.content), 5)
            self.assertIsNotNone(self.store.current_plan)
            self.collect()
            self.assert_sound()
            self.assert_believed()

    def test_col_59_calls_are_made_again(self):
        for call in ("GetIndexStats", "ForgetChunks", "AdvanceEpoch"):
            for number in (1, 2):
                self.setUp()
                self.fake.faults = {(call, number): fail("UNAVAILABLE", "INDEX_UNAVAILABLE", delay_s=0.01)}
                self.assertTrue(self.collect().is_index_believed)
                self.assert_sound()

    # Beside agents.

    def test_an_agent_at_every_moment_of_a_collection(self):
        number, count = 1, 99
        while number <= count:
            with self.subTest(number):
                self.setUp()
                count = self.at_moment(number, self.back_up)
                self.assertEqual(self.store.restore_snapshot("agent"), {b"agent": DEAD})
                self.assert_sound()
                self.collect()
                self.assert_sound()
            number += 1
        self.assertGreater(number, 20)

    def test_an_agent_that_was_answered_before_and_publishes_at_every_moment(self):
        number, count = 1, 99
        while number <= count:
            with self.subTest(number):
                self.setUp()
                client = self.open()
                recipe = client.upload(DEAD, b"agent")

                def publish(client=client, recipe=recipe):
                    try:
                        client.snapshot("agent", [recipe])
                    except kerf.ChunksLost:
                        client.close()
                        self.back_up()

                count = self.at_moment(number, publish)
                self.assertEqual(self.store.restore_snapshot("agent"), {b"agent": DEAD})
                self.assert_sound()
            number += 1

    def test_two_moments_of_agents(self):
        """What one has stored at one moment another one counts on at a later one; some pairs by chance."""
        chance = random.Random(SEED)
        for _ in range(25):
            first, second = sorted(chance.sample(range(1, 24), 2))
            with self.subTest(first=first, second=second, seed=SEED):
                self.setUp()
                agents = [self.open(), self.open()]
                recipes = {}

                def act(moment, agents=agents, recipes=recipes):
                    try:
                        if moment == 1:
                            recipes.update(one=agents[0].upload(Seeking(DEAD + FRESH), b"agent"))
                            recipes.update(two=agents[1].upload(Seeking(DEAD), b"agent"))
                        else:
                            agents[0].snapshot("one", [recipes["one"]])
                            agents[1].snapshot("two", [recipes["two"]])
                    except kerf.ChunksLost:
                        self.back_up("again")

                self.at_moments({first: lambda: act(1), second: lambda: act(2)})
                for agent in agents:
                    agent.close()
                self.assert_sound()
                self.collect()
                self.assert_sound()

    def at_moments(self, acts):
        numbers = sorted(acts)
        count = 0

        def moment(*_):
            nonlocal count
            count += 1
            if count in acts:
                self.store.before = lambda event: None
                acts[count]()
                self.store.before = moment

        self.store.before = moment
        try:
            self.collect()
        finally:
            self.store.before = lambda event: None
        # What the collection did not live to see comes behind it.
        for number in numbers:
            if number > count:
                acts[number]()

    def test_a_collection_at_every_moment_of_an_upload(self):
        # An upload has so many things to do in the store, or fewer.
        for number in range(1, 22):
            with self.subTest(number):
                self.setUp()
                count = 0

                def moment(event, number=number):
                    nonlocal count
                    count += 1
                    if count == number:
                        self.store.before = lambda event: None
                        self.collect()

                self.store.before = moment
                self.back_up(data=DEAD + FRESH)
                self.store.before = lambda event: None
                self.assertEqual(self.store.restore_snapshot("agent"), {b"agent": DEAD + FRESH})
                self.assert_sound()
                self.collect()
                self.assert_sound()
                self.assert_believed()

    # That die.

    def test_one_that_dies_at_every_moment(self):
        number, died = 1, True
        while died:
            with self.subTest(number):
                self.setUp()
                count = 0

                def moment(event, number=number):
                    nonlocal count
                    count += 1
                    if count == number and event != "unlock":
                        self.store.before = lambda event: None
                        raise Died

                self.store.before = moment
                try:
                    self.collect()
                    died = False
                except Died:
                    died = True
                self.store.before = lambda event: None
                self.assert_sound()
                self.back_up()
                self.assert_sound()
                self.collect()
                self.assert_sound()
                self.assert_believed()
                self.assertIn(self.fake.index.epoch, (self.store.current_epoch, 0))
                self.assertIsNone(self.store.current_plan)
                self.assertEqual(self.store.restore_snapshot("agent"), {b"agent": DEAD})
            number += 1
        self.assertGreater(number, 15)

    def test_a_call_that_is_refused_ends_it_and_the_next_one_goes_on(self):
        for call in ("AdvanceEpoch", "ForgetChunks"):
            for number in (1, 2):
                with self.subTest(call, number=number):
                    self.setUp()
                    self.fake.faults = {(call, number): fail("PERMISSION_DENIED", "NOT_YOURS")}
                    with self.assertRaises(kerf.Refused):
                        self.collect()
                    self.assertEqual(len(self.store.content), 5)
                    self.assert_sound()
                    self.collect()
                    self.assert_sound()
                    self.assert_believed()


    def test_who_cancels_it_ends_a_call_that_is_not_answered(self):
        answered = threading.Event()
        self.addCleanup(answered.set)
        self.fake.faults = {("GetIndexStats", 1): lambda _: answered.wait(60)}
        cancellation = Cancellation()
        threading.Timer(0.3, cancellation.cancel).start()
        started = time.monotonic()
        with self.open() as client, self.assertRaises(kerf.Cancelled):
            client.collect(self.store.roots, cancellation=cancellation)
        self.assertLess(time.monotonic() - started, 20)
        self.assertFalse(self.store.is_locked)


class IndexThatGoesBackTest(Collecting):
    """COL-44, COL-50, COL-54, COL-60, COL-61."""

    def test_an_index_that_is_new_becomes_whole(self):
        self.collect()
        self.fake.index = type(self.fake.index)()
        done = self.collect()
        self.assertTrue(done.is_index_believed)
        self.assert_sound()
        self.assert_believed()
        self.assertEqual(self.fake.index.epoch, self.store.current_epoch)

    def test_cli_41_places_that_have_rotted_are_not_told(self):
        """An empty file, which no call takes, and a copy that was cut short, whichever of the two comes last."""
        first, second = (hashlib.sha256(LIVE[at:at + CHUNK_BYTES]).digest() for at in (0, CHUNK_BYTES))
        self.collect()
        self.store.has_of_length = self.store.has
        self.store.cut_short(first, 0)
        self.store.add(second, LIVE[CHUNK_BYTES:-1])
        self.fake.index = type(self.fake.index)()
        self.assertTrue(self.collect().is_index_believed)
        self.assertEqual(self.fake.index.entries, {})
        # So the next agent stores the one, finds the other, and tells both.
        self.back_up(data=LIVE)
        self.assertEqual({digest: self.fake.index.entries[digest].length for digest in (first, second)},
                         {first: CHUNK_BYTES, second: CHUNK_BYTES})

    def test_an_old_copy_is_not_believed(self):
        before = self.fake.index.copy()
        self.collect()
        self.fake.index = before
        self.assert_sound()
        self.collect()
        self.assert_sound()
        self.assert_believed()
        self.assertEqual(len(self.fake.index.entries), 2)
        # COL-60 (c) to (g).
        self.assertEqual(self.events("commit_chunks", "forget_older", "advance")[-5:], [
            "commit_chunks 6", "forget_older 4", "advance 5", "forget_older 4", "advance 6"])

    def test_col_50_one_that_goes_back_before_the_fence(self):
        before = self.fake.index.copy()
        self.collect()
        self.back_up("garbage", FRESH)
        del self.store.snapshots["garbage"]
        self.log.clear()

        def go_back(_):
            self.fake.index = before

        self.fake.counts.clear()
        self.fake.faults = {("AdvanceEpoch", 1): go_back}
        self.assertTrue(self.collect().is_index_believed)
        # The plan says so before the index is told anything: else it would look sound to who comes next.
        self.assertEqual(self.events("write_plan", "raise", "advance")[:6], [
            "write_plan", "raise 4", "advance 4", "write_plan", "raise 5", "advance 4"])
        self.assert_sound()
        self.assert_believed()

    def test_a_store_that_was_set_back(self):
        self.fake.index.epoch = 7
        with self.assertRaises(kerf.EpochBehind):
            with self.open() as client:
                client.upload(FRESH, b"file")
        self.collect()
        self.assertGreater(self.store.current_epoch, 7)
        self.assert_sound()
        self.assert_believed()
        self.back_up()

    def test_an_old_copy_at_every_moment(self):
        number, count = 1, 99
        while number <= count:
            with self.subTest(number):
                self.setUp()
                first = self.fake.index.copy()

                def go_back(first=first):
                    self.fake.index = first.copy()

                try:
                    count = self.at_moment(number, go_back)
                except kerf.Retryable:
                    pass
                self.assert_sound()
                self.back_up()
                self.assert_sound()
                self.collect()
                self.collect()
                self.assert_sound()
                self.assert_believed()
            number += 1
        self.assertGreater(number, 20)

    def test_col_54_somebody_commits_meanwhile(self):
        """What B commits between the fence and the last forgetting is forgotten, and then the index is asked again."""
        acts = []

        def late(event):
            if event == "raise 3" and not acts:
                acts.append(event)
                self.store.before = lambda event: None
                self.fake.index.commit(2, [(self.dead, CHUNK_BYTES, b"late")], replaces=False)

        live = {chunk.digest for recipe in kerf.decode(self.store.snapshots["new"]) for chunk in recipe.chunks}
        self.dead = next(digest for digest, _ in self.store.content.values() if digest not in live)
        self.store.before = late
        done = self.collect()
        self.assertTrue(done.is_index_believed)
        self.assertEqual(self.store.current_epoch, 4)
        self.assert_sound()
        self.assert_believed()

    def test_col_61_one_that_is_never_to_be_believed_is_left_behind(self):
        removed = type(self.fake.index).forget_older

        def never(index, *arguments):
            found = removed(index, *arguments)
            index.removed += 1
            return found

        self.fake.index.epoch = 0
        self.store.current_epoch = 5
        self.enterContext(unittest.mock.patch.object(type(self.fake.index), "forget_older", never))
        done = self.collect()
        self.assertFalse(done.is_index_believed)
        self.assertLess(self.fake.index.epoch, self.store.current_epoch)
        self.assertEqual(done.deleted_chunks, 3)
        self.assert_sound()

    def test_a_full_repository_is_gone_on_behind(self):
        self.collect()
        self.fake.index = type(self.fake.index)()
        self.fake.faults = {("CommitChunks", 1): fail("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")}
        self.assertTrue(self.collect().is_index_believed)
        self.assert_sound()

    def test_an_index_whose_pages_do_not_come_further_is_refused(self):
        page = types.SimpleNamespace(forgotten_count=0, removed_count=0, epoch=0, last=b"a")
        index = unittest.mock.Mock()
        index.forget_older.side_effect = [page, page, Died]
        collector = Collector(self.store, index, 32, contextlib.nullcontext(), 1.0, Cancellation())
        with self.assertRaisesRegex(kerf.Refused, "has not come further"):
            collector._forget_older()


if __name__ == "__main__":
    unittest.main()
