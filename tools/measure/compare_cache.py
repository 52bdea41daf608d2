"""In what state tools/compare has the page cache before a step: warm, or cold as a nightly backup meets it."""

import os

DROP_CACHES = "/proc/sys/vm/drop_caches"


def regular_files(folder):
    for path, _, names in os.walk(folder):
        for name in names:
            full = os.path.join(path, name)
            if os.path.isfile(full) and not os.path.islink(full):
                yield full


def warm(folders):
    """Reads everything once and writes back what is dirty. Of `folders` the first alone is read: the data."""
    for path in regular_files(folders[0]):
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
    os.sync()


def can_drop():
    return os.access(DROP_CACHES, os.W_OK)


def evict(folders):
    """Without root: contents only; directories and inodes stay in memory."""
    for folder in folders:
        for path in regular_files(folder):
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except OSError:
                continue
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def cold(folders):
    """Nothing of `folders` is in memory but what could not be dropped (describe)."""
    # What is dirty cannot be dropped.
    os.sync()
    if can_drop():
        with open(DROP_CACHES, "w", encoding="ascii") as file:
            file.write("3\n")
    else:
        evict(folders)


PREPARE = {"warm": warm, "cold": cold}


def describe(name):
    if name == "warm":
        return "page cache warm: the data was read before each step"
    if can_drop():
        return "page cache cold: all caches of the kernel were dropped before each step"
    return ("page cache cold as far as can be without root: contents of the data and of repositories were dropped before "
            "each step, directories and inodes were not")
