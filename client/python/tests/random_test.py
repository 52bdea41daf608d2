"""Whatever breaks, in whatever order: seeded. KERF_TEST_SEED=N replays the rounds of a seed, KERF_TEST_ROUNDS is how many."""

import os
import random
import unittest

import kerf
from fake import fail, go_away, kill
from kerf.v1 import chunking_pb2 as pb
from testing import CHUNK_BYTES, SEED, ClientTest, Seeking

ROUNDS = int(os.environ.get("KERF_TEST_ROUNDS", "40"))
EVENTS = ("opened", "data", "chunks", "commit", "end", "report", "CommitChunks")


class RandomTest(ClientTest):
    def faults(self, chance):
        acts = [kill, go_away, fail("UNAVAILABLE", "IDLE_EVICTED", delay_s=0), fail("RESOURCE_EXHAUSTED", "MEMORY_EXHAUSTED"),
                fail("DEADLINE_EXCEEDED", "IDLE_TIMEOUT"), self.fence]
        found = {}
        for _ in range(chance.randrange(6)):
            event, act = chance.choice(EVENTS), chance.choice(acts)
            if event in ("opened", "CommitChunks") and act is go_away:
                continue
            found[event, chance.randrange(1, 12)] = act
        return found

    def fence(self, _):
        """A collection that found nothing, and died behind its fence."""
        self.store.current_epoch += 1
        self.fake.index.advance(self.store.current_epoch, 0)

    def collect_at(self, numbers):
        """Whole ones, by another process, before these things that happen in the store."""
        count = 0

        def before(_):
            nonlocal count
            count += 1
            if count in numbers:
                self.store.before = lambda event: None
                faults, self.fake.faults = self.fake.faults, {}
                with self.open() as client:
                    client.collect(self.store.roots)
                self.fake.faults, self.store.before = faults, before

        self.store.before = before

    def spoil(self, chance):
        """What an index may say, and a store may have lost, without anybody's fault."""
        told = {pb.VERDICT_NEW: 0.1, pb.VERDICT_UNVERIFIED: 0.2}
        unsure = {digest: chance.choice(list(told)) for digest in self.fake.index.entries if chance.random() < 0.3}
        self.fake.verdict = lambda digest, verdict: unsure.get(digest, verdict) if verdict == pb.VERDICT_DUPLICATE else verdict
        needed = set(self.store.roots())
        for locator, (digest, _) in list(self.store.content.items()):
            if digest not in needed and chance.random() < 0.3:
                # An entry of it may stay: it is stale.
                del self.store.content[locator]
        # At most one wrong answer is one too few for a failure.
        wrong_at, count = chance.choice([None, chance.randrange(1, 60)]), 0

        def change(chunk):
            nonlocal count
            count += 1
            if count == wrong_at:
                chunk.check ^= 1
            return chunk

        self.fake.change = change

    def test_rounds(self):
        for number in range(int(os.environ.get("KERF_TEST_FIRST", "0")), ROUNDS):
            chance = random.Random(SEED * 1_000_003 + number)
            with self.subTest(seed=SEED, round=number):
                self.fake.limits.max_message_bytes = chance.choice((4 << 10, 8 << 10, 64 << 10))
                self.fake.lag_bytes = chance.choice((CHUNK_BYTES, 3 * CHUNK_BYTES))
                self.spoil(chance)
                files = {}
                for name in range(chance.randrange(1, 4)):
                    blocks = [chance.randbytes(CHUNK_BYTES) if chance.random() < 0.5 else bytes([chance.randrange(30)]) * CHUNK_BYTES
                              for _ in range(chance.randrange(30))]
                    files[b"%d" % name] = b"".join(blocks) + chance.randbytes(chance.randrange(CHUNK_BYTES))
                self.fake.counts.clear()
                self.fake.faults = self.faults(chance)
                self.collect_at([chance.randrange(1, 120) for _ in range(chance.randrange(3))])
                self.back_up(f"round-{number}", files, chance)
                self.fake.faults, self.store.before = {}, lambda event: None
                self.assertEqual(self.store.restore_snapshot(f"round-{number}"), files)
                for name in chance.sample(sorted(self.store.snapshots), min(3, len(self.store.snapshots))):
                    self.store.restore_snapshot(name)
                if chance.random() < 0.3:
                    del self.store.snapshots[chance.choice(sorted(self.store.snapshots))]

    def back_up(self, name, files, chance):
        options = {"commit_bytes": chance.choice((4 << 10, 1 << 20)), "window_bytes": chance.choice((1, 1 << 20))}
        for _ in range(9):
            with self.open(retry_for_s=10, **options) as client:
                try:
                    client.snapshot(name, [client.upload(Seeking(data), key) for key, data in files.items()])
                    return
                except (kerf.ChunksLost, kerf.EpochBehind):
                    pass
        self.fail("an agent that never gets through")


if __name__ == "__main__":
    unittest.main()
