"""The trees and tar files that tools/compare backs up: real files of the machine, seeded edits."""

import os
import pathlib
import random
import shutil
import stat
import string
import subprocess

SOURCES = ["/usr/include", "/usr/share", "/usr/lib", "/usr/src", "/opt", "/usr/local"]
FILE_COUNT = 65_000
TREE_BYTES = 866 * 1000 * 1000
# Larger files are not what a tree of small files is about.
MAX_FILE_BYTES = 1 << 20
EDITED_SHARE = 0.03
MAX_INSERT_BYTES = 64


def source_files():
    """(path, size) of regular files that can be read, in a stable order."""
    found = []
    for source in SOURCES:
        for folder, folders, names in os.walk(source):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                try:
                    info = os.lstat(path)
                except OSError:
                    continue
                if stat.S_ISREG(info.st_mode) and info.st_size <= MAX_FILE_BYTES and os.access(path, os.R_OK):
                    found.append((path, info.st_size))
    return found


def letters_swapped(content, generator):
    """Content that compresses as well and shares no chunk with the one it is made from."""
    letters = list(string.ascii_lowercase)
    generator.shuffle(letters)
    return content.translate(bytes.maketrans(string.ascii_lowercase.encode(), "".join(letters).encode()))


def make_tree(tree, scale, seed):
    """Copies real files until both targets, times scale, are met; what the machine has too few of is
    made from its files with the letters swapped. Returns (files, bytes)."""
    generator = random.Random(seed)
    files = source_files()
    if not files:
        raise SystemExit("compare: there are no files to copy in " + " ".join(SOURCES))
    generator.shuffle(files)
    count_left = max(1, int(FILE_COUNT * scale))
    bytes_left = int(TREE_BYTES * scale)
    mean_bytes = bytes_left / count_left
    made_count, made_bytes, generation = 0, 0, 0
    while count_left > 0 and bytes_left > 0:
        before = made_count
        for path, size in files:
            if count_left == 0:
                break
            # Steers towards the mean: none so large that only empty files could follow, and no tiny
            # ones while the files are too small on average.
            left_bytes = bytes_left / count_left
            if size > min(bytes_left, 40 * left_bytes) or (left_bytes > 1.05 * mean_bytes and size < mean_bytes / 4):
                continue
            target = pathlib.Path(str(tree) + (path if generation == 0 else f"/copy{generation}{path}"))
            try:
                content = pathlib.Path(path).read_bytes()
            except OSError:
                continue
            if generation > 0:
                content = letters_swapped(content, generator)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            made_count, made_bytes = made_count + 1, made_bytes + len(content)
            count_left, bytes_left = count_left - 1, bytes_left - len(content)
        generation += 1
        if made_count == before:
            break
    return made_count, made_bytes


class Edits:
    """Seeded small inserts in a share of a tree's files, in place; they can be taken back."""

    def __init__(self, tree, seed, share=EDITED_SHARE):
        generator = random.Random(seed)
        paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(tree) for name in names)
        self.edits = []
        for path in generator.sample(paths, max(1, int(len(paths) * share))):
            position = generator.randrange(os.path.getsize(path) + 1)
            self.edits.append((path, position, generator.randbytes(generator.randint(1, MAX_INSERT_BYTES))))

    def apply(self):
        for path, position, insert in self.edits:
            self._rewrite(path, lambda content: content[:position] + insert + content[position:])

    def revert(self):
        for path, position, insert in self.edits:
            self._rewrite(path, lambda content: content[:position] + content[position + len(insert):])

    @staticmethod
    def _rewrite(path, change):
        with open(path, "r+b") as file:
            content = change(file.read())
            file.seek(0)
            file.write(content)
            file.truncate()


class SmallFiles:
    """A tree of small files, then the same with small inserts in some of them."""

    has_many_files = True

    name = "small files"

    def __init__(self, work, scale, seed):
        self.folder = work / "tree"
        self.file_count, self.total_bytes = make_tree(self.folder, scale, seed)
        self.edits = Edits(self.folder, seed + 1)
        self.description = (f"{self.file_count:,} files, {self.total_bytes / 1e6:,.0f} MB; "
                            f"edited: inserts of 1 to {MAX_INSERT_BYTES} bytes in {len(self.edits.edits):,} files")

    def edit(self):
        self.edits.apply()

    def revert(self):
        self.edits.revert()


class Tars:
    """Two tar files of successive versions of a tree, then the third one beside them."""

    has_many_files = False

    name = "tar files"

    def __init__(self, work, small_files, seed):
        self.folder = work / "tars"
        self.folder.mkdir()
        versions = [self.folder / "version0.tar", self.folder / "version1.tar", work / "version2.tar"]
        made = []
        try:
            for number, path in enumerate(versions):
                if number > 0:
                    edits = Edits(small_files.folder, seed + 10 + number)
                    edits.apply()
                    made.append(edits)
                subprocess.run(["tar", "--create", "--sort=name", "--file", str(path), "-C",
                                str(small_files.folder), "."], check=True)
        finally:
            for edits in reversed(made):
                edits.revert()
        self.later, self.later_in_folder = versions[2], self.folder / "version2.tar"
        self.file_count = 2
        self.total_bytes = sum(path.stat().st_size for path in versions[:2])
        self.description = (f"2 tar files of successive versions of that tree, {self.total_bytes / 1e6:,.0f} MB; "
                            f"edited: a third one of {self.later.stat().st_size / 1e6:,.0f} MB")

    def edit(self):
        self.later.rename(self.later_in_folder)

    def revert(self):
        self.later_in_folder.rename(self.later)


class Releases:
    """Files that the caller has: successive versions of one thing, of which the last one comes later."""

    has_many_files = False

    name = "releases"

    def __init__(self, work, paths):
        self.folder = work / "releases"
        self.folder.mkdir()
        *first, last = paths
        for number, path in enumerate(first):
            shutil.copyfile(path, self.folder / f"{number}-{path.name}")
        self.later, self.later_in_folder = work / f"later-{last.name}", self.folder / f"{len(first)}-{last.name}"
        shutil.copyfile(last, self.later)
        self.file_count = len(first)
        self.total_bytes = sum(path.stat().st_size for path in first)
        self.description = (f"{len(first)} files ({first[0].name} to {first[-1].name}), {self.total_bytes / 1e6:,.0f} MB; "
                            f"edited: {last.name} of {self.later.stat().st_size / 1e6:,.0f} MB")

    def edit(self):
        self.later.rename(self.later_in_folder)

    def revert(self):
        self.later_in_folder.rename(self.later)
