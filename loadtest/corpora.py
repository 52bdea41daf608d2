"""What users back up: trees made from a seed, or real ones, and how a day changes them."""

import math
import pathlib
import random

import content

# Of the normal distribution of the logarithm of file sizes.
SIZE_SPREAD = 1.2
MAX_TREE_FILES = 100_000


class Corpus:
    """One user's; `settings` is the section `corpus`. Equal names and seeds give equal bytes."""

    def __init__(self, settings, name):
        self.settings = settings
        self.name = f"{settings.seed}/{name}"
        self.random = random.Random(self.name)
        self.made_count = 0
        self.real_files = real_files(settings.trees) if settings.trees else None

    def own_stretch(self, length):
        """Bytes that nobody else has."""
        self.made_count += 1
        return content.Stretch(content.Made(f"{self.name}/{self.made_count}"), 0, length)

    def common_stretch(self, length):
        """Bytes that others of the same seed have too."""
        slots = max(1, self.settings.common_bytes // self.settings.stretch_bytes)
        slot = self.random.randrange(slots)
        return content.Stretch(content.Made(f"{self.settings.seed}/common/{slot}"), 0, length)

    def make(self, size):
        stretches = []
        while size:
            length = min(size, self.settings.stretch_bytes)
            common = self.random.random() < self.settings.dedup_share
            stretches.append(self.common_stretch(length) if common else self.own_stretch(length))
            size -= length
        return content.Content(stretches)

    def spread(self, median, most):
        return min(most, int(median * math.exp(self.random.gauss(0, SIZE_SPREAD))))

    def tree(self):
        """{name: content} of one backup."""
        count = self.settings.files
        if self.real_files:
            chosen = self.random.sample(self.real_files, min(count, len(self.real_files)))
            return {str(path): real_content(path) for path in chosen}
        sizes = [self.spread(self.settings.file_bytes, self.settings.max_file_bytes) for _ in range(count)]
        return {f"file-{number}": self.make(size) for number, size in enumerate(sizes)}

    def small_files(self):
        """Empty ones among them."""
        sizes = [self.spread(self.settings.small_file_bytes, 64 * 1024) for _ in range(self.settings.small_files)]
        sizes[0] = 0
        return {f"small-{number}": self.make(size) for number, size in enumerate(sizes)}

    def next_day(self, tree):
        """Edits a share of the files, and returns the names of what was edited."""
        names = sorted(tree)
        chosen = self.random.sample(names, max(1, round(len(names) * self.settings.edit_share)))
        for name in chosen:
            for _ in range(self.random.randint(1, self.settings.edits_a_file)):
                tree[name] = self.edited(tree[name])
        return chosen

    def edited(self, old):
        pattern = self.settings.edit_pattern
        if pattern == "mixed":
            pattern = self.random.choice(["append", "insert", "overwrite", "move"])
        length = self.random.randint(1, self.settings.edit_bytes)
        begin = self.random.randint(0, old.size)
        end = min(old.size, begin + length)
        if pattern == "append":
            return old.replaced(old.size, old.size, [self.own_stretch(length)])
        if pattern == "insert":
            return old.replaced(begin, begin, [self.own_stretch(length)])
        if pattern == "overwrite":
            return old.replaced(begin, end, [self.own_stretch(end - begin)])
        without = old.replaced(begin, end, [])
        place = self.random.randint(0, without.size)
        return without.replaced(place, place, old.parts(begin, end))


EDIT_PATTERNS = ["append", "insert", "overwrite", "move", "mixed"]


def real_files(trees):
    files = []
    for tree in trees:
        for path in sorted(pathlib.Path(tree).rglob("*")):
            if path.is_file() and not path.is_symlink():
                files.append(path)
            if len(files) == MAX_TREE_FILES:
                return files
    if not files:
        raise OSError(f"no files in {', '.join(trees)}")
    return files


def real_content(path):
    stat = path.stat()
    return content.Content([content.Stretch(content.Real(str(path), stat.st_mtime_ns), 0, stat.st_size)])
