#!/usr/bin/env python3
"""What kerf writes for people and programs, on a file system that tells late that it is lost: nobody is told that all is
well. As root; out/kerf, out/kerf-lab, out/kerfd and out/fault_fs."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "e2e/agent_fuzz"), str(ROOT / "tools/python")]

import faults
import processes

OUT = pathlib.Path(os.environ.get("KERF_OUT", ROOT / "out"))
FAILURE, PARTIAL, DISK_FULL = 1, 3, 7
READY_TIMEOUT_S = 30


class OutputsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kerf-outputs-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.files = faults.FaultFs(pathlib.Path(os.environ.get("KERF_FAULT_FS", OUT / "fault_fs")), self.folder / "faults")
        self.addCleanup(self.files.end)
        self.path = self.files.mount / "output"

    def kerf(self, *arguments, out=subprocess.PIPE):
        return subprocess.run([OUT / "kerf", *arguments], env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
                              stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True, check=False)

    def test_standard_output(self):
        for fault, code in (("flush 1 0 EDQUOT", FAILURE), ("write 1 0 ENOSPC", FAILURE)):
            with self.subTest(fault), open(self.path, "w", encoding="utf-8") as out:
                self.files.arm(fault)
                done = self.kerf("profiles", out=out)
                self.assertGreater(self.files.clear(), 0)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn("cannot write to standard output", done.stderr)
        with open(self.path, "w", encoding="utf-8") as out:
            self.assertEqual(self.kerf("profiles", out=out).returncode, 0)

    def test_picture(self):
        (self.folder / "file").write_bytes(os.urandom(20_000))
        picture = self.files.mount / "picture.svg"
        words = ("analyze", self.folder / "file", "--algorithm", "mincdc", "--average", "4K", "--plot", picture)
        for fault, code in (("fsync 1 0 EIO", FAILURE), ("fsync 1 0 ENOSPC", DISK_FULL), ("write 1 0 EDQUOT", DISK_FULL)):
            with self.subTest(fault):
                self.files.arm(fault)
                done = self.kerf(*words)
                self.assertGreater(self.files.clear(), 0)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn("picture.svg", done.stderr)
                self.assertFalse(picture.exists(), "half a picture")
        self.assertEqual(self.kerf(*words).returncode, 0)
        self.assertTrue(picture.exists())

    def test_export_of_the_index(self):
        server, ready, store = f"unix:{self.folder}/kerfd", self.folder / "ready", self.folder / "store"
        with processes.running([OUT / "kerfd", "--listen", server, "--ready-file", ready], self.folder / "log") as kerfd:
            processes.wait_until(ready.exists, READY_TIMEOUT_S, "kerfd to serve", processes=[kerfd])
            (self.folder / "file").write_bytes(os.urandom(300_000))
            there = ("--store", store, "--server", server)
            self.assertEqual(self.kerf("backup", self.folder / "file", *there).returncode, 0)
            for fault, code in (("fsync 1 0 EIO", FAILURE), ("rename 1 0 EIO", FAILURE), ("fsyncdir 1 0 EIO", FAILURE),
                                ("fsync 1 0 EDQUOT", DISK_FULL)):
                with self.subTest(fault):
                    self.files.arm(fault)
                    done = self.kerf("index", "export", "--output", self.path, "--json", *there)
                    self.assertGreater(self.files.clear(), 0)
                    self.assertEqual(done.returncode, code, done.stdout)
                    self.assertIn(str(self.files.mount), json.loads(done.stdout.splitlines()[-1])["message"])
                    self.assertEqual([name for name in os.listdir(self.files.mount) if name.endswith(".tmp")], [])
            self.assertEqual(self.kerf("index", "export", "--output", self.path, *there).returncode, 0)

    def backed_up(self):
        """A store with a snapshot of a file with two names, and the folder of these."""
        server, ready, store = f"unix:{self.folder}/kerfd", self.folder / "ready", self.folder / "store"
        with processes.running([OUT / "kerfd", "--listen", server, "--ready-file", ready], self.folder / "log") as kerfd:
            processes.wait_until(ready.exists, READY_TIMEOUT_S, "kerfd to serve", processes=[kerfd])
            tree = self.folder / "tree"
            tree.mkdir()
            (tree / "file").write_bytes(os.urandom(300_000))
            os.link(tree / "file", tree / "name")
            os.utime(tree / "file", (1_000_000_000, 1_000_000_000))
            self.assertEqual(self.kerf("backup", tree, "--store", store, "--server", server).returncode, 0)
        return store, tree

    def test_restore_where_no_time_can_be_set(self):
        store, tree = self.backed_up()
        restore = ("restore", "latest", "--target", self.files.mount / "target", "--store", store)
        self.files.arm("utimens 1 0 EPERM")
        done = self.kerf(*restore)
        self.assertGreater(self.files.clear(), 0, done.stderr)
        # Said of each, and nobody is without his files.
        self.assertEqual(done.returncode, PARTIAL, done.stderr)
        self.assertIn("cannot set the time of", done.stderr)
        for name in ("file", "name"):
            restored = next((self.files.mount / "target").rglob(name))
            self.assertEqual(restored.read_bytes(), (tree / "file").read_bytes())
            self.assertNotEqual(restored.stat().st_mtime, 1_000_000_000)
        self.assertEqual(self.kerf(*restore, "--overwrite", "if-changed").returncode, 0)
        restored = next((self.files.mount / "target").rglob("file"))
        self.assertEqual(restored.stat().st_mtime, 1_000_000_000)

    def test_restore_of_what_is_not_durable(self):
        # So fail the disk, and ext4 and btrfs that have met an error of theirs before and take nothing any more.
        store, _ = self.backed_up()
        for number, fault in enumerate(("fsync 1 0 EROFS", "fsync 1 0 EIO", "fsyncdir 1 0 EROFS")):
            with self.subTest(fault):
                self.files.arm(fault)
                done = self.kerf("restore", "latest", "--target", self.files.mount / str(number), "--store", store)
                self.assertGreater(self.files.clear(), 0, done.stderr)
                self.assertEqual(done.returncode, PARTIAL, done.stderr)
                self.assertIn("durable", done.stderr)

    def test_restore_where_folders_cannot_be_synced(self):
        # All of it at once they can.
        store, tree = self.backed_up()
        self.files.arm("fsyncdir 1 0 EINVAL")
        done = self.kerf("restore", "latest", "--target", self.files.mount / "target", "--store", store)
        self.assertGreater(self.files.clear(), 0, done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        restored = next((self.files.mount / "target").rglob("file"))
        self.assertEqual(restored.read_bytes(), (tree / "file").read_bytes())


if __name__ == "__main__":
    unittest.main()
