"""kerf.aio: the same, where nothing may wait."""

import asyncio
import time
import unittest

import kerf.aio
from fake import silence
from memory_store import MemoryStore
from testing import CHUNK_BYTES, ClientTest, content

DATA = content(40 * CHUNK_BYTES)


class AsyncStore(MemoryStore):
    """Its callbacks are coroutines."""

    async def put(self, digest, data):
        await asyncio.sleep(0)
        return MemoryStore.put(self, digest, data)

    async def has(self, digest):
        await asyncio.sleep(0)
        return MemoryStore.has(self, digest)

    async def sync(self):
        await asyncio.sleep(0)
        MemoryStore.sync(self)


class AioTest(ClientTest, unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        super().setUp()
        self.store = AsyncStore(self.log)
        self.fake.is_durable = self.store.is_durable

    def open_async(self, **options):
        return kerf.aio.open([self.fake.address], "tests", self.store, **{"digest": "sha256", "retry_for_s": 3, **options})

    async def test_upload_snapshot_collect(self):
        async with self.open_async() as client:
            reader = asyncio.StreamReader()
            reader.feed_data(DATA)
            reader.feed_eof()
            first, second = await asyncio.gather(client.upload(reader, b"one"), client.upload(DATA[:9 * CHUNK_BYTES], b"two"))
            self.assertEqual(self.store.restore(first), DATA)
            await client.snapshot("monday", [second])
            self.assertEqual((await client.reuse(second)).chunks, second.chunks)
            done = await client.collect(self.store.roots)
            self.assertGreaterEqual(done.deleted_chunks, 31)
            self.assertEqual(self.store.restore_snapshot("monday"), {b"two": DATA[:9 * CHUNK_BYTES]})
            self.assertEqual(client.warnings, [])

    async def test_the_loop_never_waits(self):
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        self.fake.faults = {("data", 1): lambda _: time.sleep(0.5)}
        async with self.open_async() as client:
            ticking = asyncio.create_task(tick())
            await client.upload(DATA, b"file")
            ticking.cancel()
        self.assertGreater(ticks, 20)

    async def test_who_is_cancelled_ends_it(self):
        self.fake.faults = {("data", 1): silence}
        async with self.open_async(silence_s=60) as client:
            started = time.monotonic()
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(client.upload(DATA, b"file"), 0.3)
            # A reader that says nothing.
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(client.upload(asyncio.StreamReader(), b"file"), 0.3)
            self.assertLess(time.monotonic() - started, 5)
            self.assertEqual(self.store.restore(await client.upload(DATA, b"file")), DATA)

    async def test_errors_are_the_same(self):
        self.fake.index.epoch = 9
        async with self.open_async() as client:
            with self.assertRaises(kerf.EpochBehind):
                await client.upload(DATA, b"file")


if __name__ == "__main__":
    unittest.main()
