"""The index: full, away, damaged, behind its store or before it."""

import os
import re
import shutil
import signal

import prometheus
import upload
import world

TMPFS_BYTES = 224 * world.MIB
# Less than kerfd leaves free on the disk of its index (docs/spec/index.md).
LOW_BYTES = 100 * world.MIB
PROFILE_WITH_HINTS = "fastcdc-8k+ff"
HINT_KEY_BYTES = 32
# Segments are of some hundred chunks.
HINTED_BYTES = 16 * world.MIB


class IndexTest(world.RunbookTest):
    def set_back(self, kerfd):
        """The store becomes an older copy of itself, from before a collection."""
        self.back_up(kerfd, ends=world.OK)
        old = self.folder / "old"
        shutil.copytree(self.store, old)
        self.kerf("index", "rebuild", "--store", self.store, "--server", kerfd.address, ends=world.OK)
        shutil.rmtree(self.store)
        shutil.copytree(old, self.store)

    def test_EPOCH_BEHIND(self):
        kerfd = self.start("kerfd", "--data-dir", self.folder / "data")
        self.set_back(kerfd)
        name = self.repository()
        self.assertEqual(upload.whole(kerfd.address, repository=name), "EPOCH_BEHIND")
        self.back_up(kerfd, ends=world.PARTIAL)
        self.assertEqual(self.summary("index", "stats", "--store", self.store, "--server", kerfd.address)["epoch_state"], "ahead")
        self.says("`kerf index stats --store DIR`")
        self.says("Until then `kerf gc` refuses it")
        gc = ("--retry-for", "0s")
        refused = self.run_kerf("gc", "--store", self.store, "--server", kerfd.address, *gc)
        self.assertNotEqual(refused.returncode, world.OK, refused.stdout)
        self.step("kerf repair --store DIR --accept-set-back --apply", DIR=self.store)
        self.step("kerf gc --store DIR --server ADDR", *gc, DIR=self.store, ADDR=kerfd.address)
        self.back_up(kerfd, ends=world.OK)
        self.says("`kerf index check` says so, too")
        self.kerf("index", "check", "--store", self.store, "--server", kerfd.address, ends=world.OK)

    def test_DIGEST_ALGORITHM_MISMATCH(self):
        kerfd = self.start("kerfd", "--data-dir", self.folder / "data")
        self.kerf("init", "--store", self.store, ends=world.OK)
        name = self.repository()
        self.kerf("repo", "create", name, "--digest", "sha256", "--server", kerfd.address, ends=world.OK)
        self.assertEqual(upload.whole(kerfd.address, repository=name), "DIGEST_ALGORITHM_MISMATCH")
        self.assertNotEqual(self.back_up(kerfd).returncode, world.OK)
        self.assertIn("sha256", self.step("kerf repo list --server ADDR", ADDR=kerfd.address).stdout)
        self.says("kerf stats --store DIR")
        drop = {"NAME": name, "ALGORITHM": "sha256", "ADDR": kerfd.address}
        self.step("kerf repo drop NAME --digest ALGORITHM --server ADDR", "--yes", **drop)
        self.step("kerf index rebuild --store DIR --server ADDR", DIR=self.store, ADDR=kerfd.address)
        self.back_up(kerfd, ends=world.OK)
        listed = self.kerf("repo", "list", "--server", kerfd.address, ends=world.OK).stdout
        self.assertEqual(listed.count(name), 1, listed)
        self.assertNotIn("sha256", listed)

    def test_INDEX_FULL(self):
        with self.small_disk(TMPFS_BYTES) as disk:
            kerfd = self.start("kerfd", "--data-dir", disk / "data")
            self.back_up(kerfd, ends=world.OK)
            filler = self.fill(disk, LOW_BYTES)
            self.until(lambda: self.metric(kerfd, "kerf_index_takes_commits") == 0, "the disk to be found full")
            self.says("`kerf backup` ends with 3")
            self.back_up(kerfd, ends=world.PARTIAL)
            self.assertEqual(upload.whole(kerfd.address), "INDEX_FULL")
            least = self.metric(kerfd, "kerf_index_disk_min_free_bytes")
            self.assertLess(self.metric(kerfd, "kerf_index_disk_free_bytes"), least)
            self.says("Lookups and collections go on")
            self.kerf("gc", "--store", self.store, "--server", kerfd.address, ends=world.OK)
            self.says("a larger disk")
            filler.unlink()
            self.until(lambda: self.metric(kerfd, "kerf_index_takes_commits") == 1, "the room to be found")
            self.says("Afterwards `kerf index rebuild` tells the index what it was not told")
            self.kerf("index", "rebuild", "--store", self.store, "--server", kerfd.address, ends=world.OK)
            self.back_up(kerfd, ends=world.OK)
            self.kerf("index", "check", "--store", self.store, "--server", kerfd.address, ends=world.OK)
            kerfd.stop()

    def test_KerfIndexTakesNoCommits(self):
        with self.small_disk(TMPFS_BYTES) as disk:
            kerfd = self.start("kerfd", "--data-dir", disk / "data")
            before = kerfd.metrics()
            self.back_up(kerfd, ends=world.OK)
            filler = self.fill(disk, LOW_BYTES)
            self.until(lambda: self.metric(kerfd, "kerf_index_takes_commits") == 0, "the disk to be found full")
            self.expect_fires("KerfIndexTakesNoCommits", before, kerfd.metrics())
            self.says("exit code 3")
            self.back_up(kerfd, ends=world.PARTIAL)
            self.says("`/readyz` at port 9461: which of them")
            self.assertIn("takes no commits", kerfd.get("/readyz")[1])
            least = self.metric(kerfd, "kerf_index_disk_min_free_bytes")
            self.assertLess(self.metric(kerfd, "kerf_index_disk_free_bytes"), least)
            self.says("stop kerfd, copy the folder, start it")
            kerfd.stop()
            shutil.copytree(disk / "data", self.folder / "moved")
            filler.unlink()
        kerfd = self.start("kerfd", "--data-dir", self.folder / "moved")
        self.assertEqual(self.metric(kerfd, "kerf_index_takes_commits"), 1)
        self.back_up(kerfd, ends=world.OK)
        self.expect_silent("KerfIndexTakesNoCommits", kerfd.metrics(), kerfd.metrics())
        kerfd.stop()
        self.says("start with an empty `--data-dir`, `kerf index rebuild` for each store")
        kerfd = self.start("kerfd", "--data-dir", self.folder / "empty")
        self.kerf("index", "rebuild", "--store", self.store, "--server", kerfd.address, ends=world.OK)
        self.back_up(kerfd, ends=world.OK)
        self.kerf("index", "check", "--store", self.store, "--server", kerfd.address, ends=world.OK)

    def fill_redis(self, redis):
        """No entry more fits."""
        redis.ask("CONFIG", "SET", "maxmemory", int(redis.info("used_memory")) + 1000)

    def test_KerfRedisFull(self):
        redis = self.redis()
        kerfd = self.start("kerfd", *redis.flags())
        self.back_up(kerfd, ends=world.OK)
        before = kerfd.metrics()
        self.fill_redis(redis)
        self.says("backups end with 3")
        self.until(lambda: self.back_up(kerfd).returncode == world.PARTIAL, "backups to end with 3")
        self.until(lambda: self.metric(kerfd, "kerf_redis_full_masters") == 1, "it to be told")
        self.expect_fires("KerfRedisFull", before, kerfd.metrics())
        self.assertGreaterEqual(self.metric(kerfd, "kerf_redis_memory_bytes"), 1)
        self.assertGreaterEqual(self.metric(kerfd, "kerf_redis_max_memory_bytes"), 1)
        self.step("kerf repo list --server FRONT", FRONT=kerfd.address)
        self.says("Lookups and collections go on")
        self.kerf("gc", "--store", self.store, "--server", kerfd.address, ends=world.OK)
        # Of a store that is gone.
        name = self.repository()
        self.step("kerf repo drop NAME --server FRONT --yes", NAME=name, FRONT=kerfd.address)
        self.kerf("index", "rebuild", "--store", self.store, "--server", kerfd.address)
        self.says("`CONFIG SET maxmemory` as `operator`")
        redis.ask("CONFIG", "SET", "maxmemory", 256 * world.MIB)
        self.until(lambda: self.metric(kerfd, "kerf_redis_full_masters") == 0, "the room to be found")
        self.until(lambda: self.metric(kerfd, "kerf_index_takes_commits") == 1, "commits to be taken")
        self.kerf("index", "rebuild", "--store", self.store, "--server", kerfd.address, ends=world.OK)
        self.back_up(kerfd, ends=world.OK)
        self.expect_silent("KerfRedisFull", kerfd.metrics(), kerfd.metrics())

    def make_another_index(self, redis, kerfd):
        """At the address of the one that this kerfd knows, whose name another one has given it."""
        kerfd.process.send_signal(signal.SIGSTOP)
        redis.ask("FLUSHALL")
        other = self.start("other", *redis.flags())
        upload.whole(other.address)
        other.stop()
        kerfd.process.send_signal(signal.SIGCONT)

    def test_INDEX_UNAVAILABLE(self):
        redis = self.redis()
        kerfd = self.start("kerfd", *redis.flags(), *self.flags("--index-timeout-ms", 2000))
        self.back_up(kerfd, ends=world.OK)
        redis.pause()
        self.assertEqual(upload.whole(kerfd.address), "INDEX_UNAVAILABLE")
        self.says("`/readyz` of the worker, which says why")
        self.until(lambda: kerfd.get("/readyz")[0] == 503, "it to say that it is not ready")
        self.assertIn("Redis", kerfd.get("/readyz")[1])
        self.says("Bring Redis back")
        redis.resume()
        self.until(lambda: self.metric(kerfd, "kerf_index_takes_commits") == 1, "Redis to be found")
        self.until(lambda: kerfd.get("/readyz")[0] == 200, "it to be ready")
        self.back_up(kerfd, ends=world.OK)
        self.make_another_index(redis, kerfd)
        self.until(lambda: kerfd.get("/readyz")[0] == 503, "another index to be noticed")
        self.says("If the log says that another index is at the address")
        self.assertTrue(kerfd.has_logged("another index"), "the log does not say so")
        self.says("restart the worker")
        kerfd = self.restart(kerfd, *redis.flags())
        self.step("kerf index rebuild --store DIR --server ADDR", DIR=self.store, ADDR=kerfd.address)
        self.back_up(kerfd, ends=world.OK)

    def test_KerfIndexFails(self):
        redis = self.redis()
        kerfd = self.start("kerfd", *redis.flags(), "--index-timeout-ms", "2000")
        self.back_up(kerfd, ends=world.OK)
        before = kerfd.metrics()
        redis.pause()
        self.says("INDEX_UNAVAILABLE")
        self.assertEqual(upload.whole(kerfd.address), "INDEX_UNAVAILABLE")
        self.until(lambda: self.metric(kerfd, "kerf_index_operations_total", result="failed") > 0, "a call that fails")
        self.expect_fires("KerfIndexFails", before, kerfd.metrics())
        self.says("The log of a worker: the very words of Redis")
        self.says("A node is away: bring it back")
        redis.resume()
        self.until(lambda: kerfd.get("/readyz")[0] == 200, "Redis to be found")
        begin = kerfd.metrics()
        self.back_up(kerfd, ends=world.OK)
        self.expect_silent("KerfIndexFails", begin, kerfd.metrics())
        self.says("`kerf index check` ends with 0")
        self.kerf("index", "check", "--store", self.store, "--server", kerfd.address, ends=world.OK)

    def test_KerfNotReady(self):
        redis = self.redis()
        redis.pause()
        kerfd = self.start("kerfd", *redis.flags(), "--index-timeout-ms", "60000", is_waited_for=False)
        self.until(lambda: kerfd.get("/readyz")[0] == 503, "it to wait")
        self.assertIn(self.says("starting, waiting for Redis"), kerfd.get("/readyz")[1])
        self.says("one line that begins with `not ready`")
        self.assertRegex(kerfd.get("/readyz")[1], "^not ready")
        self.assertEqual(self.metric(kerfd, "kerf_ready"), 0)
        self.expect_fires("KerfNotReady", kerfd.metrics(), kerfd.metrics())
        redis.resume()
        self.says("`/readyz` is 200")
        self.until(lambda: kerfd.get("/readyz")[0] == 200, "Redis to be found")
        self.assertEqual(self.metric(kerfd, "kerf_ready"), 1)
        self.expect_silent("KerfNotReady", kerfd.metrics(), kerfd.metrics())
        self.make_another_index(redis, kerfd)
        self.until(lambda: kerfd.get("/readyz")[0] == 503, "another index to be noticed")
        self.assertIn(self.says("Redis has another index"), kerfd.get("/readyz")[1])
        self.says("restart it if the new one is meant")
        kerfd = self.restart(kerfd, *redis.flags())
        self.assertEqual(kerfd.get("/readyz")[0], 200)

    def test_INTERNAL(self):
        redis = self.redis()
        kerfd = self.start("kerfd", *redis.flags())
        self.back_up(kerfd, ends=world.OK)
        kerfd.stop()
        for key in redis.ask("KEYS", "m:*").split():
            redis.ask("HSET", key, "base_bits", "none")
        kerfd = self.start("kerfd", *redis.flags())
        end = upload.whole(kerfd.address, repository=self.repository())
        self.assertEqual(end, "INTERNAL")
        self.says("kerfd's log at that `request_id`")
        self.assertTrue(kerfd.has_logged("no number of base buckets"), "the log does not say why")
        self.assertGreater(self.metric(kerfd, "kerf_streams_ended_total", reason="INTERNAL")
                           + prometheus.value(kerfd.metrics(), "kerf_streams_refused_total", reason="INTERNAL"), 0)
        self.says("If the index in Redis is in doubt")
        kerfd.stop()
        redis.ask(self.says("FLUSHALL"))
        kerfd = self.start("kerfd", *redis.flags())
        self.step("kerf index rebuild --store DIR --server ADDR", DIR=self.store, ADDR=kerfd.address)
        self.back_up(kerfd, ends=world.OK)
        self.kerf("index", "check", "--store", self.store, "--server", kerfd.address, ends=world.OK)
        self.assertEqual(self.metric(kerfd, "kerf_streams_ended_total", reason="INTERNAL"), 0)
        kerfd.stop()
        # The embedded one.
        data = self.folder / "data"
        kerfd = self.start("kerfd", "--data-dir", data)
        self.back_up(kerfd, ends=world.OK)
        kerfd.stop()
        self.says("move `--data-dir`'s `index` away")
        shutil.move(data / "index", self.folder / "away")
        kerfd = self.start("kerfd", "--data-dir", data)
        self.step("kerf index rebuild --store DIR --server ADDR", DIR=self.store, ADDR=kerfd.address)
        self.back_up(kerfd, ends=world.OK)
        self.kerf("index", "check", "--store", self.store, "--server", kerfd.address, ends=world.OK)

    def hint_key(self, name):
        path = self.folder / name
        path.write_bytes(os.urandom(HINT_KEY_BYTES))
        path.chmod(0o600)
        return path

    def test_KerfHintsRefused(self):
        redis = self.redis()
        key, other = self.hint_key("key"), self.hint_key("other")
        first = self.start("first", *redis.flags(), *self.flags("--hint-key-file", key))
        path = self.new_file(HINTED_BYTES)
        self.back_up(first, "--profile", PROFILE_WITH_HINTS, path=path, ends=world.OK)
        self.until(lambda: self.metric(first, "kerf_hint_segments_total", event="written") > 0, "hints to be written")
        second = self.start("second", *redis.flags(), "--hint-key-file", other)
        before = second.metrics()
        self.back_up(second, "--force", path=path, ends=world.OK)
        self.until(lambda: self.metric(second, "kerf_hint_segments_total", event="refused") > 0, "hints to be refused")
        self.expect_fires("KerfHintsRefused", before, second.metrics())
        self.says("Different keys: give all workers one, and restart them one after another")
        second = self.restart(second, *redis.flags(), "--hint-key-file", key)
        begin = second.metrics()
        self.back_up(second, "--force", path=path, ends=world.OK)
        self.back_up(second, "--force", path=path, ends=world.OK)
        self.assertRegex(second.metrics(), re.compile(r'^kerf_hint_segments_total\{event="fetched"\} [1-9]', re.MULTILINE))
        self.expect_silent("KerfHintsRefused", begin, second.metrics())
