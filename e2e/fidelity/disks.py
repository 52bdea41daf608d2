"""File systems in images, and what a disk with one holds when the power goes."""

import contextlib
import pathlib
import subprocess

import processes

IMAGE_BYTES = 400 * 1024 * 1024

# How each is made: `image` is where. ext4 with inodes of 128 bytes keeps times in whole seconds.
MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-O", "ea_inode"],
    "ext4-128": ["mkfs.ext4", "-q", "-F", "-I", "128"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
    "tmpfs": None,
}
# A copy has the identity of what it is a copy of.
COPY_OPTIONS = {"xfs": ["nouuid"]}


class Disk:
    """Mounted at `path` from open() to close(). `options` are more of those of MAKE."""

    def __init__(self, kind, folder, size_bytes=IMAGE_BYTES, options=()):
        self.kind, self.path = kind, folder / "mount"
        self._size_bytes, self._options = size_bytes, options
        self._image, self._copy = folder / "image", folder / "copy"
        self.path.mkdir(parents=True)

    @contextlib.contextmanager
    def mounted(self):
        if MAKE[self.kind] is None:
            do("mount", "-t", "tmpfs", "-o", f"size={self._size_bytes}", "kerf-fidelity", self.path)
        else:
            with open(self._image, "wb") as image:
                image.truncate(self._size_bytes)
            do(*MAKE[self.kind], *self._options, self._image)
            do("mount", "-o", "loop", self._image, self.path)
        try:
            yield
        finally:
            if self.path.is_mount():
                do("umount", self.path)

    def outlives_power(self):
        return MAKE[self.kind] is not None

    def copy(self):
        """What it holds at this moment: all that was not synced is not in there."""
        do("cp", "--sparse=always", self._image, self._copy)

    def mount_copy(self):
        """In its place, as after a power cut."""
        do("umount", self.path)
        self._copy.replace(self._image)
        do("mount", "-o", ",".join(["loop", *COPY_OPTIONS.get(self.kind, [])]), self._image, self.path)


def do(*command):
    return processes.run([str(word) for word in command])


def sync(path):
    subprocess.run(["sync", "-f", path], check=True)


def can_mount(folder):
    """Why this machine cannot do what the test wants; empty if it can."""
    disk = Disk("ext4", pathlib.Path(folder))
    try:
        with disk.mounted():
            return ""
    except (processes.Failed, OSError) as error:
        return str(error)
