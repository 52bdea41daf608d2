"""Random trees: every kind of node, names and metadata as odd as Linux takes them."""

import os
import stat
import struct

NANO = 1_000_000_000
FAR_NS = (-NANO * 1000 - 1, -1, 0, 1, NANO * 3_000_000_000 + 999_999_999)
HUGE_ID = 2**32 - 2
# A path has 4096 bytes with its NUL, those of the mount and of a target in front.
MAX_PATH = 2500
ODD_NAMES = (b"-rf", b"*", b"\\", b"a\nb", b" ", b"\xff\xfe", b"caf\xe9", "café".encode(), b"cafe\xcc\x81",
             b"\x01\x7f", b"\"'", b"..a", b"a:b", b"~", b"\xed\xa0\x80", b"CON", b"%s%n", b"[", b"{}", b"#x", b"\xe2\x80\xae")
BLOCK = 4096
OF_SECURITY = "security.fuzz"


class Maker:
    """Makes nodes below a root by a seeded generator."""

    def __init__(self, random, root, granularity_ns=1):
        self.random, self.root, self.granularity_ns = random, root, granularity_ns

    # Names and bytes.

    def name(self):
        kind = self.random.random()
        if kind < 0.5:
            return b"%s%d" % (self.random.choice((b"a", b"file", b"x.txt", b"data")), self.random.randrange(1000))
        if kind < 0.75:
            return self.random.choice(ODD_NAMES) + (b"%d" % self.random.randrange(50) if kind < 0.7 else b"")
        if kind < 0.85:
            return bytes(self.random.choice(b"abc\xc3\x28\xa0xyz") for _ in range(255))
        return bytes(self.random.choice([c for c in range(1, 256) if c != 47]) for _ in range(self.random.randint(3, 40)))

    def new_path(self, directory):
        """A name that is not there, in it."""
        while True:
            path = os.path.join(directory, self.name())
            if os.path.basename(path) not in (b".", b"..") and not os.path.lexists(path):
                return path

    def content(self):
        """Pieces (offset, bytes) and a size: holes lie between."""
        kind = self.random.random()
        if kind < 0.15:
            return [], 0
        if kind < 0.45:
            return whole(self.random.randbytes(self.random.randint(1, 3000)))
        if kind < 0.6:
            size = self.random.choice((4095, 4096, 4097, 8192, 12288, 12289, 65536))
            return whole(self.random.randbytes(size))
        if kind < 0.75:
            return whole(self.random.randbytes(500) * self.random.randint(1, 200))
        if kind < 0.87:
            return whole(self.random.randbytes(self.random.randint(20_000, 400_000)))
        if kind < 0.9:
            return whole(bytes(self.random.randint(1, 100_000)))
        pieces = [(BLOCK * self.random.randrange(0, 600), self.random.randbytes(self.random.randint(1, 2 * BLOCK)))
                  for _ in range(self.random.randint(0, 4))]
        end = max((offset + len(data) for offset, data in pieces), default=0)
        return pieces, end + self.random.choice((0, 1, BLOCK, 1_000_000))

    def write(self, path):
        pieces, size = self.content()
        with open(path, "r+b" if os.path.lexists(path) else "wb", buffering=0) as file:
            file.truncate(0)
            for offset, data in pieces:
                file.seek(offset)
                file.write(data)
            file.truncate(size)

    def write_bytes(self, path, count):
        with open(path, "wb") as file:
            file.write(self.random.randbytes(count))

    # What a node has beside its bytes.

    def mtime_ns(self):
        kind = self.random.random()
        if kind < 0.1:
            return self.random.choice(FAR_NS)
        return self.random.randrange(NANO * 1_500_000_000, NANO * 1_790_000_000)

    def dress(self, path, light=False):
        """Owner, mode, attributes, times. Light: times alone, mostly."""
        odd = 0.05 if light else 0.3
        kind = os.lstat(path).st_mode
        if self.random.random() < odd:
            os.lchown(path, self.random.choice((0, 1, 1000, 65534, HUGE_ID)), self.random.choice((0, 7, 65536, HUGE_ID)))
        if not stat.S_ISLNK(kind) and self.random.random() < odd:
            os.chmod(path, self.random.choice((0o000, 0o400, 0o600, 0o644, 0o755, 0o777, 0o1777, 0o2755, 0o4755, 0o6711)))
        if self.random.random() < odd:
            self.attribute(path, kind)
        if self.random.random() < 0.8:
            os.utime(path, ns=(0, self.mtime_ns()), follow_symlinks=False)

    def attribute(self, path, kind):
        names = ["trusted.kerf", "trusted.\u00e4", OF_SECURITY]
        if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
            names += ["user.a", "user.some.thing", "user." + "n" * 200, "acl"]
        if stat.S_ISREG(kind):
            names.append("capability")
        if stat.S_ISDIR(kind):
            names.append("default acl")
        name = self.random.choice(names)
        if name == "capability":
            # cap_net_raw+ep, revision 2.
            return os.setxattr(path, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
        if "acl" in name:
            return os.setxattr(path, "system.posix_acl_" + ("default" if "default" in name else "access"), self.acl())
        return os.setxattr(path, name, self.random.randbytes(self.random.choice((0, 1, 30, 600))), follow_symlinks=False)

    def acl(self):
        """As the kernel has it: version, then tag, permissions and id of each entry."""
        anybody = 0xFFFFFFFF
        permissions = [self.random.randrange(8) for _ in range(6)]
        users = sorted({self.random.choice((1, 1000, HUGE_ID)) for _ in range(2)})
        entries = [(1, permissions[0], anybody)] + [(2, permissions[1], user) for user in users]
        entries += [(4, permissions[2], anybody), (8, permissions[3], 1000), (16, permissions[4], anybody),
                    (32, permissions[5], anybody)]
        return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)

    # Nodes.

    def make(self, directory, existing=()):
        """One node in it; its path."""
        path = self.new_path(directory)
        kind = self.random.random()
        linkable = [other for other in existing if os.path.lexists(other) and not is_directory(other)]
        if kind < 0.15 and linkable:
            os.link(self.random.choice(linkable), path, follow_symlinks=False)
            return path
        if kind < 0.72:
            self.write(path)
        elif kind < 0.8:
            os.symlink(self.random.choice((b"a", b"/nowhere", b"..", b"\xff" * 100, b"t" * 1000, b"./")), path)
        elif kind < 0.86:
            os.mknod(path, stat.S_IFIFO | 0o640)
        elif kind < 0.9:
            make_socket(path)
        elif kind < 0.95:
            device = os.makedev(self.random.randrange(4096), self.random.randrange(2**20))
            os.mknod(path, self.random.choice((stat.S_IFCHR, stat.S_IFBLK)) | 0o600, device)
        else:
            os.mkdir(path)
        self.dress(path)
        return path

    def fill(self, directories, nodes):
        """A tree of about so many below the root; all its directories."""
        made, places = [], [self.root]
        for _ in range(directories):
            parent = self.random.choice(places[-3:] if self.random.random() < 0.6 else places)
            path = self.new_path(parent)
            if len(path) < MAX_PATH:
                os.mkdir(path)
                places.append(path)
        for _ in range(nodes):
            made.append(self.make(self.random.choice(places), made))
        # Times of directories last, for what is made in them moves them; not those of what lies in a tree.
        for path in places:
            self.dress(path)
        return places

    def tree(self):
        shape = self.random.random()
        if shape < 0.1:
            return self.fill(self.random.randint(20, 60), self.random.randint(5, 30))
        if shape < 0.15:
            return self.fill(2, self.random.randint(100, 250))
        return self.fill(self.random.randint(0, 8), self.random.randint(1, 40))


def whole(data):
    return [(0, data)], len(data)


def is_directory(path):
    return stat.S_ISDIR(os.lstat(path).st_mode)


def make_socket(path):
    """Its address may be too long to be bound to: it is made as a node."""
    os.mknod(path, stat.S_IFSOCK | 0o700)


def everything(root):
    """(paths of directories, of all else), in a fixed order."""
    directories, others = [root], []
    for path in directories:
        for name in sorted(os.listdir(path)):
            below = os.path.join(path, name)
            (directories if is_directory(below) else others).append(below)
    return directories, others
