"""What a kerfd refuses because of its settings, or because there is too much of something."""

import contextlib
import os
import signal
import socket
import time

import prometheus
import upload
import world

LONGEST_CHUNK = 4 * world.MIB
HOG_BYTES = 3_000_000
MAX_HOGS = 60
WITH_CRITERION = "fastcdc-8k+ff"


class LimitsTest(world.RunbookTest):
    def hold(self, kerfd):
        """A stream in the middle of a file, which nobody takes for idle."""
        made = self.upload(kerfd)
        made.until("opened")
        made.begin()
        made.data(b"x" * 1000)
        return made

    def refused(self, kerfd, **options):
        """How the next upload ends."""
        return upload.whole(kerfd.address, **options)

    def test_CRITERION_NEEDS_HINTS(self):
        kerfd = self.start("kerfd", "--data-dir", self.folder / "data")
        self.assertEqual(self.refused(kerfd, profile=WITH_CRITERION), "CRITERION_NEEDS_HINTS")
        done = self.back_up(kerfd, "--profile", WITH_CRITERION)
        self.assertNotEqual(done.returncode, world.OK)
        self.says("`kerfd --print-config`: `hint-memory`")
        kerfd = self.restart(kerfd, "--data-dir", self.folder / "data", *self.flags("--hint-memory 64M"),
                             *self.flags("--hint-disk", "64M"))
        self.back_up(kerfd, "--profile", WITH_CRITERION, ends=world.OK, size=8 * world.MIB)
        self.until(lambda: self.metric(kerfd, "kerf_hint_segments_total") > 0, "hints to be written")

    def test_PROFILE_TOO_LARGE(self):
        profile = f"fixed:size={LONGEST_CHUNK}"
        kerfd = self.start("kerfd", *self.flags("--stream-memory", "4M"))
        self.assertEqual(self.refused(kerfd, profile=profile), "PROFILE_TOO_LARGE")
        self.says("at least four times the profile's `max`")
        kerfd = self.restart(kerfd, "--stream-memory", str(4 * LONGEST_CHUNK), *self.flags("--memory", "256M"))
        self.back_up(kerfd, "--profile", profile, ends=world.OK, size=2 * LONGEST_CHUNK)
        self.step("kerf stats --store DIR", DIR=self.store)
        self.assertLess(self.metric(kerfd, "kerf_memory_bytes"), self.metric(kerfd, "kerf_memory_limit_bytes") / 2)

    def test_TOO_MANY_STREAMS(self):
        kerfd = self.start("kerfd", *self.flags("--max-streams", 1))
        before = kerfd.metrics()
        held = self.hold(kerfd)
        self.assertEqual(self.refused(kerfd), "TOO_MANY_STREAMS")
        self.assertEqual(self.metric(kerfd, "kerf_streams"), self.metric(kerfd, "kerf_max_streams"))
        self.assertGreater(self.metric(kerfd, "kerf_streams_refused_total"), 0)
        self.expect_fires("KerfRefuses", before, kerfd.metrics())
        done = self.step("kerf top --server ADDR", "--once", ADDR=kerfd.address)
        self.assertIn("1", done.stdout)
        self.says("raise `--max-streams`")
        held.cancel()
        kerfd = self.restart(kerfd, "--max-streams", "16", *self.flags("--memory", "256M"))
        self.hold(kerfd)
        self.back_up(kerfd, ends=world.OK)
        self.assertEqual(self.metric(kerfd, "kerf_streams_refused_total"), 0)

    def test_KerfRefuses(self):
        kerfd = self.start("kerfd", "--max-streams", "2")
        before = kerfd.metrics()
        held = [self.hold(kerfd) for _ in range(2)]
        self.assertEqual(self.refused(kerfd), self.says("TOO_MANY_STREAMS"))
        during = kerfd.metrics()
        self.assertGreater(self.metric(kerfd, "kerf_streams_refused_total", reason="TOO_MANY_STREAMS"), 0)
        self.expect_fires("KerfRefuses", before, during)
        self.step("kerf top --server FRONT", "--once", FRONT=kerfd.address)
        self.says("more `--memory` and `--max-streams`")
        for made in held:
            made.cancel()
        kerfd = self.restart(kerfd, "--max-streams", "16", "--memory", "256M")
        begin = kerfd.metrics()
        self.back_up(kerfd, ends=world.OK)
        self.expect_silent("KerfRefuses", begin, kerfd.metrics())

    def test_IDLE_EVICTED(self):
        kerfd = self.start("kerfd", "--max-streams", "1", *self.flags("--idle-evict-ms", 1000))
        silent = self.upload(kerfd)
        silent.until("opened")
        self.until(lambda: self.refused(kerfd) == "OK", "a new stream to take the place")
        self.assertEqual(silent.end().reason, "IDLE_EVICTED")
        self.assertEqual(self.metric(kerfd, "kerf_streams_ended_total", reason="IDLE_EVICTED"), 1)
        self.says("sends an empty UploadRequest")
        kept = self.upload(kerfd)
        kept.until("opened")
        for _ in range(15):
            kept.babble()
            time.sleep(0.2)
            self.assertEqual(self.refused(kerfd), "TOO_MANY_STREAMS")
        kept.close()
        self.assertEqual(kept.end().reason, "OK")
        self.assertEqual(self.metric(kerfd, "kerf_streams_ended_total", reason="IDLE_EVICTED"), 1)

    def fill_memory(self, kerfd):
        """Chunks that nobody commits, until there is no room for more: the streams that hold it."""
        hogs = []
        for _ in range(MAX_HOGS):
            hog = self.upload(kerfd, "fixed:size=512")
            hogs.append(hog)
            data = os.urandom(HOG_BYTES)
            hog.begin()
            hog.data(data)
            hog.finish(data)
            try:
                while hog.until("chunks").chunks[-1].end_offset != HOG_BYTES:
                    pass
            except upload.Ended as error:
                self.assertEqual(error.reason, "MEMORY_EXHAUSTED", str(error))
                return hogs
        self.fail("there is always room for one more")

    def test_MEMORY_EXHAUSTED(self):
        flags = ("--stream-memory", "8M", "--idle-evict-ms", "3600000")
        kerfd = self.start("kerfd", *self.flags("--memory", "16M"), *flags)
        hogs = self.fill_memory(kerfd)
        self.assertGreater(self.metric(kerfd, "kerf_memory_bytes", budget="work"), 0)
        self.says("raise `--memory`")
        for hog in hogs:
            hog.cancel()
        kerfd = self.restart(kerfd, "--memory", "1G", *flags)
        for _ in range(len(hogs)):
            self.hold(kerfd)
        self.back_up(kerfd, ends=world.OK)
        self.expect_silent(self.says("KerfMemoryFull"), kerfd.metrics(), kerfd.metrics())

    def test_KerfDoorRefuses(self):
        # A sixteenth of a MiB for the window of each call, and a quarter of all for the door.
        kerfd = self.start("kerfd", "--memory", "16M", "--stream-memory", "4M", listen="127.0.0.1:0")
        before = kerfd.metrics()
        held = []
        while self.metric(kerfd, "kerf_door_calls_refused_total", reason="no_memory") == 0:
            self.assertLess(len(held), 400, "there is always room for one more")
            held.append(self.hold_at_door(kerfd))
        self.expect_fires("KerfDoorRefuses", before, kerfd.metrics())
        self.assertGreater(self.metric(kerfd, "kerf_door_connections"), 10)
        self.assertLessEqual(self.metric(kerfd, "kerf_door_memory_bytes"), self.metric(kerfd, "kerf_door_memory_limit_bytes"))
        self.says("stop that client")
        for made in held:
            made.cancel()
        self.until(lambda: self.run_kerf("ping", "--server", kerfd.address).returncode == world.OK, "the door to have room again")
        self.says("raise `--memory`")
        kerfd = self.restart(kerfd, "--memory", "1G", listen="127.0.0.1:0")
        begin = kerfd.metrics()
        for _ in held:
            self.hold_at_door(kerfd)
        self.kerf("ping", "--server", kerfd.address, ends=world.OK)
        self.expect_silent("KerfDoorRefuses", begin, kerfd.metrics())

    def hold_at_door(self, kerfd):
        made = self.upload(kerfd)
        made.begin()
        made.data(b"x")
        time.sleep(0.02)
        return made

    def test_TOO_MANY_CALLS(self):
        redis = self.redis()
        kerfd = self.start("kerfd", *redis.flags(), *self.flags("--max-index-calls", 1), "--index-timeout-ms", "30000")
        self.back_up(kerfd, ends=world.OK)
        redis.pause()
        address = kerfd.address
        held = upload.call(address, "kerf.v1.IndexService/GetIndexStats")
        self.until(lambda: self.metric(kerfd, "kerf_index_calls") == 1, "a call that waits for Redis")
        refused = upload.call(address, "kerf.v1.IndexService/GetIndexStats")
        self.assertEqual(upload.end_of_call(refused).reason, "TOO_MANY_CALLS")
        self.says("If Redis or the disk is slow, mend that first")
        redis.resume()
        self.assertEqual(upload.end_of_call(held).reason, "OK")
        self.says("`--retry-for 1h`")
        self.kerf("gc", "--store", self.store, "--server", address, "--retry-for", "1h", ends=world.OK)

    def test_DRAINING(self):
        flags = ("--data-dir", self.folder / "data", *self.flags("--drain-ms", 8000))
        kerfd = self.start("kerfd", *flags)
        held = self.hold(kerfd)
        kerfd.process.send_signal(signal.SIGTERM)
        self.until(lambda: self.metric(kerfd, "kerf_draining") == 1, "it to drain")
        self.assertEqual(self.refused(kerfd), "DRAINING")
        self.assertTrue(kerfd.has_logged("SIGTERM") or kerfd.has_logged("signal"), "the log does not name the signal")
        self.says("If agents end with exit code 5")
        self.back_up(kerfd, ends=world.UNAVAILABLE)
        held.cancel()
        kerfd = self.restart(kerfd, *flags)
        self.step("kerf ping --server ADDR", ADDR=kerfd.address)
        self.back_up(kerfd, ends=world.OK)

    def test_AUDIT_UNAVAILABLE(self):
        with self.small_disk(world.MIB) as disk:
            log = disk / "audit.log"
            kerfd = self.start("kerfd", *self.flags("--audit", log))
            self.back_up(kerfd, ends=world.OK)
            filler = self.fill(disk)
            self.until(lambda: self.refused(kerfd) == "AUDIT_UNAVAILABLE", "commits to be refused")
            self.says("`kerf backup` ends with 3")
            self.back_up(kerfd, ends=world.PARTIAL)
            self.says("`/readyz`")
            self.assertIn("audit", kerfd.get("/readyz")[1])
            self.assertGreaterEqual(self.metric(kerfd, "kerf_audit_waiting_lines"), 0)
            self.says("Make room, or mend the disk")
            filler.unlink()
            self.until(lambda: self.metric(kerfd, "kerf_audit_writable") == 1, "the log to be written again")
            self.back_up(kerfd, ends=world.OK)
            kerfd.stop()
            self.step("kerf audit verify FILE", FILE=log)
            self.fill(disk)
            kerfd = self.start("kerfd", "--audit", log, *self.flags("--audit-on-failure go-on"))
            self.back_up(kerfd, ends=world.OK)
            kerfd.stop()

    def test_KerfAuditNotWritten(self):
        with self.small_disk(world.MIB) as disk:
            log = disk / "audit.log"
            kerfd = self.start("kerfd", "--audit", log)
            before = kerfd.metrics()
            self.back_up(kerfd, ends=world.OK)
            filler = self.fill(disk)
            # Some lines may fit into the block that was begun.
            self.until(lambda: self.back_up(kerfd).returncode == world.PARTIAL, "commits to be refused")
            self.until(lambda: self.metric(kerfd, "kerf_audit_writable") == 0, "it to be noticed")
            self.expect_fires("KerfAuditNotWritten", before, kerfd.metrics())
            status, why = kerfd.get(self.says("/readyz"))
            self.assertEqual(status, 503)
            self.assertIn("space", why)
            self.says("No space: move the oldest `FILE.N` to another machine")
            filler.unlink()
            self.until(lambda: self.metric(kerfd, "kerf_audit_writable") == 1, "the log to be written again")
            self.expect_silent("KerfAuditNotWritten", before, kerfd.metrics())
            self.back_up(kerfd, ends=world.OK)
            kerfd.stop()
            self.says("`kerf audit verify` of all its files")
            self.kerf("audit", "verify", log, ends=world.OK)

    def test_KerfStrangers(self):
        kerfd = self.start(listen="127.0.0.1:0")
        before = kerfd.metrics()
        host, port = kerfd.address.rsplit(":", 1)
        for _ in range(100):
            with socket.create_connection((host, int(port)), timeout=world.HTTP_TIMEOUT_S) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\nHost: kerf\r\n\r\n")
                # Whether it hears of it or not.
                with contextlib.suppress(ConnectionError):
                    stranger.recv(1000)
        ended = {"name": "kerf_door_connections_ended_total", "reason": "not_http2"}
        self.until(lambda: self.metric(kerfd, **ended) >= 100, "them to be counted")
        self.expect_fires("KerfStrangers", before, kerfd.metrics())
        self.says("kerfd's log: `connection ended`, with address and reason")
        self.assertTrue(kerfd.has_logged("connection ended") or kerfd.has_logged("ended a connection"))
        self.says("`/healthz` at the metrics port")
        self.assertEqual(kerfd.get("/healthz")[0], 200)
        begin = kerfd.metrics()
        self.expect_silent("KerfStrangers", begin, kerfd.metrics())

    def test_KerfRestarts(self):
        states = []
        kerfd = None
        for _ in range(5):
            kerfd = self.restart(kerfd, how=signal.SIGKILL) if kerfd else self.start()
            states.append(kerfd.metrics())
            self.says("process_start_time_seconds")
            # It is told in whole ticks of the kernel.
            time.sleep(0.1)
        self.expect_fires("KerfRestarts", *states)
        self.expect_silent("KerfRestarts", states[-1], kerfd.metrics())
        config = self.folder / "kerfd.toml"
        config.write_text('max-stream = 3\n')
        self.says("`kerfd --config FILE --print-config` says what is wrong with them")
        done = self.run_kerfd("--config", config, "--print-config")
        self.says("Exit code 2 at once")
        self.assertEqual(done.returncode, world.USAGE)
        self.assertIn("max-stream", done.stdout + done.stderr)
        config.write_text('max-streams = 3\n')
        self.assertEqual(self.run_kerfd("--config", config, "--print-config").returncode, world.OK)

    def test_KerfMemoryFull(self):
        flags = ("--stream-memory", "8M", "--idle-evict-ms", "3600000")
        kerfd = self.start("kerfd", "--memory", "16M", *flags)
        hogs = self.fill_memory(kerfd)
        # The refused one has gone; what the others hold stays.
        states = [kerfd.metrics() for _ in range(2)]
        share = {budget: prometheus.value(states[-1], "kerf_memory_bytes", budget=budget)
                 / prometheus.value(states[-1], "kerf_memory_limit_bytes", budget=budget) for budget in ("input", "work")}
        self.assertGreater(max(share.values()), 0.9, share)
        self.expect_fires("KerfMemoryFull", *states)
        self.says("raise `--memory`")
        for hog in hogs:
            hog.cancel()
        kerfd = self.restart(kerfd, "--memory", "1G", *flags)
        self.hold(kerfd)
        self.expect_silent("KerfMemoryFull", kerfd.metrics(), kerfd.metrics())

    def test_KerfFilesRunOut(self):
        kerfd = self.start(listen="127.0.0.1:0")
        before = kerfd.metrics()
        self.limit_files(kerfd, int(self.metric(kerfd, "process_open_fds")) + 1)
        during = kerfd.metrics()
        self.assertGreater(prometheus.value(during, "process_open_fds") / prometheus.value(during, "process_max_fds"), 0.9)
        self.expect_fires("KerfFilesRunOut", before, during)
        self.says("Raise the limit")
        self.limit_files(kerfd, 4096)
        self.expect_silent("KerfFilesRunOut", during, kerfd.metrics())
        self.back_up(kerfd, ends=world.OK)
