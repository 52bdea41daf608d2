"""Fronts, and workers that they do not reach."""

import signal

import upload
import world


class FrontsTest(world.RunbookTest):
    def setUp(self):
        super().setUp()
        self.index = self.redis()

    def worker(self, name="worker"):
        return self.start(name, "--role", "worker", "--worker-name", name, *self.index.flags())

    def front(self, *workers, name="front"):
        flags = [word for worker in workers for word in ("--workers", f"unix:{self.folder}/{worker}.sock")]
        return self.start(name, "--role", "front", "--worker-check-ms", "500", *flags)

    def live(self, front):
        return self.metric(front, "kerf_front_workers", state="live")

    def lost(self, front):
        return self.metric(front, "kerf_front_workers", state="lost")

    def test_NO_WORKER(self):
        front = self.front("worker")
        self.assertEqual(upload.whole(front.address), "NO_WORKER")
        self.assertNotEqual(self.run_kerf("ping", "--server", front.address).returncode, world.OK)
        self.says("`kerf top --server FRONT`")
        self.assertEqual(self.run_kerf("top", "--server", front.address, "--once").returncode, world.UNAVAILABLE)
        self.says("Start the workers")
        worker = self.worker()
        self.assertEqual(worker.get(self.says("/readyz"))[0], 200)
        self.until(lambda: self.live(front) == 1, "the front to find it")
        self.step("kerf ping --server FRONT", FRONT=front.address)
        self.back_up(front, ends=world.OK)

    def test_WORKER_UNREACHABLE(self):
        worker = self.worker("one")
        front = self.front("one", "two")
        self.until(lambda: self.live(front) == 1, "the front to find it")
        made = self.upload(front)
        made.until("opened")
        made.begin()
        made.data(b"x" * 100_000)
        worker.stop(signal.SIGKILL)
        end = made.end()
        self.assertEqual(end.reason, "WORKER_UNREACHABLE", str(end))
        self.says("The error's metadata `worker`")
        self.assertTrue(end.metadata["worker"])
        self.says("at another worker")
        self.worker("two")
        self.until(lambda: self.live(front) == 1, "the front to find the other one")
        self.back_up(front, ends=world.OK)
        done = self.kerf("top", "--server", front.address, "--once", ends=world.UNAVAILABLE)
        self.says("`kerf top --server FRONT --once`: whether that worker is back")
        self.assertIn("one", done.stdout)
        self.worker("one")
        self.until(lambda: self.lost(front) == 0, "it to be found again")
        self.back_up(front, ends=world.OK)

    def test_FRONT_BEHIND_FRONT(self):
        self.worker()
        inner = self.front("worker", name="inner")
        self.until(lambda: self.live_of(inner) == 1, "the inner front to find its worker")
        outer = self.front("inner", name="outer")
        made = self.upload(outer)
        end = made.end()
        self.says("with these words in it")
        self.assertIn(end.reason, ("NO_WORKER", "FRONT_BEHIND_FRONT"))
        self.assertIn("front", end.message)
        direct = self.upload(inner, metadata=(("kerf-front", "outer"),)).end()
        self.assertEqual(direct.reason, "FRONT_BEHIND_FRONT", str(direct))
        self.says("it names the worker that is a front")
        self.assertIn("inner.sock", end.message)
        self.says("Take the front out of `--workers`")
        self.says("Restart the front with the new setting")
        outer.stop()
        outer = self.front("worker", name="outer")
        self.until(lambda: self.live_of(outer) == 1, "the front to find the worker")
        self.step("kerf ping --server FRONT", FRONT=outer.address)
        self.says("`kerf top` lists each worker once")
        said = self.kerf("top", "--server", outer.address, "--once", "--json", ends=world.OK).stdout
        workers = [line for line in said.splitlines() if '"worker"' in line and '"state"' in line]
        self.assertEqual(len(workers), 1, workers)
        self.back_up(outer, ends=world.OK)

    def live_of(self, front):
        """Of a page that does not speak of it."""
        return int('kerf_front_workers{state="live"} 1' in front.metrics())

    def test_KerfFrontWithoutWorkers(self):
        worker = self.worker()
        front = self.front("worker")
        self.until(lambda: self.live(front) == 1, "the front to find it")
        before = front.metrics()
        # It listens where the front does not look.
        worker.stop()
        moved = self.start("moved", "--role", "worker", *self.index.flags())
        self.until(lambda: self.live(front) == 0, "it to be lost")
        self.expect_fires("KerfFrontWithoutWorkers", before, front.metrics())
        self.assertEqual(upload.whole(front.address), self.says("NO_WORKER"))
        self.says("it says of each worker why it is lost")
        self.assertTrue(front.has_logged("worker.sock"), "the log does not name the worker")
        self.says("Mend it")
        front.stop()
        front = self.front("moved")
        self.until(lambda: self.live(front) == 1, "the front to find it")
        self.expect_silent("KerfFrontWithoutWorkers", front.metrics(), front.metrics())
        self.back_up(front, ends=world.OK)
        self.assertEqual(moved.get("/readyz")[0], 200)

    def test_KerfWorkerLost(self):
        one, _ = self.worker("one"), self.worker("two")
        front = self.front("one", "two")
        self.until(lambda: self.front_has(front, "live", 2), "the front to find both")
        before = front.metrics()
        one.stop(signal.SIGKILL)
        self.until(lambda: self.lost(front) == 1, "it to be lost")
        self.expect_fires("KerfWorkerLost", before, front.metrics())
        self.says("The others have their files, so nothing stands still")
        self.back_up(front, ends=world.OK)
        self.says("`kerf top --server FRONT --once`: which one, and since when")
        done = self.kerf("top", "--server", front.address, "--once", ends=world.UNAVAILABLE)
        self.assertIn("one", done.stdout)
        self.says("take it out of `--workers`, and it is no longer looked for")
        front.stop()
        front = self.front("two")
        self.until(lambda: self.front_has(front, "live", 1), "the front to find the other one")
        self.assertEqual(self.lost(front), 0)
        self.expect_silent("KerfWorkerLost", front.metrics(), front.metrics())
        self.back_up(front, ends=world.OK)

    def front_has(self, front, state, count):
        return f'kerf_front_workers{{state="{state}"}} {count}' in front.metrics()

    def test_KerfNoWorkers(self):
        front = self.front("worker")
        self.expect_fires("KerfNoWorkers", front.metrics(), front.metrics())
        self.assertNotEqual(self.run_kerf("ping", "--server", front.address).returncode, world.OK)
        self.says("workers wait for Redis when they start, and say so")
        self.index.pause()
        worker = self.start("worker", "--role", "worker", *self.index.flags(), is_waited_for=False)
        self.until(lambda: worker.has_logged("Redis"), "it to say so")
        self.index.resume()
        self.until(lambda: 'role="worker"' in worker.metrics() and self.front_has(front, "live", 1), "the front to find it")
        self.says('`kerf_build_info{role="worker"}` has one line for each worker')
        self.expect_silent("KerfNoWorkers", worker.metrics(), worker.metrics())
        self.step("kerf ping --server FRONT", FRONT=front.address)
        self.back_up(front, ends=world.OK)
