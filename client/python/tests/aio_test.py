"""kerf.aio: the same, where nothing may wait."""

import asyncio
import inspect
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

    def test_it_has_the_same_options(self):
        def options_of(function):
            return {name: (found.kind, found.default, found.annotation) for name, found in inspect.signature(function).parameters.items()
                    if name != "store"}

        self.assertEqual(options_of(kerf.aio.open), options_of(kerf.open))

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

    async def test_those_that_wait_end_too(self):
        self.fake.faults = {("data", 1): silence}
        async with self.open_async(silence_s=60, streams=1) as client:
            # One runs, some wait in their threads for its stream, the others for a thread.
            running = [asyncio.create_task(client.upload(DATA, b"file")) for _ in range(6)]
            while not self.fake.counts["data"]:
                await asyncio.sleep(0.01)
            started = time.monotonic()
            for task in reversed(running):
                task.cancel()
            for task in running:
                with self.assertRaises(asyncio.CancelledError):
                    await task
            self.assertLess(time.monotonic() - started, 20)
            self.assertEqual(self.store.restore(await client.upload(DATA, b"file")), DATA)

    async def test_cli_36_of_a_store_of_coroutines(self):
        class Sized(AsyncStore):
            async def has_of_length(self, digest, length):
                await asyncio.sleep(0)
                return MemoryStore.has(self, digest, length)

        self.store = Sized(self.log)
        self.fake.is_durable = self.store.is_durable
        async with self.open_async() as client:
            recipe = await client.upload(DATA, b"file")
            self.store.cut_short(recipe.chunks[3].digest, 10)
            self.assertEqual((await client.upload(DATA, b"file")).new_chunks, 1)

    async def test_errors_are_the_same(self):
        self.fake.index.epoch = 9
        async with self.open_async() as client:
            with self.assertRaises(kerf.EpochBehind):
                await client.upload(DATA, b"file")


if __name__ == "__main__":
    unittest.main()
