"""Images that are mounted one after the other at one place: no time of a file tells them apart."""

import contextlib
import os

import disks
import runs

# Of both, as of whatever is built so that anybody can build it again.
MADE_AT_S = 1_704_067_200
TRIES = 5
TEXTS = ("version 1, of before\n", "version 2, of today.\n")


@contextlib.contextmanager
def _mounted(folder, number, text):
    """An image of squashfs with a file of that text, at `folder`/mount."""
    tree, image, place = folder / f"tree-{number}", folder / f"image-{number}", folder / "mount"
    for made in (tree, place):
        made.mkdir(parents=True, exist_ok=True)
    (tree / "file").write_text(text, encoding="ascii")
    for path in (tree / "file", tree):
        os.utime(path, (MADE_AT_S, MADE_AT_S))
    disks.do("mksquashfs", tree, image, "-noappend", "-quiet", "-no-progress", "-all-time", MADE_AT_S, "-mkfs-time", MADE_AT_S)
    disks.do("mount", "-t", "squashfs", "-o", "loop,ro", image, place)
    try:
        yield place
    finally:
        disks.do("umount", place)


def check(kerf, folder, server):
    """What is wrong with the backups of two such images; `kerf` runs it. The second one is to get the first one's loop
    device: where others make some meanwhile it is tried again."""
    for number in range(TRIES):
        problems = _compare(kerf, folder / str(number), server)
        if problems is not None:
            return problems
    raise runs.Wrong("no two images came to one device, so that this tells nothing")


def _compare(kerf, folder, server):
    """The same of one try; None if the images can be told apart by numbers."""
    store, stats, problems = folder / "store", set(), []
    for number, text in enumerate(TEXTS, 1):
        with _mounted(folder, number, text) as place:
            status = os.stat(place / "file")
            stats.add((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
            kerf(folder / f"backup-{number}", "backup", place, "--store", store, "--server", server)
        target = folder / f"target-{number}"
        kerf(folder / f"restore-{number}", "restore", "latest", "--store", store, "--target", target)
        restored = (target / place.relative_to("/") / "file").read_text(encoding="ascii")
        if restored != text:
            problems.append(f"image {number}: a file has come back as {restored!r}, not as {text!r}")
    return problems if len(stats) == 1 else None
