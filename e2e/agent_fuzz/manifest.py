"""What a tree holds, as a table that two trees can be compared by; read with system calls alone, nothing of kerf's."""

import errno
import hashlib
import os
import stat

NANO = 1_000_000_000
# Who sees as many blocks as bytes does not look for holes.
MAX_FILLED = 8192
# What has none of these is as good as one without.
NO_ATTRIBUTES = (errno.EOPNOTSUPP, errno.ENODATA)


class Node:
    """One entry. `link` is the smallest path of those of its inode, where that has several."""

    def __init__(self, what, inode, extents):
        self.what, self.inode, self.extents = what, inode, extents
        self.link = None

    def __eq__(self, other):
        return (self.what, self.link) == (other.what, other.link)

    def __repr__(self):
        return f"{self.what} link={self.link}"


def attributes(path):
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        if error.errno in NO_ATTRIBUTES:
            return ()
        raise
    return tuple(sorted((name, os.getxattr(path, name, follow_symlinks=False)) for name in names))


def content(path):
    with open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NOATIME)) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def data_extents(path):
    """(begin, end) of what is not a hole."""
    found = []
    file = os.open(path, os.O_RDONLY | os.O_NOATIME)
    try:
        end = 0
        while True:
            try:
                begin = os.lseek(file, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return found
                raise
            end = os.lseek(file, begin, os.SEEK_HOLE)
            found.append((begin, end))
    finally:
        os.close(file)


def node(path, granularity_ns=1):
    found = os.lstat(path)
    mode = found.st_mode
    what = {"kind": stat.S_IFMT(mode), "mode": stat.S_IMODE(mode), "uid": found.st_uid, "gid": found.st_gid,
            "mtime_ns": found.st_mtime_ns - found.st_mtime_ns % granularity_ns, "attributes": attributes(path)}
    extents = None
    if stat.S_ISREG(mode):
        what["size"], what["content"] = found.st_size, content(path)
        extents = data_extents(path)
    elif stat.S_ISLNK(mode):
        what["target"] = os.readlink(path)
    elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        what["device"] = found.st_rdev
    inode = None if stat.S_ISDIR(mode) or found.st_nlink == 1 else (found.st_dev, found.st_ino)
    return Node(what, inode, extents)


def read(root, granularity_ns=1):
    """{path below the root: Node}, the root itself as b""."""
    found = {}
    waiting = [b""]
    while waiting:
        path = waiting.pop()
        whole = root + b"/" + path if path else root
        found[path] = node(whole, granularity_ns)
        if stat.S_ISDIR(found[path].what["kind"]):
            waiting += [path + b"/" + name if path else name for name in os.listdir(whole)]
    name_links(found)
    return found


def name_links(found):
    names = {}
    for path in sorted(found):
        if found[path].inode is not None:
            names.setdefault(found[path].inode, []).append(path)
    for paths in names.values():
        for path in paths:
            found[path].link = paths[0] if len(paths) > 1 else None


def without(paths, found):
    """A manifest less some paths and all below them, links named anew."""
    left = {path: node for path, node in found.items() if not is_below_any(path, paths)}
    copies = {}
    for path, kept in left.items():
        copies[path] = Node(kept.what, kept.inode, kept.extents)
    name_links(copies)
    return copies


def is_below_any(path, paths):
    """Whether it is one of them, or below one."""
    if b"" in paths:
        return True
    parts = path.split(b"/")
    return any(b"/".join(parts[:count]) in paths for count in range(1, len(parts) + 1))


def is_holey(restored, source):
    """Whether holes are still some, but for what a file system may have for a block of attributes."""
    filled = 0
    for low, high in restored:
        filled += high - low - sum(max(0, min(high, end) - max(low, begin)) for begin, end in source)
    return filled <= MAX_FILLED


def differences(source, restored, excused=frozenset()):
    """Texts; of what is excused, or below it, nothing is said."""
    source, restored = without(excused, source), without(excused, restored)
    found = []
    for path in sorted(source.keys() | restored.keys()):
        one, other = source.get(path), restored.get(path)
        if one is None or other is None:
            found.append(f"{path!r}: {'is new' if one is None else 'is not there'}")
        elif one.what != other.what:
            keys = [key for key in one.what.keys() | other.what.keys() if one.what.get(key) != other.what.get(key)]
            found.append(f"{path!r}: " + ", ".join(
                f"{key} {str(one.what.get(key))[:80]} became {str(other.what.get(key))[:80]}" for key in sorted(keys)))
        elif one.link != other.link:
            found.append(f"{path!r}: was a hard link of {one.link!r}, became one of {other.link!r}")
        elif one.extents is not None and not is_holey(other.extents, one.extents):
            found.append(f"{path!r}: holes were filled: data at {one.extents[:5]} became data at {other.extents[:5]}")
    return found
