"""What tools/compare itself does, with tools that only copy: python3 -m unittest discover -s tools/measure -p "*_test.py"."""

import contextlib
import ctypes
import io
import mmap
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import compare
import compare_cache
import compare_tools


class Copier(compare_tools.Tool):
    """Its repository is a copy of the last backup. Notes what the page cache was like before each step."""

    name = "copier"
    PROGRAM = "cp"
    wrong_backup = None

    def __init__(self, work, log):
        super().__init__(work, log)
        self.count = 0

    def backup(self, folder):
        self.count += 1
        shutil.rmtree(self.repository, ignore_errors=True)
        measurement = self.run(["cp", "-r", folder, self.repository])
        if self.count == self.wrong_backup:
            (self.repository / "one").write_bytes(b"wrong")
        return measurement

    def restore(self, target, folder):
        target.mkdir(parents=True, exist_ok=True)
        return self.run(["cp", "-r", self.repository, target / "tree"])

    def restored(self, target, folder):
        return target / "tree"


class Data:
    name = "data"
    has_many_files = False

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        (folder / "one").write_bytes(b"1" * 100_000)
        (folder / "two").write_bytes(b"2")
        self.total_bytes = 100_001

    def edit(self):
        (self.folder / "two").write_bytes(b"edited")

    def revert(self):
        (self.folder / "two").write_bytes(b"2")


def wrong_at(number):
    return type("WrongCopier", (Copier,), {"wrong_backup": number})


class CompareTest(unittest.TestCase):
    def setUp(self):
        # On a disk, if /tmp is on one.
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="compare-test-", dir="/var/tmp"))
        self.addCleanup(compare.remove, self.work)
        self.data = Data(self.work / "data")
        # Others on this machine need what is in memory.
        patch = unittest.mock.patch.object(compare_cache, "can_drop", return_value=False)
        patch.start()
        self.addCleanup(patch.stop)

    def run_once(self, kind, cache="warm"):
        place = self.work / "place"
        place.mkdir()
        with open(self.work / "log", "wb") as log:
            return compare.run_once(kind, place, self.data, cache, log)

    def test_every_step_has_a_time(self):
        for cache in ("warm", "cold"):
            steps, stored = self.run_once(Copier, cache)
            self.assertEqual(list(steps), compare.STEPS)
            self.assertEqual(stored["edited backup"]["repository"], 100_006)
            compare.remove(self.work / "place")
        self.assertEqual((self.data.folder / "two").read_bytes(), b"2")

    def test_a_wrong_result_of_any_backup_has_no_time(self):
        for number in (1, 2, 3):
            with self.assertRaises(compare.subprocess.CalledProcessError):
                self.run_once(wrong_at(number))
            compare.remove(self.work / "place")
            self.assertEqual((self.data.folder / "two").read_bytes(), b"2")

    def test_what_is_only_compared_is_removed(self):
        before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
        self.run_once(Copier)
        after = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
        self.assertFalse([name for name in after - before if name.startswith("kerf-compare-check-")])

    def test_cold_evicts_and_warm_reads(self):
        path = self.data.folder / "one"
        compare_cache.evict([self.data.folder])
        os.sync()
        compare_cache.evict([self.data.folder])
        if resident(path) > 0:
            self.skipTest("this file system keeps files in memory")
        compare_cache.warm([self.data.folder])
        self.assertEqual(resident(path), 1)

    def test_a_tool_that_is_not_here_is_said_to_be_missing(self):
        missing = type("Missing", (Copier,), {"name": "missing", "PROGRAM": "no-such-program-here", "WHERE": "nobody has it"})
        tools = {"copier": Copier, "missing": missing}
        text = io.StringIO()
        with unittest.mock.patch.object(compare_tools, "TOOLS", tools), contextlib.redirect_stderr(text):
            self.assertEqual(compare.present_tools(["missing", "copier"]), [Copier])
        self.assertIn("missing IS NOT MEASURED", text.getvalue())
        self.assertIn("nobody has it", text.getvalue())

    def test_another_build_is_measured_as_kerf_is(self):
        before = compare_tools.kerf_of(self.work)
        self.assertTrue(issubclass(before, compare_tools.Kerf))
        self.assertEqual((before.name, before.KERF, before.KERFD), ("before", self.work / "kerf", self.work / "kerfd"))
        self.assertNotEqual(compare_tools.Kerf.KERF, before.KERF)
        with unittest.mock.patch.object(sys, "argv", ["compare", "--before", str(self.work)]), \
                contextlib.redirect_stderr(io.StringIO()) as text, self.assertRaises(SystemExit):
            compare.parse_arguments()
        self.assertIn("there is no kerf and no kerfd in", text.getvalue())

    def test_releases_come_one_later_and_go_again(self):
        paths = []
        for number in range(3):
            paths.append(self.work / f"release-{number}.tar")
            paths[-1].write_bytes(bytes([number]) * 1000)
        data = compare.compare_data.Releases(self.work, paths)
        self.assertEqual((data.file_count, data.total_bytes), (2, 2000))
        data.edit()
        self.assertEqual(len(os.listdir(data.folder)), 3)
        data.revert()
        self.assertEqual(len(os.listdir(data.folder)), 2)


def resident(path):
    """Whether the first page is in memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_PRIVATE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    pages = ctypes.create_string_buffer(1)
    if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), pages) != 0:
        raise OSError(ctypes.get_errno(), "mincore")
    return pages.raw[0] & 1


if __name__ == "__main__":
    unittest.main()
