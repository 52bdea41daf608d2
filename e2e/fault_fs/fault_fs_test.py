#!/usr/bin/env python3
"""Whether the fault file system does what it is asked to: else what runs on it proves nothing. As root; out/fault_fs."""

import contextlib
import errno
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "e2e/agent_fuzz"), str(ROOT / "tools/python")]

import faults
import processes

PROGRAM = pathlib.Path(os.environ.get("KERF_FAULT_FS", ROOT / "out" / "fault_fs"))
SEEDS = 40


class FaultFsTest(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="kerf-fault-fs-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, folder)
        self.files = faults.FaultFs(PROGRAM, folder)
        self.addCleanup(self.files.end)
        self.path, self.behind = self.files.mount / "file", self.files.backing / "file"

    @contextlib.contextmanager
    def fails(self, number):
        with self.assertRaises(OSError) as caught:
            yield
        self.assertEqual(caught.exception.errno, number)

    def read(self):
        return self.path.read_bytes()

    def test_passes_everything_on(self):
        self.path.write_bytes(b"bytes")
        os.link(self.path, self.files.mount / "link")
        os.setxattr(self.path, "trusted.x", b"y")
        os.chown(self.path, 5, 2**32 - 2)
        os.mkfifo(self.files.mount / "fifo")
        os.rename(self.files.mount / "link", self.files.mount / "other")
        self.assertEqual(sorted(os.listdir(self.files.backing)), ["fifo", "file", "other"])
        self.assertEqual(sorted(os.listdir(self.files.mount)), ["fifo", "file", "other"])
        found = self.behind.stat()
        self.assertEqual((found.st_nlink, found.st_gid, self.behind.read_bytes()), (2, 2**32 - 2, b"bytes"))
        self.assertEqual(os.getxattr(self.behind, "trusted.x"), b"y")
        self.assertEqual(self.path.stat().st_ino, found.st_ino)

    def test_what_is_removed_can_still_be_used_and_is_not_seen(self):
        self.path.write_bytes(b"bytes")
        with open(self.path, "rb") as file:
            self.path.unlink()
            self.assertEqual(os.fstat(file.fileno()).st_size, 5)
            self.assertEqual(file.read(), b"bytes")
            self.assertEqual(os.listdir(self.files.mount), [])

    def test_the_nth_operation_fails_and_those_behind_it(self):
        self.path.write_bytes(b"bytes")
        self.files.arm("open 2 2 EDQUOT file")
        self.read()
        for _ in range(2):
            with self.fails(errno.EDQUOT):
                self.read()
        self.assertEqual(self.read(), b"bytes")
        self.assertEqual(self.files.clear(), 2)
        self.assertEqual(self.files.clear(), 0)

    def test_other_paths_and_operations_are_left_alone(self):
        self.path.write_bytes(b"bytes")
        self.files.arm("read,write 1 0 EIO another")
        self.files.arm("fsync 1 0 EIO")
        self.assertEqual(self.read(), b"bytes")
        with open(self.path, "r+b") as file, self.fails(errno.EIO):
            os.fsync(file.fileno())

    def test_open_files_have_their_paths(self):
        for operation, use in (("read", lambda file: os.read(file, 1)), ("write", lambda file: os.write(file, b"x")),
                               ("lseek", lambda file: os.lseek(file, 0, os.SEEK_DATA)), ("fsync", os.fsync)):
            self.path.write_bytes(b"bytes")
            file = os.open(self.path, os.O_RDWR)
            self.files.arm(f"{operation} 1 1 EIO fil")
            with self.fails(errno.EIO):
                use(file)
            self.files.clear()
            os.close(file)

    def test_close_fails(self):
        self.files.arm("flush 1 1 ENOSPC")
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT)
        with self.fails(errno.ENOSPC):
            os.close(file)

    def test_close_and_fsync_fail_and_take_what_was_written(self):
        for operation in ("flush", "fsync"):
            self.path.write_bytes(b"a" * 10)
            file = os.open(self.path, os.O_WRONLY)
            os.pwrite(file, b"kept", 0)
            os.fsync(file)
            os.pwrite(file, b"lost", 6)
            self.files.arm(f"{operation} 1 1 drop:EDQUOT")
            with self.fails(errno.EDQUOT):
                (os.close if operation == "flush" else os.fsync)(file)
            self.assertEqual(self.read(), b"keptaa" + bytes(4), operation)
            # A second one has nothing to lose, and says nothing.
            if operation == "fsync":
                os.fsync(file)
                os.close(file)
            self.assertEqual(self.files.clear(), 1)
            # What was kept stays though a later close fails.
            self.files.arm("flush 1 1 drop:EIO")
            file = os.open(self.path, os.O_RDONLY)
            with self.fails(errno.EIO):
                os.close(file)
            self.files.clear()
            self.assertEqual(self.read(), b"keptaa" + bytes(4), operation)

    def test_late_errors_come_behind_the_deed(self):
        self.path.write_bytes(b"bytes")
        self.files.arm("rename 1 1 late:EIO")
        with self.fails(errno.EIO):
            os.rename(self.path, self.files.mount / "other")
        self.assertEqual(os.listdir(self.files.backing), ["other"])

    def test_short_zero_and_flipped_reads_and_short_writes(self):
        self.path.write_bytes(b"a" * 1000)
        for action, wanted in (("short", b"a" * 500), ("zeros", bytes(1000)), ("flip", b"a" * 500 + b"e" + b"a" * 499)):
            self.files.clear()
            self.files.arm(f"read 1 1 {action}")
            with open(self.path, "rb", buffering=0) as file:
                self.assertEqual(file.read(1000), wanted, action)
        self.files.arm("write 1 1 short")
        with open(self.path, "wb", buffering=0) as file:
            self.assertEqual(file.write(b"b" * 100), 50)

    def test_who_asks_is_stopped_or_killed(self):
        self.path.write_bytes(b"bytes")
        for action, ended in (("stop", False), ("kill", True)):
            self.files.arm(f"read 1 1 {action}")
            with subprocess.Popen(["cat", self.path], stdout=subprocess.PIPE) as child:
                if not ended:
                    processes.wait_until(lambda pid=child.pid: processes.state(pid)[0] == "T", 10, "it to be stopped")
                    child.send_signal(signal.SIGCONT)
                self.assertEqual(child.stdout.read(), b"" if ended else b"bytes")
            self.assertEqual(child.returncode, -signal.SIGKILL if ended else 0)
            self.files.clear()

    def test_times_are_rounded_down(self):
        self.path.write_bytes(b"")
        for time_ns, granularity_ns, wanted_ns in ((5_999_999_999, 2_000_000_000, 4_000_000_000), (-1, 1_000_000_000, -1_000_000_000),
                                                   (7, 1, 7)):
            os.utime(self.behind, ns=(time_ns, time_ns))
            self.files.say(f"granularity {granularity_ns}")
            self.assertEqual(self.path.stat().st_mtime_ns, wanted_ns)

    def test_a_power_cut_leaves_what_was_synced(self):
        taken = set()
        for seed in range(SEEDS):
            self.files.say("track")
            for name in ("synced", "without name", "without bytes"):
                with open(self.files.mount / name, "wb") as file:
                    file.write(name.encode())
                    file.flush()
                    if name != "without bytes":
                        os.fsync(file.fileno())
                if name != "without name":
                    folder = os.open(self.files.mount, os.O_RDONLY)
                    os.fsync(folder)
                    os.close(folder)
            # The last sync was of the folder, behind all names: this one comes after it.
            os.rename(self.files.mount / "without name", self.files.mount / "renamed")
            self.files.say(f"cut {seed}")
            left = {path.name: path.read_bytes() for path in self.files.mount.iterdir()}
            self.assertEqual(left["synced"], b"synced")
            names = frozenset(left.keys() & {"without name", "renamed"})
            taken.add(names)
            taken.add(left["without bytes"][:1])
            self.assertTrue(all(left[name] == b"without name" for name in names))
            for path in self.files.backing.iterdir():
                path.unlink()
        before, after = frozenset({"without name"}), frozenset({"renamed"})
        self.assertTrue({before, after, b"", b"\0", b"w"} <= taken, taken)

    def test_a_power_cut_after_a_folder_was_removed_brings_nothing_back_into_it(self):
        folder = self.files.mount / "folder"
        for seed in range(SEEDS):
            folder.mkdir()
            (folder / "file").write_bytes(b"bytes")
            self.files.say("track")
            (folder / "file").unlink()
            folder.rmdir()
            self.files.say(f"cut {seed}")
            self.assertEqual(os.listdir(self.files.backing), [])

    def test_nonsense_is_refused(self):
        for line in ("arm read 0 1 EIO", "arm read 1 1 EWHAT", "arm", "cut 1", "what"):
            with self.assertRaises(processes.Failed):
                self.files.say(line)


if __name__ == "__main__":
    unittest.main()
