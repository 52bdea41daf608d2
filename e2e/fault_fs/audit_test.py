#!/usr/bin/env python3
"""The audit log of a kerfd whose disk fails, or does not answer: nothing is changed that it does not tell of, and what may be
missing is said. As root; out/kerf, out/kerfd and out/fault_fs."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "e2e/agent_fuzz"), str(ROOT / "tools/python")]

import faults
import processes

OUT = pathlib.Path(os.environ.get("KERF_OUT", ROOT / "out"))
READY_TIMEOUT_S = 30
# Of docs/spec/audit.md: a disk that does not answer for 5 s cannot be written.
SILENCE_TIMEOUT_S = 30
# Much more than the second that kerfd promises.
SYNC_S = 4


class AuditTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kerf-told-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.files = faults.FaultFs(pathlib.Path(os.environ.get("KERF_FAULT_FS", OUT / "fault_fs")), self.folder / "faults")
        self.addCleanup(self.files.end)
        self.log, self.server = self.files.mount / "audit.log", f"unix:{self.folder}/kerfd"

    @contextlib.contextmanager
    def serving(self):
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        command = [OUT / "kerfd", "--listen", self.server, "--ready-file", ready, "--audit", self.log]
        with processes.running(command, self.folder / "kerfd.log") as kerfd:
            processes.wait_until(ready.exists, READY_TIMEOUT_S, "kerfd to serve", processes=[kerfd])
            yield kerfd

    def kerf(self, *arguments):
        return subprocess.run([OUT / "kerf", *arguments], env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120)

    def back_up(self):
        """Of bytes that nobody has seen: there is something to commit."""
        (self.folder / "file").write_bytes(os.urandom(200_000))
        return self.kerf("backup", self.folder / "file", "--store", self.folder / "store", "--server", self.server,
                         "--retry-for", "2s", "--json")

    def expect_refused(self):
        done = self.back_up()
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("the audit log cannot be written", done.stdout + done.stderr)

    def is_written_again(self):
        return self.back_up().returncode == 0

    def events(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def verify(self):
        done = self.kerf("audit", "verify", self.log)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_sync_that_fails(self):
        with self.serving():
            self.assertEqual(self.back_up().returncode, 0)
            # It is synced each second, and there is something to sync as long as calls come.
            time.sleep(SYNC_S)
            self.files.arm("fsync 1 0 EIO audit.log")
            processes.wait_until(lambda: self.back_up().returncode != 0, SILENCE_TIMEOUT_S, "commits to be refused")
            self.expect_refused()
            self.assertGreater(self.files.clear(), 0)
            processes.wait_until(self.is_written_again, SILENCE_TIMEOUT_S, "commits to be taken again")
            processes.wait_until(lambda: any(line["event"] == "unsynced" for line in self.events()), SILENCE_TIMEOUT_S,
                                 "what may have been dropped to be said")
        unsynced = [line for line in self.events() if line["event"] == "unsynced"]
        self.assertEqual(len(unsynced), 1, unsynced)
        first, last = (unsynced[0]["counts"][name] for name in ("first_seq", "last_seq"))
        calls = [line["seq"] for line in self.events() if line["event"] == "call"]
        # Whatever came while it could not be synced is between the two, and what came before is not.
        self.assertLessEqual(first, last)
        self.assertTrue(any(first <= seq <= last for seq in calls), (first, last, calls))
        self.assertLess(min(calls), first)
        self.verify()

    def test_a_write_that_fails(self):
        with self.serving():
            self.assertEqual(self.back_up().returncode, 0)
            self.files.arm("write 1 0 ENOSPC audit.log")
            processes.wait_until(lambda: self.back_up().returncode != 0, SILENCE_TIMEOUT_S, "commits to be refused")
            self.expect_refused()
            self.assertGreater(self.files.clear(), 0)
            processes.wait_until(self.is_written_again, SILENCE_TIMEOUT_S, "commits to be taken again")
        self.verify()

    def test_a_disk_that_does_not_answer(self):
        with self.serving():
            self.assertEqual(self.back_up().returncode, 0)
            with self.files.silent():
                processes.wait_until(lambda: self.back_up().returncode != 0, SILENCE_TIMEOUT_S, "commits to be refused")
                self.expect_refused()
                # All else goes on: nobody waits for that disk.
                ping = self.kerf("ping", "--server", self.server)
                self.assertIn("has not answered for", ping.stdout + ping.stderr)
            processes.wait_until(self.is_written_again, SILENCE_TIMEOUT_S, "commits to be taken again")
        self.verify()

    def test_a_kerfd_that_ends_beside_a_silent_disk_starts_again(self):
        with self.serving() as kerfd:
            self.assertEqual(self.back_up().returncode, 0)
            with self.files.silent():
                self.back_up()
                kerfd.kill()
            kerfd.wait()
        with self.serving():
            self.assertEqual(self.back_up().returncode, 0)
        self.verify()


if __name__ == "__main__":
    unittest.main()
