"""What the quickstart says when a restored tree is not what is there."""

import contextlib
import io
import os
import pathlib
import shutil
import tempfile
import time
import unittest

import quickstart


class ComparedTrees(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.tree, restored = folder / "tree", folder / "restored"
        self.tree.mkdir()
        (self.tree / "one").write_bytes(b"1" * 16)
        (self.tree / "link").symlink_to("one")
        self.copy = restored / str(self.tree).lstrip("/")
        shutil.copytree(self.tree, self.copy, symlinks=True)
        self.restored = restored
        # Of folders and links copytree keeps no time.
        for name in (".", "link"):
            times = (self.tree / name).lstat()
            os.utime(self.copy / name, ns=(times.st_atime_ns, times.st_mtime_ns), follow_symlinks=False)

    def refusal(self, since_s):
        with self.assertRaises(SystemExit) as caught, contextlib.redirect_stdout(io.StringIO()):
            quickstart.compare([self.tree], self.restored, since_s)
        return str(caught.exception)

    def test_the_same_tree_passes(self):
        quickstart.compare([self.tree], self.restored, time.time())

    def test_other_content_is_a_fault_of_kerf(self):
        (self.copy / "one").write_bytes(b"2" * 16)
        self.assertIn("a fault of kerf", self.refusal(time.time() + 3600))

    def test_another_mode_is_a_fault_of_kerf(self):
        (self.copy / "one").chmod(0o600 if (self.tree / "one").stat().st_mode & 0o077 else 0o644)
        self.assertIn("a fault of kerf", self.refusal(time.time() + 3600))

    def test_a_tree_that_somebody_changed_is_said_to_be_that(self):
        since_s = time.time()
        (self.tree / "one").write_bytes(b"3" * 16)
        refusal = self.refusal(since_s)
        self.assertIn("was changed by another program", refusal)
        self.assertIn(str(self.tree), refusal)

    def test_what_was_removed_shows_in_its_folder(self):
        since_s = time.time()
        (self.tree / "one").unlink()
        self.assertIn("was changed by another program", self.refusal(since_s))


if __name__ == "__main__":
    unittest.main()
