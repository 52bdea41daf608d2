"""What the tests of the client have in common."""

import os
import random
import unittest
from unittest import mock

import kerf
from fake import CHUNK_BYTES, Fake
from memory_store import MemoryStore

SEED = int(os.environ.get("KERF_TEST_SEED", "1"))


def content(size, seed=SEED):
    return random.Random(seed).randbytes(size)


class Reader:
    """Not seekable; says how much was read."""

    def __init__(self, data, most=1 << 30):
        self.data, self.offset, self.most = data, 0, most

    def read(self, size):
        begin = self.offset
        self.offset = min(len(self.data), begin + min(size, self.most))
        return self.data[begin:self.offset]


class Seeking(Reader):
    def seekable(self):
        return True

    def tell(self):
        return self.offset

    def seek(self, offset):
        self.offset = offset


class ClientTest(unittest.TestCase):
    """With a fake server and a store in memory, which write into one log. Whatever a test does, the server must have seen
    nothing that the documents forbid."""

    def setUp(self):
        for name, value in (("FIRST_WAIT_S", 0.002), ("LONGEST_WAIT_S", 0.02)):
            self.enterContext(mock.patch(f"kerf.patience.{name}", value))
        self.log = []
        self.store = MemoryStore(self.log)
        self.fake = self.new_fake()

    def tearDown(self):
        self.assertEqual(self.fake.violations, [])

    def new_fake(self, **options):
        fake = Fake(self.log, **options)
        fake.is_durable = self.store.is_durable
        self.addCleanup(fake.close)
        return fake

    def open(self, servers=None, store=None, **options):
        options = {"digest": "sha256", "retry_for_s": 3, "late_for_s": 0.5, "silence_s": 8, "streams": 1, **options}
        client = kerf.open(servers or [self.fake.address], "tests", store or self.store, **options)
        self.addCleanup(client.close)
        return client

    def events(self, *names):
        return [event for event in self.log if event.split()[0] in names]

    def assert_told(self, recipe):
        """The index knows the recipe's chunks, at places that are durable."""
        for chunk in recipe.chunks:
            entry = self.fake.index.entries[chunk.digest]
            self.assertTrue(self.store.is_durable(chunk.digest, entry.locator))
            self.assertEqual(entry.length, chunk.length)


__all__ = ["CHUNK_BYTES", "ClientTest", "Reader", "SEED", "Seeking", "content"]
